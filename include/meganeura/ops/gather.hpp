// SPDX-License-Identifier: MIT
// Rows by integer indices, and the adjoint.
#pragma once
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
constexpr symbolic_shape gathered(const symbolic_shape& data, const symbolic_shape& indices, int axis) {
  symbolic_shape result;
  for (int i = 0; i < axis; ++i) result.push_back(data[i]);
  for (int i = 0; i < indices.rank; ++i) result.push_back(indices[i]);
  for (int i = axis + 1; i < data.rank; ++i) result.push_back(data[i]);
  return result;
}
}  // namespace detail

/// Slices of `data` along `Axis`, one for each index.
/// shapes: data.shape[:axis] + indices.shape + data.shape[axis+1:]. dtypes: indices i32. An index out of range gives
/// zeros, and its gradient goes nowhere; the option `checks` names it.
template <int Axis, auto Data, auto Indices>
[[nodiscard]] constexpr auto gather(expr<Data>, expr<Indices>) {
  constexpr const symbolic_shape& from = *Data.root().shape;
  constexpr const symbolic_shape& at = *Indices.root().shape;
  constexpr int axis = detail::normal_axis(Axis, from.rank);
  static_assert(axis >= 0 && from.rank + at.rank - 1 <= max_rank,
                "meganeura: gather<axis>(data, indices): no such axis");
  static_assert(detail::dtypes_agree<Indices.root().type, dtype::i32>,
                "meganeura: gather<axis>(data, indices): indices must be i32");
  return detail::apply<detail::make_node(primitive::gather, Data.root().type,
                                         detail::interned_shape<detail::gathered(from, at, axis)>, axis),
                       Data, Indices>();
}

/// zeros(Shape) with each slice of `updates` added where its index says, or nowhere when that is out of range: the
/// adjoint of gather.
template <int Axis, symbolic_shape Shape, auto Indices, auto Updates>
[[nodiscard]] constexpr auto scatter_add(expr<Indices>, expr<Updates>) {
  constexpr int axis = detail::normal_axis(Axis, Shape.rank);
  static_assert(
      axis >= 0 && detail::gathered(Shape, *Indices.root().shape, axis) == *Updates.root().shape,
      "meganeura: scatter_add<axis, dims>(indices, updates): updates must have the shape gather would return");
  static_assert(detail::dtypes_agree<Indices.root().type, dtype::i32>,
                "meganeura: scatter_add<axis, dims>(indices, updates): indices must be i32");
  return detail::apply<detail::make_node(primitive::scatter_add, Updates.root().type, detail::interned_shape<Shape>,
                                         axis),
                       Indices, Updates>();
}

}  // namespace meganeura::inline MEGANEURA_ABI
