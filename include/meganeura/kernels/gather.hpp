// SPDX-License-Identifier: MIT
// Reading, adding and writing at places that indices choose.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/generator.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// Operands data, indices (i32). An index out of range gives zeros.
[[nodiscard]] kernel_dispatch make_gather(const shape& data, const shape& indices, int axis, dtype type,
                                          const device_profile& on);

/// Operands indices (i32), updates; an index out of range adds nothing. Deterministic: every element adds its updates
/// in an order that only the shapes and the device decide; no atomics. The error of a sum grows with the logarithm of
/// its length.
[[nodiscard]] kernel_dispatch make_scatter_add(const shape& result, const shape& indices, int axis, dtype type,
                                               const device_profile& on);

/// The same with operands x, indices and updates, added into x. `in_place`: the result is x's memory, and the rows
/// alone that are found are written. What nothing is added to may become 0 where it was -0.
[[nodiscard]] kernel_dispatch make_index_add(const shape& x, const shape& indices, int axis, dtype type, bool in_place,
                                             const device_profile& on);

/// Operands data, indices (i32) of the result's shape. An index out of range gives 0.
[[nodiscard]] kernel_dispatch make_take_along(const shape& data, const shape& indices, int axis, dtype type,
                                              const device_profile& on);

/// Operands indices (i32), updates; an index out of range is left out. Each element of the result looks at the indices
/// along the axis, as deterministic and exact as scatter_add. cost: an index each for all pairs of places along it.
[[nodiscard]] kernel_dispatch make_scatter_along(const shape& result, const shape& indices,
                                                 const scatter_attribute& how, dtype type, const device_profile& on);

/// Operands data and a position (i32): rows of `result` from there on; those that lie outside are zeros.
[[nodiscard]] kernel_dispatch make_narrow(const shape& data, const shape& result, int axis, dtype type,
                                          const device_profile& on);

/// Operands x, rows and a position (i32). `in_place`: the result is x's memory, and the rows alone are written.
[[nodiscard]] kernel_dispatch make_update_rows(const shape& x, const shape& rows, int axis, dtype type, bool in_place,
                                               const device_profile& on);

template <>
struct generator<op::narrow> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_narrow(asked.operand_extents()[0], asked.extents(), asked.get<axis_attribute>().axis, asked.type(),
                       asked.on);
  }
};

template <>
struct generator<op::update_rows> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_update_rows(asked.extents(), asked.operand_extents()[1], asked.get<axis_attribute>().axis, asked.type(),
                            !asked.overwritten.empty(), asked.on);
  }
};

template <>
struct generator<op::gather> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    const std::vector<shape> operands = asked.operand_extents();
    return make_gather(operands[0], operands[1], asked.get<axis_attribute>().axis, asked.type(), asked.on);
  }
};

template <>
struct generator<op::scatter_add> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_scatter_add(asked.extents(), asked.operand_extents()[0], asked.get<axis_attribute>().axis, asked.type(),
                            asked.on);
  }
};

template <>
struct generator<op::index_add> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_index_add(asked.extents(), asked.operand_extents()[1], asked.get<axis_attribute>().axis, asked.type(),
                          !asked.overwritten.empty(), asked.on);
  }
};

template <>
struct generator<op::take_along> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_take_along(asked.operand_extents()[0], asked.extents(), asked.get<axis_attribute>().axis, asked.type(),
                           asked.on);
  }
};

template <>
struct generator<op::scatter_along> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_scatter_along(asked.extents(), asked.operand_extents()[0], asked.get<scatter_attribute>(), asked.type(),
                              asked.on);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/gather.ipp>
#endif
