// SPDX-License-Identifier: MIT
// Attention in one kernel: scores stay in workgroup memory, and rows are weighed as their keys come by.
#pragma once
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/generator.hpp>

#include <span>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// `types`: the operands', all of f32 but for what the scores' program reads. errors: unsupported for others, for heads
/// wider than `fusion::widest_head` and rows longer than `fusion::most_keys`. source: arXiv 1805.02867, arXiv
/// 2205.14135.
[[nodiscard]] kernel_dispatch make_attention(const attention_attribute& node, std::span<const dtype> types,
                                             dtype result, const device_profile& on);

template <>
struct generator<op::attention> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_attention(asked.get<attention_attribute>(), asked.operand_types(), asked.type(), asked.on);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/attention.ipp>
#endif
