// SPDX-License-Identifier: MIT
// Gradients of attention in one kernel for queries and one for keys and values: weights are computed again from scores.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>

#include <span>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// For nodes whose form is a gradient, on multiply-add. `types`: the operands', all of f32 but for what the scores'
/// program reads. errors: unsupported for others and where workgroup memory has no room for the heads. source: arXiv
/// 2205.14135.
[[nodiscard]] kernel_dispatch make_attention_gradient(const attention_attribute& node, std::span<const dtype> types,
                                                      const device_profile& on);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/attention_gradient.ipp>
#endif
