// SPDX-License-Identifier: MIT
// Rows from a position that is known when a step runs: read, and written over others.
#pragma once
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

constexpr bool is_position(const facts& x) { return x.type == dtype::i32 && x.shape.rank == 0; }

constexpr bool can_narrow(const symbolic_shape& x, int axis, const dim& length) {
  return axis >= 0 && length.coefficient >= 1 && are_rows_of(x, with_extent(x, axis, length), axis);
}

constexpr node_spec describe_narrow(const facts& x, const facts&, int axis, const dim& length) {
  axis = normal_axis(axis, x.shape.rank);
  return node_of(op::narrow, x.type, with_extent(x.shape, axis, length), axis_attribute{axis});
}
constexpr node_spec describe_update_rows(const facts& x, const facts&, const facts&, int axis) {
  return node_of(op::update_rows, x.type, x.shape, axis_attribute{normal_axis(axis, x.shape.rank)});
}

}  // namespace detail

/// `length` rows of x along `axis` from `start` on, an i32 number of run time: narrow<0, 4>(table, position), or
/// narrow(table, position, 0, 4); `length` may be a symbol. `slice` is the same from a place that is known while
/// building. Rows that lie outside are zeros, and their gradient goes nowhere; the option `checks` names a start that
/// has some. torch.narrow with a tensor for its start, ONNX's Slice with starts of run time; JAX's dynamic_slice moves
/// the start instead. shapes: x [.., n, ..], start [] -> [.., length, ..]. cost: reads and writes the rows.
/// gradient: to x. errors: "no such axis, or it is shorter", "start must be one i32".
template <value X, value Start, detail::axis_like Axis, class Length>
[[nodiscard]] constexpr auto narrow(X x, Start start, Axis axis, Length length) {
  MEGANEURA_CHECK(detail::is_position(start.facts()), detail::holds_of<detail::is_position(start.facts())>,
                  "meganeura: narrow<axis, length>(x, start): start must be one i32, of shape []", x, start)
  MEGANEURA_EXPECT(detail::can_narrow(x.facts().shape, detail::axis_of(x, axis), dim(length)),
                   "meganeura: narrow<axis, length>(x, start): there is no such axis, or it is shorter than length", x,
                   start)
  return detail::make<detail::describe_narrow>(x, start, axis, length);
}
template <int Axis, dim Length, value X, value Start>
[[nodiscard]] constexpr auto narrow(X x, Start start) {
  return narrow(x, start, c<Axis>, c<Length>);
}

/// x with `rows` written over it along `axis` from `position` on, an i32 number of run time: a cache that grows,
/// update_rows(cache, keys, position), or update_rows<1>(..) behind a batch axis. Rows that come to lie outside are
/// left out; the option `checks` names a position that leaves some out. PyTorch's slice_scatter from a start of run
/// time, ONNX's TensorScatter; JAX's dynamic_update_slice moves the position instead.
/// shapes: x [.., n, ..], rows [.., m, ..], m <= n, position [] -> x's. gradient: to x and to rows. cost: reads and
/// writes the rows where x is read by nothing else, as a state is that the result is assigned to, and otherwise x as
/// well. errors: "rows must have x's dtype and shape but for the axis", "position must be one i32".
template <int Axis = 0, value X, value Rows, value Position>
[[nodiscard]] constexpr auto update_rows(X x, Rows rows, Position position) {
  MEGANEURA_EXPECT((x.facts().type == rows.facts().type &&
                    detail::are_rows_of(x.facts().shape, rows.facts().shape, detail::axis_of(x, Axis))),
                   "meganeura: update_rows<axis>(x, rows, position): rows must have x's dtype and shape but for the "
                   "axis, and no more of them",
                   x, rows, position)
  MEGANEURA_EXPECT(detail::is_position(position.facts()),
                   "meganeura: update_rows<axis>(x, rows, position): position must be one i32, of shape []", x, rows,
                   position)
  return detail::make<detail::describe_update_rows>(x, rows, position, c<Axis>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
