// SPDX-License-Identifier: MIT
// The error function, arc tangents and the gamma function and its kin, by minimax polynomials in f32.
#pragma once
#include <meganeura/kernels/exponential.hpp>

#include <limits>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// Of |x| <= 1; erf(x) / x - 1 in x^2, 1.2e-9 off.
[[nodiscard]] inline lanes erf_near_zero(const lanes& x) {
  const lanes series = polynomial(x * x, {0x1.496a3p-14f, -0x1.a3f7p-11f, 0x1.5405b2p-8f, -0x1.b7f90ep-6f,
                                          0x1.ce2cf8p-4f, -0x1.81273ep-2f, 0x1.06eba8p-3f});
  return x * (series + 1.0f);
}

/// Within 5 ulp: beyond 1 by log(1 - erf(x)) / x up to 4, where erf is 1 in f32, 2.5e-9 of erf off.
[[nodiscard]] inline spirv::untyped::operand accurate_erf(const spirv::untyped::operand& value) {
  const lanes x{value}, size = x.abs(), one = x.like(1), t = size.at_most(4);
  const lanes far = polynomial(
      t, {0x1.b9b96cp-13f, -0x1.a1b4ep-9f, 0x1.75866ep-6f, -0x1.ae8dccp-4f, -0x1.458bbep-1f, -0x1.20e41p+0f});
  const lanes beyond = (one - (t * far).function(spirv::glsl::exp)).with_sign_of(x);
  return one.if_less(size, beyond, erf_near_zero(x)).value;  // a NaN is not beyond
}

/// 1 - erf(x) as t e^(-x^2) e^P(t) with t = 2 / (2 + |x|): relative to the result, which is small for great x.
[[nodiscard]] inline spirv::untyped::operand accurate_erfc(const spirv::untyped::operand& value) {
  const lanes x{value}, size = x.abs().at_most(11);
  const lanes t = x.like(2) / (size + 2.0f);
  const lanes rest = polynomial(t, {0x1.775beap-3f, -0x1.5aacaep+0f, 0x1.154ca2p+2f, -0x1.f055cap+2f, 0x1.0c1918p+3f,
                                    -0x1.672bcap+2f, 0x1.49a1a6p+1f, -0x1.0889b8p+0f, 0x1.f81284p-4f, 0x1.95be7ep-5f,
                                    0x1.83a916p-2f, 0x1.ffe2ecp-1f, -0x1.43f834p+0f});
  const lanes head = size.head(), square = head * head;  // exact
  const lanes above = t * accurate_exp(x.like(0) - square, rest - (size - head) * (size + head));
  const lanes beyond = x.if_less(x.like(0), x.like(2) - above, above);
  return x.abs().if_less(x.like(0.5f), x.like(1) - erf_near_zero(x), beyond).value;
}

/// The angle of (x, y), in (-pi, pi]; of signed zeros and infinities as C has it. Within 4 ulp.
[[nodiscard]] inline spirv::untyped::operand accurate_atan2(const spirv::untyped::operand& ordinate,
                                                            const spirv::untyped::operand& abscissa) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const lanes y{ordinate}, x{abscissa}, a = y.abs(), b = x.abs();
  const lanes less = a.if_less(b, a, b), more = a.if_less(b, b, a), one = x.like(1);
  // 0 / 0 is 0 here and infinity / infinity 1; a NaN is neither.
  const lanes finite = x.like(0).if_less(more, less / more, less);
  const lanes t = less.if_less(x.like(infinity), finite, one), z = t * t;
  const lanes series = polynomial(z, {-0x1.defcf6p-10f, 0x1.6a8e8cp-7f, -0x1.01af0ap-5f, 0x1.dd0e56p-5f, -0x1.58dc5p-4f,
                                      0x1.c0d278p-4f, -0x1.2426f8p-3f, 0x1.999276p-3f, -0x1.55554p-2f});
  constexpr float half_pi = 0x1.921fb6p+0f, half_pi_rest = -0x1.777a5cp-25f;
  const lanes low = t + t * (z * series), turned = x.like(half_pi) - (low - half_pi_rest);
  const lanes right = b.if_less(a, turned, low);
  const lanes left = x.like(2 * half_pi) - (right - 2 * half_pi_rest);
  const lanes is_left = lanes::with(binary_op::bit_and, x.bits(), x.word(0x80000000u));
  const lanes angle = x.word(0).if_less(is_left, left, right).with_sign_of(y);
  const lanes nan = x.like(std::numeric_limits<float>::quiet_NaN());
  return x.or_if_nan(y.or_if_nan(angle, nan), nan).value;
}

