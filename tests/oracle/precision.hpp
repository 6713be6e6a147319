// SPDX-License-Identifier: MIT
// What Vulkan permits a device to be off by, operation by operation: the one table of it.
#pragma once
#include <meganeura/graph/scalar.hpp>

#include <oracle/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace meganeura::inline MEGANEURA_ABI::oracle {

/// The distance of neighbouring numbers of a float dtype at `value`, which is finite.
[[nodiscard]] inline double ulp(double value, dtype type) {
  const float_layout l = layout_of(type);
  const int exponent = value == 0 ? -1000 : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, l.least_exponent()) - l.fraction_bits);
}

/// The largest error of one operation on floats whose true result is `result`, by the Vulkan specification, appendix
/// "Vulkan Environment for SPIR-V", section "Precision and Operation of SPIR-V Instructions"; 0 for what is exact. The
/// direction of roundings is open there, so that "correctly rounded" is an error of an ulp. Sine, cosine, tanh
/// (spirv/value.ipp), and what kernels/logarithm.hpp, exponential.hpp and special_functions.hpp have, are the library's
/// own.
/// Narrow values are computed in f32 and rounded.
[[nodiscard]] inline double permitted_error(scalar_op kind, dtype type, double a, double b, double result) {
  if (!std::isfinite(result) || result == 0) return 0;
  const auto ulps = [&](double count) {
    return count * ulp(result, dtype::f32) + (is_narrow(type) ? ulp(result, type) : 0);
  };
  switch (kind) {
    case scalar_op::add:
    case scalar_op::subtract:
    case scalar_op::multiply:
    case scalar_op::row_sum:
    case scalar_op::row_product:
      return ulps(1);
    case scalar_op::convert:
      return nearest(result, type) != result ? ulp(result, type) : 0;
    case scalar_op::divide:
    case scalar_op::reciprocal:
      return ulps(2.5);
    case scalar_op::rsqrt:
      return ulps(2);
    case scalar_op::sqrt:  // 1 / inversesqrt(x)
      return ulps(2 + 2.5);
    case scalar_op::exp:
      return ulps(6);
    case scalar_op::exp2:
    case scalar_op::log2:
    case scalar_op::log10:
      return ulps(2);
    case scalar_op::expm1:
    case scalar_op::log:
      return ulps(4);
    case scalar_op::log1p:
      return ulps(6);
    case scalar_op::power:  // integers up to 64 by multiplications
      return ulps(b == std::trunc(b) && std::fabs(b) <= 64 ? std::max(8.0, 2 * std::fabs(b) + 3) : 8);
    case scalar_op::sin:
    case scalar_op::cos:
      return ulps(4);
    case scalar_op::tanh:  // beyond 0.648 by exp and a division, at most 0.43 of the result
      return ulps(std::fabs(a) < 0.648 ? 4 : 9);
    case scalar_op::erf:
      return ulps(5);
    case scalar_op::cbrt:
    case scalar_op::atan:
    case scalar_op::atan2:
    case scalar_op::hypot:
      return ulps(6);
    case scalar_op::tan:
    case scalar_op::asin:
    case scalar_op::acos:
    case scalar_op::sinh:
    case scalar_op::cosh:
    case scalar_op::asinh:
    case scalar_op::acosh:
    case scalar_op::atanh:
      return ulps(12);
    case scalar_op::erfc:
    case scalar_op::tgamma:
      return ulps(16);
    case scalar_op::lgamma:
    case scalar_op::digamma:
    case scalar_op::trigamma:
      return std::max(ulps(16), 16 * ulp(1, dtype::f32));
    default:
      return 0;
  }
}

/// What f32 holds of a result beyond its range: infinity, and nothing below the least denormal number.
[[nodiscard]] inline double in_range_of_f32(double value) {
  if (std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max())) return std::copysign(INFINITY, value);
  return std::fabs(value) < 0x1p-149 ? std::copysign(0.0, value) : value;
}

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
