// SPDX-License-Identifier: MIT
// The complement of the error function, the gamma function and its kin.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// 1 - erf(x), which keeps its digits for great x.
template <value A>
[[nodiscard]] constexpr auto erfc(A a) {
  MEGANEURA_EXPECT_FLOATS("erfc(x)", a)
  return detail::unary<scalar_op::erfc>(a);
}

/// The gamma function; NaN for whole numbers below 0.
template <value A>
[[nodiscard]] constexpr auto tgamma(A a) {
  MEGANEURA_EXPECT_FLOATS("tgamma(x)", a)
  return detail::unary<scalar_op::tgamma>(a);
}

/// The logarithm of |gamma(x)|; infinity for whole numbers up to 0.
template <value A>
[[nodiscard]] constexpr auto lgamma(A a) {
  MEGANEURA_EXPECT_FLOATS("lgamma(x)", a)
  return detail::unary<scalar_op::lgamma>(a);
}

/// The derivative of lgamma; NaN for whole numbers below 0, an infinity at 0.
template <value A>
[[nodiscard]] constexpr auto digamma(A a) {
  MEGANEURA_EXPECT_FLOATS("digamma(x)", a)
  return detail::unary<scalar_op::digamma>(a);
}

/// The derivative of digamma. gradient: none, a request for it is refused.
template <value A>
[[nodiscard]] constexpr auto trigamma(A a) {
  MEGANEURA_EXPECT_FLOATS("trigamma(x)", a)
  return detail::unary<scalar_op::trigamma>(a);
}

}  // namespace meganeura::inline MEGANEURA_ABI
