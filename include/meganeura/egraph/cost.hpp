// SPDX-License-Identifier: MIT
// What a node costs on a device: a roofline over bytes and operations, plus a launch.
#pragma once
#include <meganeura/egraph/egraph.hpp>

namespace meganeura::inline MEGANEURA_ABI::egraph {

/// Seconds are predicted from these; the defaults are near an H200. Measurements may replace them.
struct cost_model {
  double bandwidth = 4e12;           // bytes per second
  double scalar_flops = 30e12;       // f32 operations per second of plain arithmetic
  double matmul_flops = 40e12;       // of products and convolutions
  double launch = 1.5e-6;            // seconds a dispatch with its share of a barrier
  double transcendental = 8;         // scalar operations one exp, log, ... is worth
  double strided_read = 4;           // how much more a read without unit stride moves
  double full_occupancy = 65536;     // invocations needed to reach the bandwidth
  std::int64_t compute_units = 132;  // tiles of a product computed side by side; 0: one after the other
  std::int64_t split_terms = 512;    // least terms of a part of a split sum: fewer do not pay for storing it
};

/// Seconds of one implementation node; 0 for leaves; infinite for what no kernel runs (primitives).
[[nodiscard]] double node_cost(const engine& g, enode_id id, const cost_model& model);
[[nodiscard]] double region_cost(const region_attribute& region, std::span<const std::int64_t> source_bytes,
                                 std::int64_t result_bytes, const cost_model& model);
/// Scalar operations of one evaluation.
[[nodiscard]] double program_cost(const scalar_program& program, const cost_model& model);

}  // namespace meganeura::inline MEGANEURA_ABI::egraph

#if MEGANEURA_HEADER_ONLY
#include <meganeura/egraph/cost.ipp>
#endif
