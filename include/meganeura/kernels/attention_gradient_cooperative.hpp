// SPDX-License-Identifier: MIT
// Gradients of attention on matrix units, with scores and what they weigh in registers.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>

#include <span>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// For schedules on units, as `make_attention_gradient`. errors: unsupported where the device has no such units or no
/// room.
[[nodiscard]] kernel_dispatch make_cooperative_attention_gradient(const attention_attribute& node,
                                                                  std::span<const dtype> types,
                                                                  const device_profile& on);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/attention_gradient_cooperative.ipp>
#endif
