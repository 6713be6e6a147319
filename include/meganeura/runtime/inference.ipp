// SPDX-License-Identifier: MIT
// Definitions for runtime/inference.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/runtime/inference.hpp>

#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE run_options detail::after_trace(run_options options, double milliseconds) {
  options.program.before.trace = milliseconds;
  return options;
}

MEGANEURA_INLINE program detail::make_program(const device& on, const graph& g, parameters& weights,
                                              const program_options& options) {
  if (!weights) weights = parameters(on, g);
  return program(on, g, weights, options);
}

MEGANEURA_INLINE inference::inference(const device& on, const graph& g, const run_options& options,
                                      meganeura::parameters weights) try
    : parameters_(std::move(weights)),
      seed_(options.seed),
      program_(detail::make_program(on, g, parameters_, options.program)) {
} catch (...) {
  rethrow_as_error("building a session");
}

MEGANEURA_INLINE std::vector<float> inference::run(std::span<const input_values> inputs) try {
  const auto& outputs = program_.plan().outputs;
  if (outputs.size() != 1) {
    fail(error_category::invalid_argument, "run returns the only output and this graph has {}; use start and output",
         detail::quoted_names(outputs));
  }
  start(inputs);
  return output(outputs[0].name);
} catch (...) {
  rethrow_as_error("a run");
}

MEGANEURA_INLINE std::uint64_t inference::start(std::span<const input_values> inputs) {
  const std::uint64_t number = program_.submit(kernels::step_values_of(runs_ + 1, seed_), inputs);
  ++runs_;  // only now: a refused run draws nothing
  return number;
}

}  // namespace meganeura::inline MEGANEURA_ABI
