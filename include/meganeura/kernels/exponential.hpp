// SPDX-License-Identifier: MIT
// Exponentials, hyperbolic functions and roots in f32 arithmetic of our own: Vulkan permits its Exp an error of 3 + 2
// |x| ulp.
#pragma once
#include <meganeura/kernels/logarithm.hpp>

#include <limits>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

// r of x = k log(2) + r, |r| <= 0.348, and expm1(r) by it, 1.5e-8 off; k is exact up to 2^8.
struct reduced_exponential {
  lanes k, expm1;
};

[[nodiscard]] inline reduced_exponential reduce_exponential(const lanes& high, const lanes& low) {
  const lanes k = ((high + low) * 0x1.715476p+0f).function(spirv::glsl::round_even);
  const lanes r = ((high - k * 0x1.62e3p-1f) - k * 0x1.2fefa2p-17f) + low;
  const lanes series =
      polynomial(r, {0x1.a1a43cp-13f, 0x1.6d75f8p-10f, 0x1.11108ep-7f, 0x1.5554aep-5f, 0x1.555556p-3f, 0x1p-1f});
  return {k, r + r * (r * series)};
}

/// e^(high + low) for |high + low| <= 174, within 3 ulp of an exact sum.
[[nodiscard]] inline lanes accurate_exp(const lanes& high, const lanes& low) {
  const auto [k, expm1] = reduce_exponential(high, low);
  const lanes half = (k * 0.5f).function(spirv::glsl::floor);
  return (expm1 + 1.0f) * power_of_two(half) * power_of_two(k - half);
}

/// e^x within 6 ulp, 2 where exp2 is as good as it is on known devices: Vulkan's own is off by 3 + 2 |x|.
[[nodiscard]] inline spirv::untyped::operand accurate_exp(const spirv::untyped::operand& value) {
  const lanes whole{value}, x = whole.at_most(89).at_least(-104);
  const lanes k = (x * 0x1.715476p+0f).function(spirv::glsl::round_even);  // 1 / log(2)
  const lanes rest = ((x - k * 0x1.62e3p-1f) - k * 0x1.2fefa2p-17f) * 0x1.715476p+0f;
  const lanes half = (k * 0.5f).function(spirv::glsl::floor);
  const lanes result = rest.function(spirv::glsl::exp2) * power_of_two(half) * power_of_two(k - half);
  return whole.or_if_nan(result, whole).value;  // bounds need not keep a NaN where a device may take it for a number
}

/// 2^x within 2 ulp, exact where x is whole.
[[nodiscard]] inline spirv::untyped::operand accurate_exp2(const spirv::untyped::operand& value) {
  const lanes x = lanes{value}.at_most(252).at_least(-252);
  const lanes whole = x.function(spirv::glsl::round_even);
  return scaled_exp2(whole, x - whole).value;
}

/// e^x - 1 within 4 ulp.
[[nodiscard]] inline spirv::untyped::operand accurate_expm1(const spirv::untyped::operand& value) {
  const lanes whole{value}, x = whole.at_most(88.8f).at_least(-30);
  const auto [k, expm1] = reduce_exponential(x, x.like(0.0f));
  const lanes half = power_of_two(k - 1.0f), scaled = expm1 * half + (half - 0.5f);
  return x.abs().if_less(x.like(0.34f), expm1.with_sign_of(x), scaled + scaled).value;
}

// sinh and cosh: e^|x| / 2, which is in range where e^|x| is not, and 1/4 over it; sinh below 1 by expm1.
[[nodiscard]] inline spirv::untyped::operand accurate_sinh(const spirv::untyped::operand& value) {
  const lanes x{value}, size = x.abs(), near{accurate_expm1(size.at_most(1).value)};
  const lanes half = accurate_exp(size.at_most(100), x.like(-0x1.62e43p-1f));
  const lanes below = (near + near / (near + 1.0f)) * 0.5f, beyond = half - x.like(0.25f) / half;
  return size.if_less(x.like(1), below, beyond).with_sign_of(x).value;
}
[[nodiscard]] inline spirv::untyped::operand accurate_cosh(const spirv::untyped::operand& value) {
  const lanes x{value}, half = accurate_exp(x.abs().at_most(100), x.like(-0x1.62e43p-1f));
  return (half + x.like(0.25f) / half).value;
}

// Their inverses; beyond 2^28 the logarithm of 2 |x|.
[[nodiscard]] inline lanes log_of_double(const lanes& x) { return lanes{accurate_log(x.value)} + 0x1.62e43p-1f; }
[[nodiscard]] inline spirv::untyped::operand accurate_asinh(const spirv::untyped::operand& value) {
  const lanes x{value}, size = x.abs(), a = size.at_most(0x1p28f), square = a * a;
  const lanes near{accurate_log1p((a + square / ((square + 1.0f).function(spirv::glsl::sqrt) + 1.0f)).value)};
  return size.if_less(x.like(0x1p28f), near, log_of_double(size)).with_sign_of(x).value;
}
[[nodiscard]] inline spirv::untyped::operand accurate_acosh(const spirv::untyped::operand& value) {
  const lanes x{value}, t = x.at_most(0x1p28f) - 1.0f;
  const lanes near{accurate_log1p((t + (t * (t + 2.0f)).function(spirv::glsl::sqrt)).value)};
  const lanes nan = x.like(std::numeric_limits<float>::quiet_NaN());
  return x.if_less(x.like(1), nan, x.if_less(x.like(0x1p28f), near, log_of_double(x))).value;
}
[[nodiscard]] inline spirv::untyped::operand accurate_atanh(const spirv::untyped::operand& value) {
  const lanes x{value}, size = x.abs(), ratio = (size + size) / (x.like(1) - size);
  return (lanes{accurate_log1p(ratio.value)} * 0.5f).with_sign_of(x).value;
}

/// A power, and one of Newton's steps.
[[nodiscard]] inline spirv::untyped::operand accurate_cbrt(const spirv::untyped::operand& value) {
  const lanes x{value}, size = x.abs();
  const lanes y{accurate_power(size.value, x.like(0x1.555556p-2f).value)};
  const lanes root = (y - (y - size / (y * y)) * 0x1.555556p-2f).with_sign_of(x);
  const lanes finite = size.if_less(x.like(std::numeric_limits<float>::infinity()), root, x);
  return x.like(0).if_less(size, finite, x).value;  // a NaN is itself
}

/// With the larger one taken out.
[[nodiscard]] inline spirv::untyped::operand accurate_hypot(const spirv::untyped::operand& a,
                                                            const spirv::untyped::operand& b) {
  const lanes x = lanes{a}.abs(), y = lanes{b}.abs(), less = x.if_less(y, x, y), more = x.if_less(y, y, x);
  const lanes ratio = less / more, size = more * (ratio * ratio + 1.0f).function(spirv::glsl::sqrt);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const lanes bounded = more.if_less(more.like(infinity), more.like(0).if_less(more, size, more), more);
  const lanes nan = more.like(std::numeric_limits<float>::quiet_NaN());
  return x.or_if_nan(y.or_if_nan(bounded, nan), nan).value;
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
