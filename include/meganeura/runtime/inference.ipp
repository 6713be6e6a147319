// SPDX-License-Identifier: MIT
// Definitions for runtime/inference.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/runtime/inference.hpp>

#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE program detail::make_program(const device& on, const graph& g, parameters& weights,
                                              optimizer_moments& moments, const program_options& options,
                                              const build_times& before) {
  parameters kept = weights ? weights : parameters(on, g);
  program made(on, g, kept, options, moments, before);
  weights = std::move(kept);  // only now: a build that failed leaves none of its making
  moments = made.moments();
  return made;
}

MEGANEURA_INLINE inference::inference(const device& on, const graph& g, const run_options& options,
                                      meganeura::parameters weights) try
    : device_(on), options_(options), parameters_(std::move(weights)), programs_(on, {}, 1) {
  (void)programs_.at({}, {}, [&](const symbol_extents&) {
    return detail::make_program(on, g, parameters_, moments_, options.program, {});
  });
} catch (...) {
  rethrow_as_error("building a session");
}

MEGANEURA_INLINE inference::inference(const device& on, sized<graph> g, const run_options& options,
                                      meganeura::parameters weights) try
    : device_(on),
      make_(std::move(g.make)),
      options_(options),
      parameters_(std::move(weights)),
      programs_(on, std::move(g.sizes), options.most_sizes) {
  if (!programs_.sizes().any()) prepare({});
} catch (...) {
  rethrow_as_error("building a session");
}

MEGANEURA_INLINE inference::inference(inference&&) noexcept = default;
MEGANEURA_INLINE inference& inference::operator=(inference&&) noexcept = default;
MEGANEURA_INLINE inference::~inference() = default;

MEGANEURA_INLINE program& inference::select(std::span<const input_values> inputs, const symbol_extents& sizes) try {
  return *programs_.at(inputs, sizes, [this](const symbol_extents& at) {
    const detail::timed<graph> traced = detail::take_time([&] { return make_(at, run_mode::evaluation); });
    return detail::make_program(device_, traced.made, parameters_, moments_, options_.program,
                                {.trace = traced.milliseconds});
  });
} catch (...) {
  rethrow_as_error("building a session");
}

MEGANEURA_INLINE std::vector<float> inference::run(std::span<const input_values> inputs,
                                                   const symbol_extents& sizes) try {
  meganeura::program& selected = select(inputs, sizes);
  const auto& outputs = selected.plan().outputs;
  if (outputs.empty()) {
    fail(
        error_category::invalid_argument,
        "run returns the only output and this graph has none, as one that was moved from; name what is to be read with "
        "add_output");
  }
  if (outputs.size() != 1) {
    fail(error_category::invalid_argument, "run returns the only output and this graph has {}; use start and read",
         detail::quoted_names(outputs));
  }
  submit(selected, inputs);
  return read(outputs[0].name);
} catch (...) {
  rethrow_as_error("a run");
}

MEGANEURA_INLINE std::uint64_t inference::start(std::span<const input_values> inputs, const symbol_extents& sizes) {
  return submit(select(inputs, sizes), inputs);
}

MEGANEURA_INLINE std::uint64_t inference::submit(meganeura::program& selected, std::span<const input_values> inputs) {
  const std::uint64_t number = selected.submit(kernels::step_values_of(runs_ + 1, options_.seed), inputs);
  ++runs_;  // only now: a refused run draws nothing, and what was read before it still is
  programs_.ran();
  return number;
}

}  // namespace meganeura::inline MEGANEURA_ABI
