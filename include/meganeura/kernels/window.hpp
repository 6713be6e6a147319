// SPDX-License-Identifier: MIT
// Pooling and its adjoint. The adjoint gathers: each element asks the windows it lies in, so no atomics are needed.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/dtype.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/generator.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// x [outer..., in...] to [outer..., out...].
[[nodiscard]] kernel_dispatch make_window_reduce(const window_attribute& window, const shape& x, const shape& y,
                                                 dtype type, const device_profile& on);

/// Operands x, y for max (y goes to the first maximum of x in its window, a NaN if there is one), y for sum; the result
/// has the shape of x.
[[nodiscard]] kernel_dispatch make_window_scatter(const window_attribute& window, const shape& x, const shape& y,
                                                  dtype type, const device_profile& on);

template <>
struct generator<op::window_reduce> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_window_reduce(asked.get<window_attribute>(), asked.operand_extents()[0], asked.extents(), asked.type(),
                              asked.on);
  }
};

template <>
struct generator<op::window_scatter> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_window_scatter(asked.get<window_attribute>(), asked.extents(), asked.operand_extents().back(),
                               asked.type(), asked.on);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/window.ipp>
#endif
