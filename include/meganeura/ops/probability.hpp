// SPDX-License-Identifier: MIT
// Densities, information and sums of numbers that are known by their logarithms.
#pragma once
#include <meganeura/ops/bounds.hpp>
#include <meganeura/ops/custom_gradient.hpp>
#include <meganeura/ops/exponential.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// -|a - b|; of equal infinities a number, so that they do not make NaN. Of equal numbers it has a
// slope, and with that of the larger one, which is the second, each gets a half.
constexpr auto larger_of(value auto a, value auto b) { return select(less(b, a), a, b); }
constexpr auto minus_distance(value auto a, value auto b) {
  const auto is_open = logical_and(equal(a, b), equal(abs(a), __builtin_inf()));
  return select(is_open, -1.0f, select(less(b, a), b - a, a - b));
}

// log(x / y) of positive numbers, which keeps its digits where they are nearly equal.
constexpr auto log_ratio(value auto x, value auto y) {
  const auto is_less = less(x, y);
  const auto above = select(is_less, y, x), below = select(is_less, x, y), excess = (above - below) / below;
  const auto fits = less(excess, 1e38f);
  const auto size = select(fits, meganeura::log1p(select(fits, excess, 1.0f)), log(above) - log(below));
  return select(is_less, -size, size);
}

}  // namespace detail

namespace layers {

struct logaddexp {
  static constexpr auto forward(value auto a, value auto b) {
    return detail::larger_of(a, b) + log1p(exp(detail::minus_distance(a, b)));
  }
};

struct logaddexp2 {
  static constexpr auto forward(value auto a, value auto b) {
    return detail::larger_of(a, b) + log1p(exp2(detail::minus_distance(a, b))) * 1.4426950408889634;
  }
};

struct logit {
  static constexpr auto forward(value auto x) {
    const auto value_at = [](value auto y) {
      const auto is_lower = less(y, 0.5f);
      const auto q = select(equal(y, 0.0f), 0.0f, select(is_lower, y, 1.0f - y));  // never -0
      const auto size = log1p((1.0f - (q + q)) / q);
      return select(is_lower, -size, size);
    };
    const auto slope = [](value auto g, value auto, value auto y) {
      const auto exists = logical_and(less_equal(0.0f, y), less_equal(y, 1.0f));
      return g * select(exists, reciprocal(abs(y * (1.0f - y))), __builtin_nanf(""));
    };
    return custom_gradient(value_at, slope, x);
  }
};

struct xlogy {
  static constexpr auto forward(value auto x, value auto y) {
    const auto vanishes = logical_and(equal(x, 0.0f), equal(y, y));
    return x * log(select(vanishes, 1.0f, y));
  }
};

struct entr {
  static constexpr auto forward(value auto x) {
    const auto is_positive = less(0.0f, x);
    const auto inside = 0.0f - x * log(select(is_positive, x, 1.0f));
    return select(less(x, 0.0f), -__builtin_inf(), inside);
  }
};

struct rel_entr {
  static constexpr auto forward(value auto x, value auto y) { return beside(x, y, 0.0f); }
  // With `further` (y - x) added where both are positive; where x is 0 it is added by hand.
  static constexpr auto beside(value auto x, value auto y, float further) {
    const auto is_inside = logical_and(less(0.0f, x), less(0.0f, y));
    const auto p = select(is_inside, x, 1.0f), q = select(is_inside, y, 1.0f);
    const auto inside = p * detail::log_ratio(p, q) + (q - p) * further;
    const auto is_edge = logical_and(equal(x, 0.0f), less_equal(0.0f, y));
    const auto outside = select(is_edge, y * further, __builtin_inf());
    return select(is_inside, inside, select(isnan(x), x, select(isnan(y), y, outside)));
  }
};

struct kl_divergence {
  static constexpr auto forward(value auto x, value auto y) { return rel_entr::beside(x, y, 1.0f); }
};

struct normal_pdf {
  static constexpr auto forward(value auto x, value auto mean, value auto deviation) {
    const auto z = (x - mean) / deviation;
    return exp(z * z * -0.5f) / (deviation * 2.5066282746310002);
  }
};

struct uniform_pdf {
  static constexpr auto forward(value auto x, value auto low, value auto high) {
    const auto is_inside = logical_and(less_equal(low, x), less_equal(x, high));
    return select(is_inside, reciprocal(high - low), select(equal(x, x), 0.0f, x));
  }
};

struct uniform_cdf {
  static constexpr auto forward(value auto x, value auto low, value auto high) {
    return clamp((x - low) / (high - low), 0.0f, 1.0f);
  }
};

struct exponential_pdf {
  static constexpr auto forward(value auto x, value auto rate) {
    const auto is_negative = less(x, 0.0f);
    return select(is_negative, 0.0f, rate * exp(-(rate * select(is_negative, 0.0f, x))));
  }
};

struct exponential_cdf {
  static constexpr auto forward(value auto x, value auto rate) {
    return 0.0f - expm1(-(rate * select(less(x, 0.0f), 0.0f, x)));
  }
};

}  // namespace layers

