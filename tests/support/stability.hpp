// SPDX-License-Identifier: MIT
// How far two right ways to compute a value may differ: as far as it moves when operations are as wrong as they may be.
#pragma once
#include <meganeura/core/precision.hpp>

#include <oracle/interpreter.hpp>
#include <support/random_graph.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// Of one graph or of many.
struct verdict {
  std::size_t compared = 0, unstable = 0;
  std::string text;  // what went wrong, a line each
  void fail(const std::string& what) {
    if (text.size() < 4000) text += what + "\n";
  }
  [[nodiscard]] bool failed() const { return !text.empty(); }
};

/// The interpreter computes like device `number` from now on, every operation off by up to `errors` times what Vulkan
/// permits (oracle/precision.hpp); it stays where it is.
void disturb(const graph& g, oracle::interpreter<double>& run, bool exact, std::uint64_t number, double errors,
             precision products = precision::exact);

/// One graph's values with and without disturbance, node by node; the graph may grow.
class stability {
 public:
  stability(const graph& g, const oracle::tensors<double>& leaves, bool exact, const kernels::step_values& step);
  /// `describe` is asked for words only when they differ.
  void expect_equal(node_id form, node_id value, verdict& v, const std::function<std::string()>& describe);

 private:
  oracle::interpreter<double>& disturbed(std::size_t i);

  const graph& graph_;
  const oracle::tensors<double>& leaves_;
  bool exact_;
  kernels::step_values step_;
  double noise_;
  oracle::interpreter<double> truth_;
  std::vector<std::unique_ptr<oracle::interpreter<double>>> runs_;
};

/// Outputs and leaves after one step, with and without disturbance. Graph and leaves are looked at again.
class stable_run {
 public:
  stable_run(const graph& g, const oracle::tensors<double>& leaves, bool exact, const kernels::step_values& step,
             precision products = precision::exact);
  [[nodiscard]] const oracle::tensors<double>& outputs() const { return truth_.outputs; }
  [[nodiscard]] const oracle::tensors<double>& leaves() const { return truth_.leaves; }
  void expect_output(const std::string& name, const oracle::tensors<double>& found, verdict& v,
                     double rounding = 1e-9) const;
  void expect_leaf(const std::string& name, const oracle::tensors<double>& found, verdict& v,
                   double rounding = 1e-9) const;

 private:
  struct results {
    oracle::tensors<double> outputs, leaves;
  };

  void expect(oracle::tensors<double> results::*which, const std::string& name, const oracle::tensors<double>& found,
              verdict& v, const char* what, double rounding) const;
  const results& disturbed(std::size_t i) const;

  const graph& graph_;
  const oracle::tensors<double>& given_;
  bool exact_;
  kernels::step_values step_;
  precision products_;
  double noise_;
  results truth_;
  mutable std::vector<results> runs_;  // made when asked for
};

/// The slopes of a scalar against central differences along one random direction, where it is smooth along it.
void compare_directional(const graph& g, node_id loss, const std::vector<node_id>& wrt,
                         const std::vector<node_id>& slopes, const oracle::tensors<double>& leaves, dice& d,
                         verdict& v);

}  // namespace meganeura::inline MEGANEURA_ABI::support
