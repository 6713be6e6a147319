// SPDX-License-Identifier: MIT
// Kernels of fused loop nests: pointwise, and rows with any number of dependent reductions.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/generator.hpp>

#include <span>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// One dispatch that evaluates `region` over operands of the given types into results of the given types.
[[nodiscard]] kernel_dispatch make_region(const region_attribute& region, std::span<const dtype> operands,
                                          std::span<const dtype> results, const device_profile& on,
                                          operand_of_result overwritten = {});

template <>
struct generator<op::region> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_region(asked.get<region_attribute>(), asked.operand_types(), asked.result_types(), asked.on,
                       asked.overwritten);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/region.ipp>
#endif
