// SPDX-License-Identifier: MIT
// How long a node takes on a device: a roofline over bytes and operations.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/fusion/engine.hpp>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// Of one implementation node; 0 for leaves; infinite for what no kernel runs (primitives).
[[nodiscard]] kernel_time node_time(const engine& g, enode_id id, const device_profile& device);
[[nodiscard]] kernel_time region_time(const region_attribute& region, std::span<const std::int64_t> source_bytes,
                                      std::int64_t result_bytes, const device_profile& device);
/// Scalar operations of one evaluation.
[[nodiscard]] double program_cost(const scalar_program& program, const device_profile& device);

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/cost.ipp>
#endif