/// log(exp(a) + exp(b)) without the exponentials leaving the range; an infinity if one is infinity or both -infinity.
/// gradient: shares that sum to 1, halves where a == b.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto logaddexp(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("logaddexp(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("logaddexp(a, b)", a, b)
  return detail::formula_of_two<layers::logaddexp>(a, b);
}

/// log2(2^a + 2^b), as logaddexp.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto logaddexp2(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("logaddexp2(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("logaddexp2(a, b)", a, b)
  return detail::formula_of_two<layers::logaddexp2>(a, b);
}

/// log(x / (1 - x)), which keeps its digits near 1/2; infinite at 0 and 1, NaN beyond.
template <value A>
[[nodiscard]] constexpr auto logit(A x) {
  MEGANEURA_EXPECT_FLOATS("logit(x)", x)
  return detail::formula<layers::logit>(x);
}

/// x log(y), 0 where x is 0 and y a number. gradient: 0 to both there.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto xlogy(A x, B y) {
  MEGANEURA_CHECK_OPERANDS("xlogy(x, y)", x, y)
  MEGANEURA_CHECK_FLOATS("xlogy(x, y)", x, y)
  return detail::formula_of_two<layers::xlogy>(x, y);
}

/// -x log(x), 0 at 0 and -infinity below. gradient: 0 at 0 and below.
template <value A>
[[nodiscard]] constexpr auto entr(A x) {
  MEGANEURA_EXPECT_FLOATS("entr(x)", x)
  return detail::formula<layers::entr>(x);
}

/// x log(x / y) of x, y > 0, 0 where x is 0 and y >= 0, elsewhere infinity; nearly equal numbers keep their digits.
/// gradient: 0 at x = 0.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto rel_entr(A x, B y) {
  MEGANEURA_CHECK_OPERANDS("rel_entr(x, y)", x, y)
  MEGANEURA_CHECK_FLOATS("rel_entr(x, y)", x, y)
  return detail::formula_of_two<layers::rel_entr>(x, y);
}

/// x log(x / y) - x + y of x, y > 0, y where x is 0 and y >= 0, elsewhere infinity: summed up it is the divergence of
/// two distributions, and no element is negative but by rounding. SciPy's kl_div; the loss is kl_div_loss.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto kl_divergence(A x, B y) {
  MEGANEURA_CHECK_OPERANDS("kl_divergence(x, y)", x, y)
  MEGANEURA_CHECK_FLOATS("kl_divergence(x, y)", x, y)
  return detail::formula_of_two<layers::kl_divergence>(x, y);
}

/// The density of the normal distribution.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto normal_pdf(A x, B mean, C deviation) {
  MEGANEURA_CHECK_OPERANDS("normal_pdf(x, mean, deviation)", x, mean)
  MEGANEURA_CHECK_OPERANDS("normal_pdf(x, mean, deviation)", x, deviation)
  MEGANEURA_CHECK_FLOATS("normal_pdf(x, mean, deviation)", x, mean)
  return detail::formula<layers::normal_pdf>(x, mean, deviation);
}

/// 1 / (high - low) within [low, high], 0 outside.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto uniform_pdf(A x, B low, C high) {
  MEGANEURA_CHECK_OPERANDS("uniform_pdf(x, low, high)", x, low)
  MEGANEURA_CHECK_OPERANDS("uniform_pdf(x, low, high)", x, high)
  MEGANEURA_CHECK_FLOATS("uniform_pdf(x, low, high)", x, low)
  return detail::formula<layers::uniform_pdf>(x, low, high);
}

/// The share of [low, high] below x.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto uniform_cdf(A x, B low, C high) {
  MEGANEURA_CHECK_OPERANDS("uniform_cdf(x, low, high)", x, low)
  MEGANEURA_CHECK_OPERANDS("uniform_cdf(x, low, high)", x, high)
  MEGANEURA_CHECK_FLOATS("uniform_cdf(x, low, high)", x, low)
  return detail::formula<layers::uniform_cdf>(x, low, high);
}

/// rate exp(-rate x) of x >= 0, 0 below.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto exponential_pdf(A x, B rate) {
  MEGANEURA_CHECK_OPERANDS("exponential_pdf(x, rate)", x, rate)
  MEGANEURA_CHECK_FLOATS("exponential_pdf(x, rate)", x, rate)
  return detail::formula<layers::exponential_pdf>(x, rate);
}

/// 1 - exp(-rate x) of x >= 0, which keeps its digits near 0, and 0 below.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto exponential_cdf(A x, B rate) {
  MEGANEURA_CHECK_OPERANDS("exponential_cdf(x, rate)", x, rate)
  MEGANEURA_CHECK_FLOATS("exponential_cdf(x, rate)", x, rate)
  return detail::formula<layers::exponential_cdf>(x, rate);
}

}  // namespace meganeura::inline MEGANEURA_ABI
