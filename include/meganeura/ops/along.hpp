// SPDX-License-Identifier: MIT
// Elements along an axis by an index for each: taken, put, added.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

constexpr node_spec describe_take_along(const facts& data, const facts& indices, int axis) {
  return node_of(op::take_along, data.type, indices.shape, axis_attribute{normal_axis(axis, data.shape.rank)});
}

// Into the shape of `like`.
constexpr node_spec describe_scatter_along(const facts&, const facts& updates, const symbolic_shape& like, int axis,
                                           reduce_kind kind) {
  return node_of(op::scatter_along, updates.type, like, scatter_attribute{normal_axis(axis, like.rank), kind});
}

constexpr bool are_indices_along(const facts& data, const facts& indices, int axis) {
  return indices.type == dtype::i32 && can_take_along(data.shape, indices.shape, normal_axis(axis, data.shape.rank));
}

}  // namespace detail

namespace layers {

struct put_along {
  static constexpr auto forward(value auto x, value auto indices, value auto updates, int axis) {
    const auto along = detail::normal_axis(axis, x.facts().shape.rank);
    const auto turn = detail::coordinates_of(x, indices.facts().shape, along);
    const auto last =
        detail::make<detail::describe_scatter_along>(indices, turn, x.facts().shape, axis, reduce_kind::max);
    const auto put = detail::make<detail::describe_take_along>(updates, maximum(last, 0), axis);
    return select(less(last, 0), x, put);
  }
};

struct add_along {
  static constexpr auto forward(value auto x, value auto indices, value auto updates, int axis) {
    return x + detail::make<detail::describe_scatter_along>(indices, updates, x.facts().shape, axis, reduce_kind::sum);
  }
};

}  // namespace layers

/// Elements of `data` along `axis`, one for each index: result[.., i, ..] = data[.., indices[.., i, ..], ..];
/// take_along<-1>(data, indices), or take_along(data, indices, -1). An index out of range gives 0, and its gradient
/// goes nowhere; the option `checks` names it. torch.gather, NumPy's take_along_axis, ONNX's GatherElements. shapes:
/// data [.., n, ..], indices [.., m, ..] -> [.., m, ..]. dtypes: indices i32. cost: reads and writes an element an
/// index; the adjoint looks at all m indices for each of the n. errors: "indices must be i32, with data's extents but
/// for the axis".
template <value Data, value Indices, detail::axis_like Axis>
[[nodiscard]] constexpr auto take_along(Data data, Indices indices, Axis axis) {
  MEGANEURA_EXPECT(detail::are_indices_along(data.facts(), indices.facts(), axis),
                   "meganeura: take_along<axis>(data, indices): indices must be i32, with data's extents but for the "
                   "axis, which exists",
                   data, indices)
  return detail::make<detail::describe_take_along>(data, indices, axis);
}
template <int Axis, value Data, value Indices>
[[nodiscard]] constexpr auto take_along(Data data, Indices indices) {
  return take_along(data, indices, c<Axis>);
}

/// x with updates written over it where the indices along `axis` say: put_along<-1>(x, indices, updates), or
/// put_along(x, indices, updates, -1). Of several for one place the last along the axis stays; an index out of range
/// writes nothing. torch.scatter, NumPy's put_along_axis, ONNX's ScatterElements.
/// shapes: x [.., n, ..], indices and updates [.., m, ..] -> x's. gradient: to x and to updates that stay. cost: all
/// pairs of places along the axis. errors: "indices must be i32, with x's extents but for the axis", "updates must have
/// x's dtype and the indices' shape".
template <value X, value Indices, value Updates, detail::axis_like Axis>
[[nodiscard]] constexpr auto put_along(X x, Indices indices, Updates updates, Axis axis) {
  MEGANEURA_EXPECT(detail::are_indices_along(x.facts(), indices.facts(), axis),
                   "meganeura: put_along<axis>(x, indices, updates): indices must be i32, with x's extents but for the "
                   "axis, which exists",
                   x, indices, updates)
  MEGANEURA_EXPECT(
      (updates.facts().type == x.facts().type && updates.facts().shape == indices.facts().shape),
      "meganeura: put_along<axis>(x, indices, updates): updates must have x's dtype and the indices' shape", x, indices,
      updates)
  return detail::layer<layers::put_along>(fixed_text<"">{}, x, indices, updates, axis);
}
template <int Axis, value X, value Indices, value Updates>
[[nodiscard]] constexpr auto put_along(X x, Indices indices, Updates updates) {
  return put_along(x, indices, updates, c<Axis>);
}

/// x with updates added to it where the indices along `axis` say, as put_along; those for one place add up.
/// torch.scatter_add, ONNX's ScatterElements with reduction "add".
template <value X, value Indices, value Updates, detail::axis_like Axis>
[[nodiscard]] constexpr auto add_along(X x, Indices indices, Updates updates, Axis axis) {
  MEGANEURA_EXPECT(detail::are_indices_along(x.facts(), indices.facts(), axis),
                   "meganeura: add_along<axis>(x, indices, updates): indices must be i32, with x's extents but for the "
                   "axis, which exists",
                   x, indices, updates)
  MEGANEURA_EXPECT(
      (updates.facts().type == x.facts().type && updates.facts().shape == indices.facts().shape),
      "meganeura: add_along<axis>(x, indices, updates): updates must have x's dtype and the indices' shape", x, indices,
      updates)
  return detail::layer<layers::add_along>(fixed_text<"">{}, x, indices, updates, axis);
}
template <int Axis, value X, value Indices, value Updates>
[[nodiscard]] constexpr auto add_along(X x, Indices indices, Updates updates) {
  return add_along(x, indices, updates, c<Axis>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
