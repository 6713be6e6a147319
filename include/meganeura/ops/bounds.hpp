// SPDX-License-Identifier: MIT
// Numbers kept within bounds, and maxima that leave NaN out.
#pragma once
#include <meganeura/ops/compare.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// x within [low, high], `high` where low > high; NaN stays. gradient: to x also where it is a bound, else to the
/// bound.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto clamp(A x, B low, C high) {
  MEGANEURA_CHECK_OPERANDS("clamp(x, low, high)", x, low)
  MEGANEURA_CHECK_OPERANDS("clamp(x, low, high)", x, high)
  MEGANEURA_CHECK_NUMBERS("clamp(x, low, high)", x, low)
  MEGANEURA_CHECK_NUMBERS("clamp(x, low, high)", x, high)
  const auto raised = select(less(x, low), low, x);
  return select(less(high, raised), high, raised);
}

/// x within [0, 1], 0 for NaN. gradient: to x from 0 to 1, also there.
template <value A>
[[nodiscard]] constexpr auto saturate(A x) {
  MEGANEURA_EXPECT_FLOATS("saturate(x)", x)
  return select(less(constant<1.0f>, x), constant<1.0f>, select(less_equal(constant<0.0f>, x), x, constant<0.0f>));
}

/// The larger of two, the other one where one is NaN. gradient: to it, halves where they are equal.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto fmax(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("fmax(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("fmax(a, b)", a, b)
  return select(equal(a, a), select(equal(b, b), maximum(a, b), a), b);
}

/// The smaller of two, the other one where one is NaN. gradient: to it, halves where they are equal.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto fmin(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("fmin(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("fmin(a, b)", a, b)
  return select(equal(a, a), select(equal(b, b), minimum(a, b), a), b);
}

/// a - b where a > b, elsewhere 0, of equal infinities too; NaN where either is NaN.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto fdim(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("fdim(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("fdim(a, b)", a, b)
  return select(less_equal(a, b), constant<0.0f>, a - b);
}

}  // namespace meganeura::inline MEGANEURA_ABI
