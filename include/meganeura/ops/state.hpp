// SPDX-License-Identifier: MIT
// What a model keeps from step to step: assignments of states.
#pragma once
#include <meganeura/expr/leaf.hpp>

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

}  // namespace detail

/// x | assign(total, total + x): x, and `total` holds the sum when the step ends. Whoever reads the state, in this
/// step, reads what it held before the step, also behind the assignment: values that are to meet the new one are
/// computed from `total + x`. It happens where the result is needed: stand it behind what the module returns. A state
/// is assigned at most once a step; each turn of a repeat has states of its own. No gradient flows into or out of a
/// state. On values of run time it happens in any case. shapes, dtypes: x's. errors: "the first operand must be a
/// state", "must have the state's shape and dtype", and in the model "a state is assigned twice".
template <value State, value New>
[[nodiscard]] constexpr auto assign(State state, New next) {
  MEGANEURA_CHECK(state.facts().kind == primitive::state, state.facts().kind == primitive::state,
                  "meganeura: assign(state, x): the first operand must be a state, as it was declared", state, next)
  MEGANEURA_CHECK((state.facts().shape == next.facts().shape && state.facts().type == next.facts().type),
                  (state.facts().shape == next.facts().shape && state.facts().type == next.facts().type),
                  "meganeura: assign(state, x): x must have the state's shape and dtype", state, next)
  return detail::assignment<State, New>{state, next};
}
template <value X, value State, value New>
[[nodiscard]] constexpr auto operator|(X x, detail::assignment<State, New> made) {
  return detail::make<detail::describe_assign>(x, made.state, made.next);
}

}  // namespace meganeura::inline MEGANEURA_ABI
