// SPDX-License-Identifier: MIT
// Logarithms and powers in f32 arithmetic of our own. Vulkan permits its Log an absolute error of 2^-21 between 0.5 and
// 2, which is all of log(x) near 1, and its Pow that error times b: drivers use the permission.
#pragma once
#include <meganeura/kernels/lanes.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// x = 2^exponent * mantissa with a mantissa in [sqrt(1/2), sqrt(2)), for finite x > 0; denormal numbers by their bits,
/// since a device may read them as 0.
struct split_number {
  lanes exponent, mantissa;
};

[[nodiscard]] inline split_number split(const lanes& x) {
  constexpr std::uint32_t least_normal = 0x00800000u, root_half = 0x3f3504f3u, one = 0x3f800000u;
  const lanes bits = x.bits(), limit = x.word(least_normal);
  const lanes normal = bits.if_less(limit, bits.to_float().bits(), bits);  // of a denormal number: x * 2^149
  const lanes moved = normal + x.word(one - root_half);
  const lanes biased = lanes::with(binary_op::shift_right, moved, x.word(23));
  const lanes mantissa = lanes::with(binary_op::bit_and, moved, x.word(0x007fffffu)) + x.word(root_half);
  return {biased.to_float() - bits.if_less(limit, x.like(127 + 149), x.like(127)), mantissa.as_float()};
}

/// `finite` where x is a finite number above 0, and otherwise what a logarithm is there.
[[nodiscard]] inline lanes of_logarithm(const lanes& x, const lanes& finite) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const lanes nan = x.like(std::numeric_limits<float>::quiet_NaN());
  const lanes beyond = x.if_less(x.like(0.0f), nan, x);  // an infinity or NaN of its own
  const lanes doubled = x.bits() + x.bits();             // 0 of either zero
  const lanes special = doubled.if_less(x.word(1), x.like(-infinity), beyond);
  return (x.bits() - x.word(1)).if_less(x.word(0x7f7fffffu), finite, special);
}

/// Within 4 ulp everywhere (0.83 where the device rounds to nearest): log((1+s)/(1-s)) with the coefficients of Sun's
/// fdlibm (FreeBSD, e_logf.c, below 2^-34.24).
[[nodiscard]] inline spirv::untyped::operand accurate_log(const spirv::untyped::operand& value) {
  const lanes x{value};
  const auto [exponent, mantissa] = split(x);
  const lanes f = mantissa - 1.0f;  // exact
  const lanes s = f / (f + 2.0f), z = s * s, w = z * z;
  const lanes series = z * (w * 0x1.23d3dcp-2f + 0x1.555554p-1f) + w * (w * 0x1.f13c4cp-3f + 0x1.999c26p-2f);
  const lanes half_square = f * f * 0.5f;
  const lanes finite =
      s * (half_square + series) + exponent * 0x1.2fefa2p-17f - half_square + f + exponent * 0x1.62e3p-1f;
  return of_logarithm(x, finite).value;
}

/// log2(x) in two floats, the first of 12 bits, together within 2^-30 of it, for finite x > 0 (fdlibm, e_powf.c).
struct long_log2 {
  lanes high, low;
};

[[nodiscard]] inline long_log2 accurate_log2(const lanes& x) {
  const auto [exponent, mantissa] = split(x);
  const lanes f = mantissa - 1.0f, inverse = x.like(1.0f) / (mantissa + 1.0f);
  const lanes s = f * inverse, s_high = s.head(), divisor = (mantissa + 1.0f).head();
  const lanes s_low = inverse * ((f - s_high * divisor) - s_high * (mantissa - (divisor - 1.0f)));
  // 3/2 log((1+s)/(1-s)) / s = 3 + s^2 + 3/5 s^4 + 3/7 s^6 + ..
  const lanes z = s * s, square = s_high * s_high;
  const lanes series = z * z * (z * (z * (z * (3.0f / 11) + 3.0f / 9) + 3.0f / 7) + 3.0f / 5) + s_low * (s_high + s);
  const lanes sum = (square + 3.0f + series).head(), rest = series - ((sum - 3.0f) - square);
  const lanes u = s_high * sum, v = s_low * sum + rest * s;
  const lanes high = (u + v).head(), low = v - (high - u);
  constexpr float scale = 0x1.ec709ep-1f, scale_high = 0x1.ec8p-1f, scale_low = -0x1.ec478cp-14f;  // 2 / (3 log 2)
  const lanes p = high * scale_high, q = high * scale_low + low * scale;
  const lanes total = (p + q + exponent).head();
  return {total, q - ((total - exponent) - p)};
}

/// log2(x) times high + low, a number of which `high` has at most 12 bits; whole where x is 2^n and `low` is 0.
[[nodiscard]] inline lanes scaled_log2(const lanes& x, float high, float low) {
  const long_log2 logarithm = accurate_log2(x);
  return of_logarithm(x, logarithm.high * high + (logarithm.low * high + (logarithm.high + logarithm.low) * low));
}

/// log(1 + x): the logarithm of u = 1 + x as it was rounded, and what the rounding lost.
[[nodiscard]] inline spirv::untyped::operand accurate_log1p(const spirv::untyped::operand& value) {
  const lanes x{value}, u = x + 1.0f, zero = x.like(0.0f);
  const lanes lost = (x - (u - 1.0f)) / u;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const lanes inside = x.like(-1.0f).if_less(x, x.if_less(x.like(infinity), lost, zero), zero);
  const lanes size = x.abs();
  return size.if_less(x.like(0x1p-30f), x, lanes{accurate_log(u.value)} + inside).value;
}

/// 2^(whole + fraction), |whole| <= 252, |fraction| <= 0.501: within 1.1e-8 where the fraction is exact.
[[nodiscard]] inline lanes scaled_exp2(const lanes& whole, const lanes& fraction) {
  const lanes series = polynomial(fraction, {0x1.44149ap-13f, 0x1.5f0a1cp-10f, 0x1.3b2a52p-7f, 0x1.c6af6ap-5f,
                                             0x1.ebfbep-3f, 0x1.62e43p-1f});  // (2^f - 1) / f at Chebyshev nodes
  const lanes half = (whole * 0.5f).function(spirv::glsl::floor);
  return (series * fraction + 1.0f) * power_of_two(half) * power_of_two(whole - half);
}

/// x^y for finite x > 0, y no NaN; within 8 ulp (1.3 where the device rounds to nearest).
[[nodiscard]] inline spirv::untyped::operand accurate_power(const spirv::untyped::operand& base,
                                                            const spirv::untyped::operand& exponent) {
  const lanes x{base};
  const lanes y = lanes{exponent}.at_most(0x1p40f).at_least(-0x1p40f);  // beyond, x^y is 0, 1 or infinity
  const long_log2 logarithm = accurate_log2(x);
  const lanes y_high = y.head();
  const lanes high = y_high * logarithm.high, low = (y - y_high) * logarithm.high + y * logarithm.low;
  const lanes whole = (high + low).function(spirv::glsl::round_even).at_most(252).at_least(-252);
  return scaled_exp2(whole, ((high - whole) + low).at_most(1).at_least(-1)).value;
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
