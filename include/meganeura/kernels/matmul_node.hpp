// SPDX-License-Identifier: MIT
// From a matmul node of the implementation graph to its kernel.
#pragma once
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/generator.hpp>
#include <meganeura/kernels/matmul.hpp>

#include <span>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// The node as the matmul generator takes it; `types` are the operands', epilogue operands from position 2 on.
/// errors: unsupported for products of other types than f32 and f16; internal for a bounded access in the epilogue.
[[nodiscard]] matmul_problem make_matmul_problem(const matmul_attribute& node, std::span<const dtype> types,
                                                 dtype result);

/// With the node's schedule or, where it has none, the one that suits the device.
[[nodiscard]] kernel_dispatch make_matmul(const matmul_attribute& node, std::span<const dtype> types, dtype result,
                                          const device_profile& on, matmul_problem::parameter_operands parameters = {});

template <>
struct generator<op::matmul> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    const auto& node = asked.get<matmul_attribute>();
    const bool is_right = asked.is_parameter(1) && (!node.paired || asked.is_parameter(2));
    return make_matmul(node, asked.operand_types(), asked.type(), asked.on,
                       {.a = asked.is_parameter(0) && !is_right, .b = is_right});
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/matmul_node.ipp>
#endif
