// SPDX-License-Identifier: MIT
// The kernel of an optimiser: its program over flat arrays, in place.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// Bindings: parameter, gradient, each moment, flat arrays of `count` f32; where gradients are `scaled`, the number;
/// step_values. An invocation updates four elements, which it loads and stores at once.
[[nodiscard]] kernel_dispatch make_optimizer(const optimizer_attribute& rule, std::int64_t count,
                                             const device_profile& on, bool scaled = false);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/optimizer.ipp>
#endif