// The angles of (sqrt(1 - x^2), x) and (x, sqrt(1 - x^2)).
[[nodiscard]] inline spirv::untyped::operand accurate_arc(const spirv::untyped::operand& value, bool sine) {
  const lanes x{value}, side = ((x.like(1) - x) * (x + 1.0f)).function(spirv::glsl::sqrt);
  return sine ? accurate_atan2(value, side.value) : accurate_atan2(side.value, value);
}

inline constexpr float pi = 0x1.921fb6p+1f;

/// sin and cos of pi x, 0 and +-1 where they are.
struct half_turns {
  lanes sine, cosine;
};
[[nodiscard]] inline half_turns sin_cos_pi(const lanes& x) {
  const lanes n = x.function(spirv::glsl::round_even), r = x - n, size = r.abs();  // exact
  const lanes quarter = x.like(0.25f), other = x.like(0.5f) - size;
  const lanes a = quarter.if_less(size, other, size) * pi, z = a * a;  // at most pi / 4
  const lanes odd = a + a * z * polynomial(z, {-0x1.9a9652p-13f, 0x1.110c5ap-7f, -0x1.555548p-3f});
  const lanes even =
      x.like(1) - (z * 0.5f - z * z * polynomial(z, {0x1.9bae84p-16f, -0x1.6c1338p-10f, 0x1.555548p-5f}));
  const lanes sign = x.like(0).if_less(size, r, x);  // x - x is 0 of either zero
  const lanes sine = quarter.if_less(size, even, odd).with_sign_of(sign), cosine = quarter.if_less(size, odd, even);
  const lanes half = n * 0.5f, is_odd = half - half.function(spirv::glsl::floor);  // 0.5 of an odd n
  const lanes turn = x.like(1) - is_odd * 4.0f;
  return {sine * turn, cosine * turn};
}

/// The logarithm of |gamma(x)|: a polynomial from 1 to 3, Stirling's series beyond, gamma(x) x = gamma(x + 1) down to
/// 0.5 and gamma(x) gamma(1 - x) = pi / sin(pi x) below. Within 1e-6 of the larger of the result and 1.
[[nodiscard]] inline spirv::untyped::operand accurate_lgamma(const spirv::untyped::operand& value) {
  const lanes x{value}, one = x.like(1), half = x.like(0.5f), three = x.like(3);
  const lanes z = x.if_less(half, one - x, x), y = z.if_less(one, z + 1.0f, z);
  const lanes u = z.if_less(one, z - 1.0f, z.at_most(3) - 2.0f);  // exact
  const lanes near = (u + 1.0f) * u *
                     polynomial(u, {0x1.441fd4p-16f, -0x1.45010ep-15f, 0x1.533614p-16f, -0x1.b7831ap-15f, 0x1.9ab1p-13f,
                                    -0x1.be4546p-12f, 0x1.dd5bdep-11f, -0x1.13851cp-9f, 0x1.47a56cp-8f, -0x1.95d4b8p-7f,
                                    0x1.0e0c8p-5f, -0x1.9ae648p-4f, 0x1.b0ee6p-2f});
  const lanes w = y.at_least(3), inverse = one / w, square = inverse * inverse;
  const lanes series = polynomial(square, {1.0f / 1188, -1.0f / 1680, 1.0f / 1260, -1.0f / 360, 1.0f / 12});
  constexpr float rest = 0.41893853320467274f;  // (log(2 pi) - 1) / 2
  const lanes far = (w - 0.5f) * (lanes{accurate_log(w.value)} - 1.0f) + (inverse * series + rest);
  const lanes base = y.if_less(three, near, far), lower = z.if_less(one, z, one);
  const lanes sine = sin_cos_pi(x).sine.abs();
  const lanes moved{accurate_log(x.if_less(half, lower * pi / sine, lower).value)};
  const lanes infinity = x.like(std::numeric_limits<float>::infinity());
  const lanes signed_zero = x.if_less(half, moved - base, base - moved), size = signed_zero.abs();
  const lanes result = size.if_less(x.like(0x1p-126f), size, signed_zero);
  return x.if_less(x.like(-0x1p23f), infinity, result).value;  // poles
}

