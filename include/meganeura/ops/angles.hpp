// SPDX-License-Identifier: MIT
// Trigonometric and hyperbolic functions made of others: of half turns, reciprocal ones, degrees.
#pragma once
#include <meganeura/ops/bits.hpp>
#include <meganeura/ops/compare.hpp>
#include <meganeura/ops/exponential.hpp>
#include <meganeura/ops/trigonometry.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace layers {

// Of pi x. The nearest quarter turn is taken off, which is exact; what is left is at most pi / 4.
struct sinpi {
  static constexpr auto forward(value auto x) { return of_turn(x, 0.0f); }
  static constexpr auto of_turn(value auto x, float quarters) {
    const auto nearest = round(x * 2.0f);
    const auto angle = (x - nearest * 0.5f) * 3.1415927f;
    const auto quarter = nearest - floor(nearest * 0.25f) * 4.0f + quarters;  // 0 to 4
    const auto is_odd = not_equal(quarter - floor(quarter * 0.5f) * 2.0f, 0.0f);
    const auto y = select(is_odd, cos(angle), sin(angle));
    return select(logical_and(less_equal(2.0f, quarter), less(quarter, 4.0f)), -y, y);
  }
};

struct cospi {
  static constexpr auto forward(value auto x) { return sinpi::of_turn(x, 1.0f); }
};

struct tanpi {
  static constexpr auto forward(value auto x) {
    const auto nearest = round(x * 2.0f);
    const auto angle = (x - nearest * 0.5f) * 3.1415927f;
    const auto is_odd = not_equal(nearest - floor(nearest * 0.5f) * 2.0f, 0.0f);
    const auto sine = sin(angle), cosine = cos(angle);
    return select(is_odd, -cosine, sine) / select(is_odd, sine, cosine);
  }
};

struct sinc {
  static constexpr auto forward(value auto x) {
    const auto is_small = less(abs(x), 1.0f);
    const auto small = select(is_small, x, 0.0f), large = select(is_small, 1.0f, x);
    const auto z = small * small;
    const auto series =
        1.0f - z * (1.0f / 6 - z * (1.0f / 120 - z * (1.0f / 5040 - z * (1.0f / 362880 - z * (1.0f / 39916800)))));
    return select(is_small, series, sin(large) / large);
  }
};

struct sec {
  static constexpr auto forward(value auto x) { return reciprocal(cos(x)); }
};

struct csc {
  static constexpr auto forward(value auto x) { return reciprocal(sin(x)); }
};

struct cot {
  static constexpr auto forward(value auto x) { return reciprocal(tan(x)); }
};

// The inverse ones are angles of triangles: 1 / x would lose what x has beyond 1.
struct asec {
  static constexpr auto forward(value auto x) { return atan2(other_side(x), copysign(detail::number_of(x, 1.0), x)); }
  static constexpr auto other_side(value auto x) { return sqrt(abs(x) - 1.0f) * sqrt(abs(x) + 1.0f); }
};

struct acsc {
  static constexpr auto forward(value auto x) {
    return atan2(copysign(detail::number_of(x, 1.0), x), asec::other_side(x));
  }
};

struct acot {
  static constexpr auto forward(value auto x) {
    const auto sign = copysign(detail::number_of(x, 1.0), x);
    return atan2(sign, sign * x);
  }
};

// 2 exp(-|x|) / (1 +- exp(-2 |x|)): cosh and sinh leave the range.
struct sech {
  static constexpr auto forward(value auto x) {
    const auto small = exp(-abs(x));
    return small * 2.0f / (small * small + 1.0f);
  }
};

struct csch {
  static constexpr auto forward(value auto x) {
    const auto size = abs(x);
    return copysign(exp(-size) * -2.0f / expm1(size * -2.0f), x);
  }
};

struct coth {
  static constexpr auto forward(value auto x) { return reciprocal(tanh(x)); }
};

struct asech {
  static constexpr auto forward(value auto x) { return asinh(sqrt((1.0f - x) / x) * sqrt((1.0f + x) / x)); }
};

struct acsch {
  static constexpr auto forward(value auto x) { return asinh(reciprocal(x)); }
};

struct acoth {
  static constexpr auto forward(value auto x) { return copysign(log1p(2.0f / (abs(x) - 1.0f)) * 0.5f, x); }
};

}  // namespace layers

/// sin(pi x), exact at multiples of 1/2; NaN for infinities.
template <value A>
[[nodiscard]] constexpr auto sinpi(A x) {
  MEGANEURA_EXPECT_FLOATS("sinpi(x)", x)
  return detail::formula<layers::sinpi>(x);
}

