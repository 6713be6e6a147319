// SPDX-License-Identifier: MIT
// Functions of a few steps, element by element: one typed node each, computed in f32 and rounded once.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI::detail {

template <class Formula>
struct in_f32 {
  static constexpr auto forward(value auto x, value auto... others) {
    return narrowed(Formula::forward(widened(x), widened(others)...), x);
  }
};

// Of values that broadcast; a number among the others takes the dtype of `x`.
template <class Formula, class X, class... Others>
constexpr auto formula(X x, Others... others) {
  if constexpr ((number_beside_type<X, Others> || ...)) {
    return x;  // refused by MEGANEURA_CHECK_OPERANDS
  } else {
    return layer<in_f32<Formula>>(fixed_text<"">{}, x, adapted(others, x)...);
  }
}
// The same of two of which either may be the number.
template <class Formula, class A, class B>
constexpr auto formula_of_two(A a, B b) {
  if constexpr (number_beside_type<A, B>) {
    return first_of(a, b);
  } else {
    return formula<Formula>(adapted(a, b), adapted(b, a));
  }
}

// -|x|, with slope 1 at 0, where that of abs is 0.
constexpr auto minus_magnitude(value auto x) { return select(less(0.0f, x), -x, x); }

}  // namespace meganeura::inline MEGANEURA_ABI::detail
