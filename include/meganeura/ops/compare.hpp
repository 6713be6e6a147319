// SPDX-License-Identifier: MIT
// Comparisons besides less, less_equal and equal, and steps.
#pragma once
#include <meganeura/ops/formula.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// a > b as a condition for `select`; false where either is NaN.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto greater(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("greater(a, b)", a, b)
  MEGANEURA_CHECK_NUMBERS("greater(a, b)", a, b)
  return detail::binary<scalar_op::less>(b, a);
}

/// a >= b as a condition for `select`; false where either is NaN.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto greater_equal(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("greater_equal(a, b)", a, b)
  MEGANEURA_CHECK_NUMBERS("greater_equal(a, b)", a, b)
  return detail::binary<scalar_op::less_equal>(b, a);
}

/// a != b as a condition for `select`; true where either is NaN.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto not_equal(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("not_equal(a, b)", a, b)
  MEGANEURA_CHECK_NUMBERS("not_equal(a, b)", a, b)
  return detail::unary<scalar_op::logical_not>(detail::binary<scalar_op::equal>(a, b));
}

/// One of two conditions, not both.
template <value A, value B>
[[nodiscard]] constexpr auto logical_xor(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("logical_xor(a, b)", a, b)
  MEGANEURA_CHECK_CONDITIONS("logical_xor(a, b)", a, b)
  return detail::binary<scalar_op::logical_and>(
      detail::binary<scalar_op::logical_or>(a, b),
      detail::unary<scalar_op::logical_not>(detail::binary<scalar_op::logical_and>(a, b)));
}

/// Whether x is no number: a condition.
template <value A>
[[nodiscard]] constexpr auto isnan(A x) {
  MEGANEURA_EXPECT_FLOATS("isnan(x)", x)
  return detail::unary<scalar_op::logical_not>(equal(x, x));
}

/// Whether x is infinity or -infinity: a condition.
template <value A>
[[nodiscard]] constexpr auto isinf(A x) {
  MEGANEURA_EXPECT_FLOATS("isinf(x)", x)
  return equal(abs(x), constant<__builtin_inf()>);
}

/// Whether x is neither NaN nor infinite: a condition.
template <value A>
[[nodiscard]] constexpr auto isfinite(A x) {
  MEGANEURA_EXPECT_FLOATS("isfinite(x)", x)
  return less(abs(x), constant<__builtin_inf()>);
}

namespace layers {

struct heaviside {
  static constexpr auto forward(value auto x, value auto at_zero) {
    const auto one = detail::number_of(x, 1.0);
    return select(equal(x, 0.0), at_zero, select(less(x, 0.0), 0.0, one));
  }
};

struct step {
  static constexpr auto forward(value auto edge, value auto x) {
    return select(less_equal(edge, x), detail::number_of(x, 1.0), 0.0);
  }
};

struct bipolar_step {
  static constexpr auto forward(value auto x) { return select(less_equal(0.0, x), detail::number_of(x, 1.0), -1.0); }
};

}  // namespace layers

/// 0 below 0, `at_zero` there and 1 above and for NaN. gradient: to at_zero.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto heaviside(A x, B at_zero) {
  MEGANEURA_CHECK_OPERANDS("heaviside(x, at_zero)", x, at_zero)
  MEGANEURA_CHECK_FLOATS("heaviside(x, at_zero)", x, at_zero)
  return detail::formula<layers::heaviside>(x, at_zero);
}

/// 1 where x >= edge and 0 elsewhere; 0 where either is NaN. gradient: none flows.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto step(A edge, B x) {
  MEGANEURA_CHECK_OPERANDS("step(edge, x)", edge, x)
  MEGANEURA_CHECK_FLOATS("step(edge, x)", edge, x)
  return detail::formula_of_two<layers::step>(edge, x);
}

/// 1 where x >= 0, elsewhere 0. gradient: none flows.
template <value A>
[[nodiscard]] constexpr auto binary_step(A x) {
  MEGANEURA_EXPECT_FLOATS("binary_step(x)", x)
  return step(constant<0.0f>, x);
}

/// 1 where x >= 0, elsewhere -1. gradient: none flows.
template <value A>
[[nodiscard]] constexpr auto bipolar_step(A x) {
  MEGANEURA_EXPECT_FLOATS("bipolar_step(x)", x)
  return detail::formula<layers::bipolar_step>(x);
}

}  // namespace meganeura::inline MEGANEURA_ABI