/// cos(pi x), exact at multiples of 1/2; NaN for infinities.
template <value A>
[[nodiscard]] constexpr auto cospi(A x) {
  MEGANEURA_EXPECT_FLOATS("cospi(x)", x)
  return detail::formula<layers::cospi>(x);
}

/// tan(pi x), exact at multiples of 1/2, where it is 0 or infinite; NaN for infinities.
template <value A>
[[nodiscard]] constexpr auto tanpi(A x) {
  MEGANEURA_EXPECT_FLOATS("tanpi(x)", x)
  return detail::formula<layers::tanpi>(x);
}

/// sin(x) / x, 1 at 0; torch.sinc(x) is sinc(pi x). NaN where sin is.
template <value A>
[[nodiscard]] constexpr auto sinc(A x) {
  MEGANEURA_EXPECT_FLOATS("sinc(x)", x)
  return detail::formula<layers::sinc>(x);
}

/// 1 / cos(x).
template <value A>
[[nodiscard]] constexpr auto sec(A x) {
  MEGANEURA_EXPECT_FLOATS("sec(x)", x)
  return detail::formula<layers::sec>(x);
}

/// 1 / sin(x).
template <value A>
[[nodiscard]] constexpr auto csc(A x) {
  MEGANEURA_EXPECT_FLOATS("csc(x)", x)
  return detail::formula<layers::csc>(x);
}

/// 1 / tan(x).
template <value A>
[[nodiscard]] constexpr auto cot(A x) {
  MEGANEURA_EXPECT_FLOATS("cot(x)", x)
  return detail::formula<layers::cot>(x);
}

/// acos(1 / x), in [0, pi]; NaN within |x| < 1.
template <value A>
[[nodiscard]] constexpr auto asec(A x) {
  MEGANEURA_EXPECT_FLOATS("asec(x)", x)
  return detail::formula<layers::asec>(x);
}

/// asin(1 / x), in [-pi / 2, pi / 2]; NaN within |x| < 1.
template <value A>
[[nodiscard]] constexpr auto acsc(A x) {
  MEGANEURA_EXPECT_FLOATS("acsc(x)", x)
  return detail::formula<layers::acsc>(x);
}

/// atan(1 / x), in [-pi / 2, pi / 2], pi / 2 at 0 and -pi / 2 at -0.
template <value A>
[[nodiscard]] constexpr auto acot(A x) {
  MEGANEURA_EXPECT_FLOATS("acot(x)", x)
  return detail::formula<layers::acot>(x);
}

/// 1 / cosh(x), with a gradient of 0 far out.
template <value A>
[[nodiscard]] constexpr auto sech(A x) {
  MEGANEURA_EXPECT_FLOATS("sech(x)", x)
  return detail::formula<layers::sech>(x);
}

/// 1 / sinh(x), with a gradient of 0 far out.
template <value A>
[[nodiscard]] constexpr auto csch(A x) {
  MEGANEURA_EXPECT_FLOATS("csch(x)", x)
  return detail::formula<layers::csch>(x);
}

/// 1 / tanh(x).
template <value A>
[[nodiscard]] constexpr auto coth(A x) {
  MEGANEURA_EXPECT_FLOATS("coth(x)", x)
  return detail::formula<layers::coth>(x);
}

/// acosh(1 / x) of x in (0, 1], infinity at 0, NaN elsewhere.
template <value A>
[[nodiscard]] constexpr auto asech(A x) {
  MEGANEURA_EXPECT_FLOATS("asech(x)", x)
  return detail::formula<layers::asech>(x);
}

/// asinh(1 / x).
template <value A>
[[nodiscard]] constexpr auto acsch(A x) {
  MEGANEURA_EXPECT_FLOATS("acsch(x)", x)
  return detail::formula<layers::acsch>(x);
}

/// atanh(1 / x); infinite at 1 and -1, NaN between.
template <value A>
[[nodiscard]] constexpr auto acoth(A x) {
  MEGANEURA_EXPECT_FLOATS("acoth(x)", x)
  return detail::formula<layers::acoth>(x);
}

/// Degrees in radians.
template <value A>
[[nodiscard]] constexpr auto deg2rad(A x) {
  MEGANEURA_EXPECT_FLOATS("deg2rad(x)", x)
  return x * constant<0.017453292519943295>;
}

/// Radians in degrees.
template <value A>
[[nodiscard]] constexpr auto rad2deg(A x) {
  MEGANEURA_EXPECT_FLOATS("rad2deg(x)", x)
  return x * constant<57.29577951308232>;
}

}  // namespace meganeura::inline MEGANEURA_ABI
