// SPDX-License-Identifier: MIT
// What a model keeps from step to step: assignments of states.
#pragma once
#include <meganeura/expr/map.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <value State, value New>
struct assignment {
  State state;
  New next;
};

template <fixed_string Name, int Axis, dim Extent, initializer Begin, value X>
constexpr auto state_like_of(X x) {
  if constexpr (is_expr<X>) {
    constexpr symbolic_shape from = X::facts().shape;
    return state<Name, with_extent(from, normal_axis(Axis, from.rank), Extent), X::facts().type, Begin>;
  } else {
    const symbolic_shape from = x.facts().shape;
    return state_of<Name>(x, with_extent(from, normal_axis(Axis, from.rank), Extent), x.facts().type, Begin);
  }
}

constexpr node_spec describe_assign(const facts& x, const facts& state, const facts&) {
  if (state.kind != primitive::state) return {};  // refused by `assign`
  return {.kind = primitive::assign, .type = x.type, .shape = x.shape};
}

}  // namespace detail

/// A state of x's dtype and shape but for one extent: state_like<"keys", -3, 2048, init::each_run>(k) is a cache for k
/// [.., positions, heads, width], with a batch axis if k has one. Its symbols are the session's: one that is left open
/// is refused, because all sizes share the state. errors: "there is no such axis".
template <fixed_string Name, int Axis, dim Extent, initializer Begin = init::zeros, value X>
[[nodiscard]] constexpr auto state_like(X x) {
  MEGANEURA_EXPECT(detail::normal_axis(Axis, x.facts().shape.rank) >= 0,
                   "meganeura: state_like<name, axis, extent>(x): there is no such axis", x)
  return detail::state_like_of<Name, Axis, Extent, Begin>(x);
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
