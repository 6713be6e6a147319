// SPDX-License-Identifier: MIT
// The one place tests take tolerances from: dtype and reduction length decide, nothing is typed into a test.
#pragma once
#include <meganeura/core/precision.hpp>

#include <oracle/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::oracle {

/// Largest relative error (against the largest magnitude of the expected tensor, see `relative_error`) of a result
/// whose elements sum `reduction_length` products each. Rounding errors of a running total grow like sqrt(length) for
/// random signs, and kernels let one grow over at most 1024 terms before they start another: beyond, the totals are
/// added level by level, and errors grow with the logarithm of the length. The factor 4 leaves room for a few pointwise
/// operations before and after (exp, division: up to 2.5 units of error each are what Vulkan allows). narrow results
/// are rounded once more when stored; their sums run in f32.
[[nodiscard]] inline double tolerance(dtype type, std::int64_t reduction_length = 1) {
  constexpr double one_total = 1024;
  const double length = static_cast<double>(std::max<std::int64_t>(reduction_length, 1));
  const double grown = 4 + std::sqrt(std::min(length, one_total)) + std::log2(std::max(length / one_total, 1.0));
  if (!is_float(type)) return 0;
  return 4 * 0x1p-24 * grown + (is_narrow(type) ? std::ldexp(1.0, -layout_of(type).fraction_bits) : 0);
}

/// What products of f32 on matrix units may be off by, in parts of the sum of their terms' magnitudes: nothing beyond
/// f32's own errors where operands are split, both operands' rounding to 11 bits where they are not.
[[nodiscard]] constexpr double unit_error(precision wanted) { return wanted == precision::fast ? 0x1p-11 : 0; }

/// Of a product of `factors` f32 numbers: every one of them rounds the whole product, in whatever order.
[[nodiscard]] inline double product_tolerance(std::int64_t factors) {
  return 4 * 0x1p-24 * (4 + std::sqrt(static_cast<double>(factors)));
}

/// Of a result computed in f64 and compared with another f64 computation.
[[nodiscard]] inline double tolerance_f64(std::int64_t reduction_length = 1) {
  return 4 * 0x1p-53 * (4 + std::sqrt(static_cast<double>(std::max<std::int64_t>(reduction_length, 1))));
}

/// max |actual - expected| / max |expected|: small elements of a tensor are sums that cancelled, their own magnitude
/// says nothing about the rounding that happened. Infinite where one side alone is not finite or the sizes differ.
template <class Actual, class Expected>
[[nodiscard]] double relative_error(const std::vector<Actual>& actual, const std::vector<Expected>& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double got = static_cast<double>(actual[i]), want = static_cast<double>(expected[i]);
    if (std::isfinite(want)) scale = std::max(scale, std::fabs(want));
    if (got == want || (std::isnan(got) && std::isnan(want))) continue;
    if (!std::isfinite(got) || !std::isfinite(want)) return INFINITY;
    worst = std::max(worst, std::fabs(got - want));
  }
  return worst == 0 ? 0 : scale == 0 ? INFINITY : worst / scale;
}

template <class Actual, class Expected>
[[nodiscard]] double relative_error(const tensor<Actual>& actual, const tensor<Expected>& expected) {
  return actual.extents == expected.extents ? relative_error(actual.values, expected.values) : INFINITY;
}

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
