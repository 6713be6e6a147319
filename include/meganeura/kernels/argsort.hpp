// SPDX-License-Identifier: MIT
// The places of a row's elements in the order of their values.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/generator.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// One operand of that shape and dtype. A workgroup sorts a row, or several short ones, by Batcher's bitonic network:
/// log2(n) (log2(n) + 1) / 2 passes over n / 2 pairs, with a barrier after each; in workgroup memory where a row fits,
/// otherwise in the result. Where a driver ends long loops a row has up to 2^19 elements if a workgroup has 1,024
/// invocations.
[[nodiscard]] kernel_dispatch make_argsort(const shape& extents, dtype type, const argsort_attribute& how,
                                           const device_profile& on);

template <>
struct generator<op::argsort> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_argsort(asked.extents(), asked.operand_types()[0], asked.get<argsort_attribute>(), asked.on);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/argsort.ipp>
#endif
