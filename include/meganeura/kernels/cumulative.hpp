// SPDX-License-Identifier: MIT
// Running sums, products and places of extrema along an axis.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/generator.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// One operand of that shape and dtype. The invocations that share a row take its elements in turns, each some that lie
/// side by side, and find what stands before their own in workgroup memory. What is carried from turn to turn is, of
/// sums of floats, a number and its rounding error: errors do not grow with the number of turns.
[[nodiscard]] kernel_dispatch make_cumulative(const shape& extents, dtype type, const cumulative_attribute& how,
                                              const device_profile& on);

template <>
struct generator<op::cumulative> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_cumulative(asked.extents(), asked.operand_types()[0], asked.get<cumulative_attribute>(), asked.on);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/cumulative.ipp>
#endif
