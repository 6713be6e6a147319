// SPDX-License-Identifier: MIT
// Exponentials, logarithms and roots besides exp, log and sqrt.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// 2^x, exact where x is whole.
template <value A>
[[nodiscard]] constexpr auto exp2(A a) {
  MEGANEURA_EXPECT_FLOATS("exp2(x)", a)
  return detail::unary<scalar_op::exp2>(a);
}

/// exp(x) - 1, which keeps its digits near 0.
template <value A>
[[nodiscard]] constexpr auto expm1(A a) {
  MEGANEURA_EXPECT_FLOATS("expm1(x)", a)
  return detail::unary<scalar_op::expm1>(a);
}

/// The logarithm to base 2, exact for powers of two.
template <value A>
[[nodiscard]] constexpr auto log2(A a) {
  MEGANEURA_EXPECT_FLOATS("log2(x)", a)
  return detail::unary<scalar_op::log2>(a);
}

/// The logarithm to base 10.
template <value A>
[[nodiscard]] constexpr auto log10(A a) {
  MEGANEURA_EXPECT_FLOATS("log10(x)", a)
  return detail::unary<scalar_op::log10>(a);
}

/// log(1 + x), which keeps its digits near 0.
template <value A>
[[nodiscard]] constexpr auto log1p(A a) {
  MEGANEURA_EXPECT_FLOATS("log1p(x)", a)
  return detail::unary<scalar_op::log1p>(a);
}

/// The cube root, of negative numbers too.
template <value A>
[[nodiscard]] constexpr auto cbrt(A a) {
  MEGANEURA_EXPECT_FLOATS("cbrt(x)", a)
  return detail::unary<scalar_op::cbrt>(a);
}

}  // namespace meganeura::inline MEGANEURA_ABI
