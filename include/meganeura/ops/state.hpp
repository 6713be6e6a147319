// SPDX-License-Identifier: MIT
// What a model keeps from step to step: assignments of states.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/gather.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <value State, value New>
struct assignment {
  State state;
  New next;
};

constexpr node_spec describe_assign(const facts& x, const facts& state, const facts&) {
  if (state.kind != primitive::state) return {};  // refused by `assign`
  return {.kind = primitive::assign, .type = x.type, .shape = x.shape};
}

constexpr bool can_update(const facts& x, const facts& rows, int axis) {
  return axis >= 0 && x.type == rows.type && x.shape.rank == rows.shape.rank &&
         with_extent(rows.shape, axis, x.shape[axis]) == x.shape;
}
constexpr bool is_position(const facts& x) { return x.type == dtype::i32 && x.shape.rank == 0; }

}  // namespace detail

namespace layers {
struct update_rows {
  static constexpr auto forward(value auto x, value auto rows, value auto position, int axis) {
    axis = detail::normal_axis(axis, x.facts().shape.rank);
    const dim places = x.facts().shape[axis];
    symbolic_shape column = detail::extents_of(places);
    while (column.rank < x.facts().shape.rank - axis) column.push_back(1);
    const auto row = detail::coordinates_of(x, column, 0) - position;  // that comes to each place
    const auto count =
        x.added({.kind = primitive::element_count, .type = dtype::i32, .count = std::int64_t{1} << axis}, &rows, 1);
    const auto updates = gather(rows, reshape(row, detail::extents_of(places)), axis);
    return select(logical_and(less_equal(0, row), less(row, count)), updates, x);
  }
};
}  // namespace layers

/// x with `rows` written over it along `axis` from `position` on, an i32 number of run time: a cache that grows,
/// update_rows(cache, keys, position), or update_rows<1>(..) behind a batch axis. Rows that come to lie outside are
/// left out. shapes: x [.., n, ..], rows [.., m, ..], position [] -> x's. gradient: to x and to rows. cost: reads and
/// writes x. errors: "rows must have x's dtype and shape but for the axis", "position must be one i32".
template <int Axis = 0, value X, value Rows, value Position>
[[nodiscard]] constexpr auto update_rows(X x, Rows rows, Position position) {
  MEGANEURA_EXPECT(
      detail::can_update(x.facts(), rows.facts(), detail::axis_of(x, Axis)),
      "meganeura: update_rows<axis>(x, rows, position): rows must have x's dtype and shape but for the axis", x, rows,
      position)
  MEGANEURA_EXPECT(detail::is_position(position.facts()),
                   "meganeura: update_rows<axis>(x, rows, position): position must be one i32, of shape []", x, rows,
                   position)
  return detail::layer<layers::update_rows>(fixed_text<"">{}, x, rows, position, c<Axis>);
}

/// x | assign(total, total + x): x, and `total` holds the sum when the step ends. Whoever reads the state, in this
/// step, reads what it held before the step, also behind the assignment: values that are to meet the new one are
/// computed from `total + x`. It happens where the result is needed: stand it behind what the module returns. A state
/// is assigned at most once a step; each turn of a repeat has states of its own. No gradient flows into or out of a
/// state. On values of run time it happens in any case. shapes, dtypes: x's. errors: "the first operand must be a
/// state", "must have the state's shape and dtype", and in the model "a state is assigned twice".
template <value State, value New>
[[nodiscard]] constexpr auto assign(State state, New next) {
  MEGANEURA_CHECK(state.facts().kind == primitive::state, detail::holds_of<state.facts().kind == primitive::state>,
                  "meganeura: assign(state, x): the first operand must be a state, as it was declared", state, next)
  MEGANEURA_CHECK(detail::are_of_one_type(state.facts(), next.facts()),
                  detail::holds_of<detail::are_of_one_type(state.facts(), next.facts())>,
                  "meganeura: assign(state, x): x must have the state's shape and dtype", state, next)
  return detail::assignment<State, New>{state, next};
}
template <value X, value State, value New>
[[nodiscard]] constexpr auto operator|(X x, detail::assignment<State, New> made) {
  return detail::make<detail::describe_assign>(x, made.state, made.next);
}

}  // namespace meganeura::inline MEGANEURA_ABI
