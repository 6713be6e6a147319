// SPDX-License-Identifier: MIT
// Powers, and curves made of them.
#pragma once
#include <meganeura/ops/exponential.hpp>
#include <meganeura/ops/formula.hpp>
#include <meganeura/ops/trigonometry.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace layers {

struct cube {
  static constexpr auto forward(value auto x) { return x * x * x; }
};

struct quartic {
  static constexpr auto forward(value auto x) {
    const auto square = x * x;
    return square * square;
  }
};

struct quintic {
  static constexpr auto forward(value auto x) { return quartic::forward(x) * x; }
};

struct gamma_correct {
  static constexpr auto forward(value auto x, value auto gamma) { return power(x, reciprocal(gamma)); }
};

// Around 0 series, whose slopes by lambda keep their digits, too. Neither way computes where the other one is taken.
struct boxcox {
  static constexpr auto forward(value auto x, value auto lambda) {
    const auto logarithm = log(x), z = logarithm * lambda;
    const auto is_small = less(abs(z), 0.1f);
    const auto near = select(is_small, z, 0.0f), divisor = select(is_small, 1.0f, lambda);
    const auto series =
        1.0f + near * (0.5f + near * (1.0f / 6 + near * (1.0f / 24 + near * (1.0f / 120 + near * (1.0f / 720)))));
    return select(is_small, logarithm * series, expm1(z) / divisor);
  }
};

struct inv_boxcox {
  static constexpr auto forward(value auto y, value auto lambda) {
    const auto z = y * lambda;
    const auto is_small = less(abs(z), 0.05f);
    const auto t = select(is_small, z, 0.0f), divisor = select(is_small, 1.0f, lambda);
    const auto series = 1.0f - t * (0.5f - t * (1.0f / 3 - t * (0.25f - t * (0.2f - t * (1.0f / 6 - t * (1.0f / 7))))));
    return exp(select(is_small, y * series, log1p(z) / divisor));
  }
};

struct tukey_transform {
  static constexpr auto forward(value auto x, value auto lambda) {
    const auto y = power(x, lambda);
    return select(equal(lambda, 0.0f), log(x), select(less(lambda, 0.0f), -y, y));
  }
};

struct softclip {
  static constexpr auto forward(value auto x, value auto bound) {
    const auto ratio = maximum(minimum(x / bound, 1e18f), -1e18f);  // infinite, it would be divided by itself
    return bound * (ratio / hypot(ratio, 1.0f));
  }
};

struct srgb_to_linear {
  static constexpr auto forward(value auto x) {
    const auto is_dark = less_equal(x, 0.04045f);
    const auto bright = select(is_dark, 1.0f, x);
    return select(is_dark, x * (1 / 12.92f), power(bright * (1 / 1.055f) + 0.055f / 1.055f, 2.4f));
  }
};

struct linear_to_srgb {
  static constexpr auto forward(value auto x) {
    const auto is_dark = less_equal(x, 0.0031308f);
    const auto bright = select(is_dark, 1.0f, x);
    return select(is_dark, x * 12.92f, power(bright, 1 / 2.4f) * 1.055f - 0.055f);
  }
};

struct arcsinh_asinh {
  static constexpr auto forward(value auto x, value auto shift, value auto scale) {
    return sinh((asinh(x) + shift) / scale);
  }
};

}  // namespace layers

/// x^2. dtypes: numbers.
template <value A>
[[nodiscard]] constexpr auto square(A x) {
  MEGANEURA_EXPECT(x.facts().type != dtype::boolean,
                   "meganeura: square(x): a condition is no number; select(condition, a, b)", x)
  return x * x;
}

/// x^3. dtypes: numbers.
template <value A>
[[nodiscard]] constexpr auto cube(A x) {
  MEGANEURA_EXPECT(x.facts().type != dtype::boolean,
                   "meganeura: cube(x): a condition is no number; select(condition, a, b)", x)
  return detail::formula<layers::cube>(x);
}

/// x^4. dtypes: numbers.
template <value A>
[[nodiscard]] constexpr auto quartic(A x) {
  MEGANEURA_EXPECT(x.facts().type != dtype::boolean,
                   "meganeura: quartic(x): a condition is no number; select(condition, a, b)", x)
  return detail::formula<layers::quartic>(x);
}

