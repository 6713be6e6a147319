// SPDX-License-Identifier: MIT
// Random graphs with what surrounds them in a program: outputs, assigns, gradients, an optimiser, options.
#pragma once
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/plan/plan.hpp>

#include <support/random_graph.hpp>
#include <support/stability.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// A program and values for its leaves.
struct sample {
  graph source;
  oracle::tensors<double> leaves;
  fusion::optimize_options optimize;
  plan::plan_options plan;
};

/// `steps` and `only_output` shrink a failing graph: fewer nodes, one output. Without `specials` every
/// value is an ordinary number, of which alone every device promises the same results.
std::optional<sample> make_sample(std::uint64_t seed, int steps, int only_output = -1, bool specials = true);

/// One product of sizes around those of matrix units' tiles, of f32, f16 or converted f16, in some order of axes, with
/// what may stand before and behind it; no extent but that of the sum is beyond `most`.
sample make_product_sample(std::uint64_t seed, std::int64_t most);

/// Of any optimiser, whatever it takes its numbers for: f32 holds them exactly and none is small.
kernels::step_values training_values(std::uint32_t step);

/// Checks the sample of a seed, see make_sample.
using check = std::function<void(std::uint64_t seed, int steps, int only_output, verdict&)>;

/// Runs `count` seeds, or those that MEGANEURA_FUZZ_SEED, _FIRST and _COUNT say; a failure is shrunk and printed.
void fuzz(std::uint64_t count, const check& run, const std::function<std::string(int, int, std::uint64_t)>& print);

}  // namespace meganeura::inline MEGANEURA_ABI::support
