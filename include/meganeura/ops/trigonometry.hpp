// SPDX-License-Identifier: MIT
// Trigonometric and hyperbolic functions besides sin, cos and tanh.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// Of radians; NaN beyond |x| = 2^24, as `sin`.
template <value A>
[[nodiscard]] constexpr auto tan(A a) {
  MEGANEURA_EXPECT_FLOATS("tan(x)", a)
  return detail::unary<scalar_op::tan>(a);
}

/// In [-pi / 2, pi / 2]; NaN beyond |x| = 1.
template <value A>
[[nodiscard]] constexpr auto asin(A a) {
  MEGANEURA_EXPECT_FLOATS("asin(x)", a)
  return detail::unary<scalar_op::asin>(a);
}

/// In [0, pi]; NaN beyond |x| = 1.
template <value A>
[[nodiscard]] constexpr auto acos(A a) {
  MEGANEURA_EXPECT_FLOATS("acos(x)", a)
  return detail::unary<scalar_op::acos>(a);
}

/// In [-pi / 2, pi / 2].
template <value A>
[[nodiscard]] constexpr auto atan(A a) {
  MEGANEURA_EXPECT_FLOATS("atan(x)", a)
  return detail::unary<scalar_op::atan>(a);
}

/// The angle of the point (x, y), in [-pi, pi]; of zeros and infinities as C has it.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto atan2(A y, B x) {
  MEGANEURA_CHECK_OPERANDS("atan2(y, x)", y, x)
  MEGANEURA_CHECK_FLOATS("atan2(y, x)", y, x)
  return detail::binary<scalar_op::atan2>(y, x);
}

/// sqrt(a^2 + b^2), also where the squares leave the range. gradient: 0 at (0, 0).
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto hypot(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("hypot(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("hypot(a, b)", a, b)
  return detail::binary<scalar_op::hypot>(a, b);
}

template <value A>
[[nodiscard]] constexpr auto sinh(A a) {
  MEGANEURA_EXPECT_FLOATS("sinh(x)", a)
  return detail::unary<scalar_op::sinh>(a);
}

template <value A>
[[nodiscard]] constexpr auto cosh(A a) {
  MEGANEURA_EXPECT_FLOATS("cosh(x)", a)
  return detail::unary<scalar_op::cosh>(a);
}

template <value A>
[[nodiscard]] constexpr auto asinh(A a) {
  MEGANEURA_EXPECT_FLOATS("asinh(x)", a)
  return detail::unary<scalar_op::asinh>(a);
}

/// NaN below 1.
template <value A>
[[nodiscard]] constexpr auto acosh(A a) {
  MEGANEURA_EXPECT_FLOATS("acosh(x)", a)
  return detail::unary<scalar_op::acosh>(a);
}

/// NaN beyond |x| = 1.
template <value A>
[[nodiscard]] constexpr auto atanh(A a) {
  MEGANEURA_EXPECT_FLOATS("atanh(x)", a)
  return detail::unary<scalar_op::atanh>(a);
}

}  // namespace meganeura::inline MEGANEURA_ABI
