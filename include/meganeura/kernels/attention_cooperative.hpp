// SPDX-License-Identifier: MIT
// Attention on matrix units: scores and weights stay in registers, where results of one product are operands of the
// next.
#pragma once
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/generator.hpp>

#include <span>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// As make_attention, of a schedule on units. errors: unsupported where the device has no such units, or no room.
[[nodiscard]] kernel_dispatch make_cooperative_attention(const attention_attribute& node, std::span<const dtype> types,
                                                         const device_profile& on);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/attention_cooperative.ipp>
#endif
