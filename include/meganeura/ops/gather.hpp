// SPDX-License-Identifier: MIT
// Rows by integer indices, and the adjoint.
#pragma once
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

constexpr node_spec describe_gather(const facts& data, const facts& indices, int axis) {
  axis = normal_axis(axis, data.shape.rank);
  return node_of(op::gather, data.type, gathered_shape(data.shape, indices.shape, axis), axis_attribute{axis});
}

constexpr bool can_scatter(const symbolic_shape& shape, const symbolic_shape& indices, const symbolic_shape& updates,
                           int axis) {
  return can_gather(shape, indices, axis) && gathered_shape(shape, indices, axis) == updates;
}

constexpr node_spec describe_scatter_add(const facts&, const facts& updates, int axis, const symbolic_shape& shape) {
  return node_of(op::scatter_add, updates.type, shape, axis_attribute{normal_axis(axis, shape.rank)});
}

constexpr node_spec describe_index_add(const facts& x, const facts&, const facts&, int axis) {
  return node_of(op::index_add, x.type, x.shape, axis_attribute{normal_axis(axis, x.shape.rank)});
}

}  // namespace detail

/// Slices of `data` along `axis`, one for each index: gather<0>(data, indices), or gather(data, indices, 0).
/// shapes: data.shape[:axis] + indices.shape + data.shape[axis+1:]. dtypes: indices i32. An index out of range gives
/// zeros, and its gradient goes nowhere; the option `checks` names it.
/// ONNX's Gather and NumPy's take; torch.gather and NumPy's take_along_axis, an index for each element, are another
/// operation.
template <value Data, value Indices, detail::axis_like Axis>
[[nodiscard]] constexpr auto gather(Data data, Indices indices, Axis axis) {
  MEGANEURA_CHECK(indices.facts().type == dtype::i32, (detail::dtypes_agree<indices.facts().type, dtype::i32>),
                  "meganeura: gather<axis>(data, indices): indices must be i32", data, indices)
  MEGANEURA_EXPECT(detail::can_gather(data.facts().shape, indices.facts().shape, detail::axis_of(data, axis)),
                   "meganeura: gather<axis>(data, indices): no such axis", data, indices)
  return detail::make<detail::describe_gather>(data, indices, axis);
}
template <int Axis, value Data, value Indices>
[[nodiscard]] constexpr auto gather(Data data, Indices indices) {
  return gather(data, indices, c<Axis>);
}

/// zeros(shape) with each slice of `updates` added where its index says, or nowhere when that is out of range: the
/// adjoint of gather.
template <value Indices, value Updates, detail::axis_like Axis, class Shape>
[[nodiscard]] constexpr auto scatter_add(Indices indices, Updates updates, Axis axis, Shape shape) {
  MEGANEURA_CHECK(indices.facts().type == dtype::i32, (detail::dtypes_agree<indices.facts().type, dtype::i32>),
                  "meganeura: scatter_add<axis, dims>(indices, updates): indices must be i32", indices, updates)
  MEGANEURA_EXPECT(
      detail::can_scatter(detail::symbolic_of(shape), indices.facts().shape, updates.facts().shape,
                          detail::normal_axis(axis, detail::symbolic_of(shape).rank)),
      "meganeura: scatter_add<axis, dims>(indices, updates): updates must have the shape gather would return", indices,
      updates)
  return detail::make<detail::describe_scatter_add>(indices, updates, axis, detail::as_symbolic(shape));
}
template <int Axis, symbolic_shape Shape, value Indices, value Updates>
[[nodiscard]] constexpr auto scatter_add(Indices indices, Updates updates) {
  return scatter_add(indices, updates, c<Axis>, c<Shape>);
}

/// x with each slice of `updates` added where its index says, or nowhere when that is out of range; those for one place
/// add up: index_add<0>(x, indices, updates), or index_add(x, indices, updates, 0). torch.index_add.
/// shapes: x -> x's, updates: what gather(x, indices, axis) has. dtypes: x's and the updates' agree, indices i32.
/// gradient: to x as it is, to updates gathered. errors: "indices must be i32", "no such axis", "updates must have
/// x's dtype and the shape gather would return".
template <value X, value Indices, value Updates, detail::axis_like Axis>
[[nodiscard]] constexpr auto index_add(X x, Indices indices, Updates updates, Axis axis) {
  MEGANEURA_CHECK(indices.facts().type == dtype::i32, (detail::dtypes_agree<indices.facts().type, dtype::i32>),
                  "meganeura: index_add<axis>(x, indices, updates): indices must be i32", x, indices, updates)
  MEGANEURA_EXPECT(detail::can_gather(x.facts().shape, indices.facts().shape, detail::axis_of(x, axis)),
                   "meganeura: index_add<axis>(x, indices, updates): no such axis", x, indices, updates)
  MEGANEURA_EXPECT(
      (updates.facts().type == x.facts().type &&
       detail::can_scatter(x.facts().shape, indices.facts().shape, updates.facts().shape, detail::axis_of(x, axis))),
      "meganeura: index_add<axis>(x, indices, updates): updates must have x's dtype and the shape gather "
      "would return",
      x, indices, updates)
  return detail::make<detail::describe_index_add>(x, indices, updates, axis);
}
template <int Axis, value X, value Indices, value Updates>
[[nodiscard]] constexpr auto index_add(X x, Indices indices, Updates updates) {
  return index_add(x, indices, updates, c<Axis>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
