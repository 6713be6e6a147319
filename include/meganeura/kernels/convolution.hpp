// SPDX-License-Identifier: MIT
// Convolutions (the output, the input or the filter from the other two) as products whose operands are never laid out.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/dtype.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/generator.hpp>

#include <span>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// `extents` and `types` are those of the node's operands, epilogue operands included.
[[nodiscard]] kernel_dispatch make_convolve(const convolve_attribute& node, std::span<const shape> extents,
                                            std::span<const dtype> types, dtype result, const device_profile& on);

template <>
struct generator<op::convolve> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_convolve(asked.get<convolve_attribute>(), asked.operand_extents(), asked.operand_types(), asked.type(),
                         asked.on);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/convolution.ipp>
#endif
