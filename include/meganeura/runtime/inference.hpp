// SPDX-License-Identifier: MIT
// Running any graph forward on a device.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/program.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

struct run_options {
  program_options program{};
  std::uint64_t seed = 0;  // of random streams: steps draw new numbers, the same seed the same from the first on
};

/// A graph ready to run forward. All that are built from one `parameters` share the weights.
class inference {
 public:
  /// Unless given, parameters are made without values: init, load or set them. errors: what `program` throws.
  inference(const device& on, const graph& g, const run_options& options = {}, meganeura::parameters weights = {});

  /// A handle to the weights.
  [[nodiscard]] meganeura::parameters parameters() const { return parameters_; }

  /// Runs once, waits and returns a copy of the only output: run({{"image", images}}). errors: those of `start` and
  /// `output`; invalid_argument for a graph of several outputs, naming them.
  std::vector<float> run(std::span<const input_values> inputs);
  std::vector<float> run(std::initializer_list<input_values> inputs) { return run({inputs.begin(), inputs.size()}); }

  /// Runs once without waiting; read outputs by name afterwards. Returns the run's number in `program`. errors:
  /// invalid_argument for an unknown or unbound input, another element type or size, and for parameters that have no
  /// values yet; the run then has not happened.
  std::uint64_t start(std::span<const input_values> inputs);
  std::uint64_t start(std::initializer_list<input_values> inputs) { return start({inputs.begin(), inputs.size()}); }

  /// A copy of a named output of the latest run; waits for it. errors: invalid_argument before the first run, for an
  /// unknown name, and for an output that is not f32.
  [[nodiscard]] std::vector<float> output(std::string_view name) const { return program_.output_f32(name); }

  /// What runs: plan, report, times, profile and outputs of any type.
  [[nodiscard]] const meganeura::program& program() const { return program_; }

 private:
  meganeura::parameters parameters_;
  std::uint64_t seed_;
  std::uint32_t runs_ = 0;
  meganeura::program program_;
};

namespace detail {

// With what tracing took.
[[nodiscard]] run_options after_trace(run_options options, double milliseconds);

// The program of a graph, and the graph's parameters where there are none yet.
[[nodiscard]] program make_program(const device& on, const graph& g, parameters& weights,
                                   const program_options& options);

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/inference.ipp>
#endif