/// The derivative of lgamma; NaN at the poles below 0, an infinity at 0. Within 1e-6 of the larger of the result and 1.
[[nodiscard]] inline spirv::untyped::operand accurate_digamma(const spirv::untyped::operand& value) {
  const lanes x{value}, one = x.like(1), half = x.like(0.5f), six = x.like(6), zero = x.like(0);
  const lanes z = x.if_less(half, one - x, x), w = z.if_less(six, z + 6.0f, z);
  const lanes inverse = one / w, square = inverse * inverse;
  const lanes series = polynomial(square, {-1.0f / 240, 1.0f / 252, -1.0f / 120, 1.0f / 12}) * square;
  const lanes far = lanes{accurate_log(w.value)} - (inverse * 0.5f + series);
  const lanes q = z * (z + 5.0f);  // 1/z + .. + 1/(z + 5)
  const lanes below = (z + z + 5.0f) * (one / q + one / (q + 4.0f) + one / (q + 6.0f));
  const lanes above = z.if_less(six, far - below, far);
  const auto [sine, cosine] = sin_cos_pi(x);
  const lanes nan = x.like(std::numeric_limits<float>::quiet_NaN());
  const lanes is_pole = x.if_less(zero, zero.if_less(sine.abs(), above, nan), above);
  return x.if_less(half, is_pole - cosine / sine * pi, above).value;
}

/// The derivative of digamma: infinity at the poles. Within 1e-6 of the larger of the result and 1.
[[nodiscard]] inline spirv::untyped::operand accurate_trigamma(const spirv::untyped::operand& value) {
  const lanes x{value}, one = x.like(1), half = x.like(0.5f), six = x.like(6);
  const lanes z = x.if_less(half, one - x, x), w = z.if_less(six, z + 6.0f, z);
  const lanes inverse = one / w, square = inverse * inverse;
  const lanes series = polynomial(square, {-1.0f / 30, 1.0f / 42, -1.0f / 30, 1.0f / 6, 1.0f});
  const lanes far = inverse * (series + inverse * 0.5f);
  lanes below = x.like(0);
  for (int k = 5; k >= 0; --k) {
    const lanes term = one / (z + static_cast<float>(k));
    below = below + term * term;
  }
  const lanes above = z.if_less(six, below + far, far), turn = x.like(pi) / sin_cos_pi(x).sine;
  return x.if_less(half, turn * turn - above, above).value;
}

/// The gamma function: Stirling's series from 4 on, reached by products, below 0.5 by reflection. Within 1e-6.
[[nodiscard]] inline spirv::untyped::operand accurate_tgamma(const spirv::untyped::operand& value) {
  const lanes x{value}, one = x.like(1), half = x.like(0.5f), four = x.like(4), zero = x.like(0);
  const lanes z = x.if_less(half, one - x, x).at_most(36), w = z.if_less(four, z + 4.0f, z), inverse = one / w;
  const lanes series = polynomial(inverse, {5246819.0f / 75246796800, 163879.0f / 209018880, -571.0f / 2488320,
                                            -139.0f / 51840, 1.0f / 288, 1.0f / 12, 1.0f});
  const lanes root{accurate_power(w.value, (w * 0.5f - 0.25f).value)};  // its square might be beyond f32
  const lanes whole = root * (accurate_exp(zero - w, zero) * 0x1.40d932p+1f) * series * root;  // sqrt(2 pi)
  const lanes q = z * (z + 3.0f), above = z.if_less(four, whole / (q * (q + 2.0f)), whole);
  const lanes lost = (one - z) - x, slope = z.function(spirv::glsl::log);  // of 1 - x as it was rounded
  const lanes below = x.like(pi) / (sin_cos_pi(x).sine * (above + above * (lost * slope)));
  const lanes nan = x.like(std::numeric_limits<float>::quiet_NaN());
  const lanes sine = sin_cos_pi(x).sine.abs();
  const lanes reflected = x.if_less(zero, zero.if_less(sine, below, nan), below);
  return x.if_less(half, reflected, above).value;
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
