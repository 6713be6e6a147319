// SPDX-License-Identifier: MIT
// Running any graph forward on a device.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/program.hpp>
#include <meganeura/runtime/sized_programs.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// How a model runs.
struct run_options {
  program_options program{};   // of each choice of sizes
  std::uint64_t seed = 0;      // of random streams: steps draw new numbers, the same seed the same from the first on
  std::size_t most_sizes = 8;  // that programs stay for, each with memory of its own; the one unused longest goes
};

/// A graph ready to run forward. All that are built from one `parameters` share the weights. One thread at a time calls
/// it; each thread may have one of its own.
class inference {
 public:
  /// Unless given, parameters are made without values: init, load or set them. errors: what `program` throws.
  inference(const device& on, const graph& g, const run_options& options = {}, meganeura::parameters weights = {});
  /// Sizes come from what is bound: a run with new ones builds a program first, one with known ones does not. Where
  /// every symbol is fixed, the program is built at once; where none is and no parameters are given, they are made by
  /// the first program.
  inference(const device& on, sized<graph> g, const run_options& options = {}, meganeura::parameters weights = {});
  /// What was moved from can be assigned to or destroyed; every other call that does something throws invalid_argument.
  inference(inference&&) noexcept;
  inference& operator=(inference&&) noexcept;
  ~inference();

  /// A handle to the weights.
  [[nodiscard]] meganeura::parameters parameters() const { return parameters_; }

  /// Runs once, waits and returns a copy of the only output: run({{"image", images}}). `sizes` has the symbols that
  /// inputs leave open. errors: those of `start` and `read`; invalid_argument for a graph of several outputs, naming
  /// them.
  std::vector<float> run(std::span<const input_values> inputs, const symbol_extents& sizes = {});
  std::vector<float> run(std::initializer_list<input_values> inputs, const symbol_extents& sizes = {}) {
    return run({inputs.begin(), inputs.size()}, sizes);
  }

  /// Runs once without waiting; read outputs by name afterwards. Returns the run's number in `program`. errors:
  /// invalid_argument for an unknown or unbound input, another element type or size, for sizes that are not known, and
  /// for parameters that have no values yet; the run then has not happened.
  std::uint64_t start(std::span<const input_values> inputs, const symbol_extents& sizes = {});
  std::uint64_t start(std::initializer_list<input_values> inputs, const symbol_extents& sizes = {}) {
    return start({inputs.begin(), inputs.size()}, sizes);
  }

  /// A copy of a named output of the latest run; waits for it: float for floats of any width, read<std::int32_t>(name)
  /// for integers. errors: invalid_argument before the first run, for an unknown name, and for an output of another
  /// type.
  template <class Number = float>
  [[nodiscard]] std::vector<Number> read(std::string_view name) const {
    return program().output_as<Number>(name);
  }

  /// Builds the program for these sizes now, so that no run waits for it. What can be read stays what ran last. What is
  /// returned lives until `most_sizes` other sizes ran or were prepared, or memory was short.
  const meganeura::program& prepare(const symbol_extents& sizes) {
    const meganeura::program& made = select({}, sizes);
    programs_.keep();
    return made;
  }

  /// What ran last, or before the first run was prepared: plan, report, times, profile and outputs of any type. errors:
  /// invalid_argument before either.
  [[nodiscard]] const meganeura::program& program() const { return programs_.latest(); }

 private:
  meganeura::program& select(std::span<const input_values> inputs, const symbol_extents& sizes);
  std::uint64_t submit(meganeura::program& selected, std::span<const input_values> inputs);

  device device_;
  std::function<graph(const symbol_extents&, run_mode)> make_;
  run_options options_;
  meganeura::parameters parameters_;
  optimizer_moments moments_;
  std::uint32_t runs_ = 0;  // modulo 2^32: draws come again then
  detail::sized_programs programs_;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/inference.ipp>
#endif
