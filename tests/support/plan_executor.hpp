// SPDX-License-Identifier: MIT
// Runs a plan on bytes in memory: dispatches of a group in any order, those in place element by element in any order.
#pragma once
#include <meganeura/plan/plan.hpp>

#include <oracle/interpreter.hpp>
#include <support/random_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// What a buffer of f32 keeps of a value computed in f64.
void round_as_memory(oracle::tensor<double>& value);

/// Independent of plan::verify: it looks at the bytes each dispatch is bound to, and what it reads is what lies there.
/// Every violation is an error whose sentence names the step.
class plan_executor {
 public:
  plan_executor(const plan::execution_plan& p, std::uint64_t seed);

  void set_leaf(const std::string& name, const oracle::tensor<double>& value);
  oracle::tensors<double> leaves() const;
  /// One step of the program, before it what is folded if a parameter was set since; what it returns was read after its
  /// last dispatch.
  oracle::tensors<double> run(const kernels::step_values& values);

 private:
  [[nodiscard]] std::vector<plan::range> kept() const;
  void forget(const std::vector<plan::range>& kept);
  void run_groups(const std::vector<plan::step>& steps);
  void run_group(const std::vector<plan::step>& steps, std::size_t first, std::size_t last);
  void check_written(const plan::range& r, std::size_t step) const;
  // Dispatches of one group may run at once: what one writes no other may touch.
  void check_group(const std::vector<plan::step>& steps, std::size_t index, std::size_t first, std::size_t last) const;
  // Whether the kernel may write where it reads as far as it is known here: running it shows the rest.
  [[nodiscard]] bool in_place(const plan::step& s) const;
  void run_step(const plan::step& s);
  // As kernels do: whatever one element of the result needs is read (where a row is reduced to it, the whole row), then
  // it is stored, in any order. What an operand holds by then is what the elements before have left of it.
  void run_in_place(const plan::step& s);
  [[nodiscard]] double read(const plan::step& s, const index_map& from, const oracle::index_vector& index,
                            int rank) const;
  // Over the flat range of the areas, the padding between tensors included.
  void run_optimizer(const plan::step& s);

  const plan::execution_plan& plan_;
  dice dice_;
  oracle::interpreter<double> oracle_;
  std::vector<std::vector<std::byte>> memory_;  // by plan::index_of
  std::vector<std::vector<bool>> written_;
  bool is_folded_ = false;  // for the parameters as they are
};

}  // namespace meganeura::inline MEGANEURA_ABI::support
