// SPDX-License-Identifier: MIT
// Rows as f16 terms in memory, made once for all workgroups that read them.
#pragma once
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/generator.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// One operand, of f32; see prepare_attribute. errors: unsupported for rows longer than
/// `fusion::can_prepare` has it.
[[nodiscard]] kernel_dispatch make_prepare_rows(const prepare_attribute& node, const device_profile& on);

template <>
struct generator<op::prepare_rows> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_prepare_rows(asked.get<prepare_attribute>(), asked.on);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/prepare_rows.ipp>
#endif