/// x^5. dtypes: numbers.
template <value A>
[[nodiscard]] constexpr auto quintic(A x) {
  MEGANEURA_EXPECT(x.facts().type != dtype::boolean,
                   "meganeura: quintic(x): a condition is no number; select(condition, a, b)", x)
  return detail::formula<layers::quintic>(x);
}

/// x^(1 / gamma) of x >= 0, which inverse_gamma undoes.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto gamma_correct(A x, B gamma) {
  MEGANEURA_CHECK_OPERANDS("gamma_correct(x, gamma)", x, gamma)
  MEGANEURA_CHECK_FLOATS("gamma_correct(x, gamma)", x, gamma)
  return detail::formula<layers::gamma_correct>(x, gamma);
}

/// x^gamma of x >= 0.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto inverse_gamma(A x, B gamma) {
  MEGANEURA_CHECK_OPERANDS("inverse_gamma(x, gamma)", x, gamma)
  MEGANEURA_CHECK_FLOATS("inverse_gamma(x, gamma)", x, gamma)
  return power(x, gamma);
}

/// (x^lambda - 1) / lambda of x > 0, log(x) at lambda = 0 and without loss around it; NaN below x = 0.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto boxcox(A x, B lambda) {
  MEGANEURA_CHECK_OPERANDS("boxcox(x, lambda)", x, lambda)
  MEGANEURA_CHECK_FLOATS("boxcox(x, lambda)", x, lambda)
  return detail::formula<layers::boxcox>(x, lambda);
}

/// (1 + lambda y)^(1 / lambda), exp(y) at lambda = 0: what boxcox made y of; NaN where 1 + lambda y is negative.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto inv_boxcox(A y, B lambda) {
  MEGANEURA_CHECK_OPERANDS("inv_boxcox(y, lambda)", y, lambda)
  MEGANEURA_CHECK_FLOATS("inv_boxcox(y, lambda)", y, lambda)
  return detail::formula<layers::inv_boxcox>(y, lambda);
}

/// Tukey's ladder of powers, of x > 0: x^lambda, log(x) at lambda = 0, -x^lambda below.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto tukey_transform(A x, B lambda) {
  MEGANEURA_CHECK_OPERANDS("tukey_transform(x, lambda)", x, lambda)
  MEGANEURA_CHECK_FLOATS("tukey_transform(x, lambda)", x, lambda)
  return detail::formula<layers::tukey_transform>(x, lambda);
}

/// x / sqrt(1 + (x / bound)^2), of bound > 0: nearly x around 0, +-bound far out.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto softclip(A x, B bound) {
  MEGANEURA_CHECK_OPERANDS("softclip(x, bound)", x, bound)
  MEGANEURA_CHECK_FLOATS("softclip(x, bound)", x, bound)
  return detail::formula<layers::softclip>(x, bound);
}

/// Light of a colour value of sRGB; linear up to 0.04045, negative numbers too. source: IEC 61966-2-1.
template <value A>
[[nodiscard]] constexpr auto srgb_to_linear(A x) {
  MEGANEURA_EXPECT_FLOATS("srgb_to_linear(x)", x)
  return detail::formula<layers::srgb_to_linear>(x);
}

/// The colour value of light; linear up to 0.0031308, negative numbers too. source: IEC 61966-2-1.
template <value A>
[[nodiscard]] constexpr auto linear_to_srgb(A x) {
  MEGANEURA_EXPECT_FLOATS("linear_to_srgb(x)", x)
  return detail::formula<layers::linear_to_srgb>(x);
}

/// sinh((asinh(x) + shift) / scale), which skews a distribution (shift) and changes its tails (scale).
/// source: Jones and Pewsey, Biometrika 96 (2009).
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto arcsinh_asinh(A x, B shift, C scale) {
  MEGANEURA_CHECK_OPERANDS("arcsinh_asinh(x, shift, scale)", x, shift)
  MEGANEURA_CHECK_OPERANDS("arcsinh_asinh(x, shift, scale)", x, scale)
  MEGANEURA_CHECK_FLOATS("arcsinh_asinh(x, shift, scale)", x, shift)
  return detail::formula<layers::arcsinh_asinh>(x, shift, scale);
}

}  // namespace meganeura::inline MEGANEURA_ABI
