// SPDX-License-Identifier: MIT
// Ways between numbers: mixtures, steps that are smooth, curves, changes of scale.
#pragma once
#include <meganeura/ops/bounds.hpp>
#include <meganeura/ops/rounding.hpp>
#include <meganeura/ops/trigonometry.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace layers {

struct fma {
  static constexpr auto forward(value auto a, value auto b, value auto c) {
    const auto product = a * b, sum = product + c;
    const auto second = sum - product;  // what of c is in the sum; what is in it of neither is lost (Dekker)
    const auto lost = product - (sum - second) + (c - second) + detail::product_error(a, b);
    return sum + stop_gradient(select(isfinite(sum), lost, 0.0f));
  }
};

struct mix {
  static constexpr auto forward(value auto a, value auto b, value auto t) {
    const auto way = b - a;
    return select(less(t, 0.5f), a + way * t, b - way * (1.0f - t));
  }
};

struct normalize {
  static constexpr auto forward(value auto x, value auto low, value auto high) { return (x - low) / (high - low); }
};

struct denormalize {
  static constexpr auto forward(value auto x, value auto low, value auto high) { return x * (high - low) + low; }
};

struct standardize {
  static constexpr auto forward(value auto x, value auto mean, value auto deviation) { return (x - mean) / deviation; }
};

struct unstandardize {
  static constexpr auto forward(value auto x, value auto mean, value auto deviation) { return x * deviation + mean; }
};

struct smoothstep {
  static constexpr auto forward(value auto x, value auto low, value auto high) {
    const auto t = clamp(normalize::forward(x, low, high), 0.0f, 1.0f);
    return t * t * (3.0f - t * 2.0f);
  }
};

struct smootherstep {
  static constexpr auto forward(value auto x, value auto low, value auto high) {
    const auto t = clamp(normalize::forward(x, low, high), 0.0f, 1.0f);
    return t * t * t * (t * (t * 6.0f - 15.0f) + 10.0f);
  }
};

// 1/2 - sin(asin(1 - 2 x) / 3) without its difference.
struct inverse_smoothstep {
  static constexpr auto forward(value auto x) {
    const auto angle = asin(sqrt(x)) * (1.0f / 3);
    return sin(angle) * sin(angle + 1.0471975511965976) * 2.0f;
  }
};

struct bezier_quadratic {
  static constexpr auto forward(value auto a, value auto b, value auto c, value auto t) {
    return mix::forward(mix::forward(a, b, t), mix::forward(b, c, t), t);
  }
};

}  // namespace layers

/// a b + c, rounded once but for rare ties, where neither the product nor what rounding takes from it leaves the range.
/// a b + c as an expression is rounded twice.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto fma(A a, B b, C c) {
  MEGANEURA_CHECK_OPERANDS("fma(a, b, c)", a, b)
  MEGANEURA_CHECK_OPERANDS("fma(a, b, c)", a, c)
  MEGANEURA_CHECK_FLOATS("fma(a, b, c)", a, b)
  return detail::formula<layers::fma>(a, b, c);
}

/// a + (b - a) t, just a at t = 0 and just b at 1: torch.lerp.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto mix(A a, B b, C t) {
  MEGANEURA_CHECK_OPERANDS("mix(a, b, t)", a, b)
  MEGANEURA_CHECK_OPERANDS("mix(a, b, t)", a, t)
  MEGANEURA_CHECK_FLOATS("mix(a, b, t)", a, b)
  return detail::formula<layers::mix>(a, b, t);
}

/// (x - low) / (high - low): 0 at low, 1 at high.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto normalize(A x, B low, C high) {
  MEGANEURA_CHECK_OPERANDS("normalize(x, low, high)", x, low)
  MEGANEURA_CHECK_OPERANDS("normalize(x, low, high)", x, high)
  MEGANEURA_CHECK_FLOATS("normalize(x, low, high)", x, low)
  return detail::formula<layers::normalize>(x, low, high);
}

/// x (high - low) + low, which normalize undoes.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto denormalize(A x, B low, C high) {
  MEGANEURA_CHECK_OPERANDS("denormalize(x, low, high)", x, low)
  MEGANEURA_CHECK_OPERANDS("denormalize(x, low, high)", x, high)
  MEGANEURA_CHECK_FLOATS("denormalize(x, low, high)", x, low)
  return detail::formula<layers::denormalize>(x, low, high);
}

/// (x - mean) / deviation of numbers that are given; of those of x itself layer_norm and batch_norm.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto standardize(A x, B mean, C deviation) {
  MEGANEURA_CHECK_OPERANDS("standardize(x, mean, deviation)", x, mean)
  MEGANEURA_CHECK_OPERANDS("standardize(x, mean, deviation)", x, deviation)
  MEGANEURA_CHECK_FLOATS("standardize(x, mean, deviation)", x, mean)
  return detail::formula<layers::standardize>(x, mean, deviation);
}

/// x deviation + mean, which standardize undoes.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto unstandardize(A x, B mean, C deviation) {
  MEGANEURA_CHECK_OPERANDS("unstandardize(x, mean, deviation)", x, mean)
  MEGANEURA_CHECK_OPERANDS("unstandardize(x, mean, deviation)", x, deviation)
  MEGANEURA_CHECK_FLOATS("unstandardize(x, mean, deviation)", x, mean)
  return detail::formula<layers::unstandardize>(x, mean, deviation);
}

/// x from [low, high] to [new_low, new_high], and on the same line outside.
template <value A, class B, class C, class D, class E>
  requires(detail::operands<A, B>&& detail::operands<A, C>&& detail::operands<A, D>&& detail::operands<A, E>)
[[nodiscard]] constexpr auto map_range(A x, B low, C high, D new_low, E new_high) {
  MEGANEURA_CHECK_OPERANDS("map_range(x, low, high, new_low, new_high)", x, low)
  MEGANEURA_CHECK_OPERANDS("map_range(x, low, high, new_low, new_high)", x, high)
  MEGANEURA_CHECK_OPERANDS("map_range(x, low, high, new_low, new_high)", x, new_low)
  MEGANEURA_CHECK_OPERANDS("map_range(x, low, high, new_low, new_high)", x, new_high)
  MEGANEURA_CHECK_FLOATS("map_range(x, low, high, new_low, new_high)", x, low)
  const auto begin = detail::widened(detail::adapted(low, x));
  const auto end = detail::widened(detail::adapted(high, x));
  const auto share = detail::formula<layers::normalize>(detail::widened(x), begin, end);
  const auto new_begin = detail::widened(detail::adapted(new_low, x));
  const auto new_end = detail::widened(detail::adapted(new_high, x));
  return detail::narrowed(detail::formula<layers::denormalize>(share, new_begin, new_end), x);
}

/// 0 up to low, 1 from high > low on, t^2 (3 - 2 t) between: GLSL's, with its order of arguments. gradient: to all.
template <class A, class B, value C>
  requires(detail::operands<A, C>&& detail::operands<B, C>)
[[nodiscard]] constexpr auto smoothstep(A low, B high, C x) {
  MEGANEURA_CHECK_OPERANDS("smoothstep(low, high, x)", low, x)
  MEGANEURA_CHECK_OPERANDS("smoothstep(low, high, x)", high, x)
  MEGANEURA_CHECK_FLOATS("smoothstep(low, high, x)", low, x)
  return detail::formula<layers::smoothstep>(x, low, high);
}

/// 0 up to low, 1 from high > low on, t^3 (t (6 t - 15) + 10) between, with curvature 0 at both ends. Here x is the
/// first argument.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto smootherstep(A x, B low, C high) {
  MEGANEURA_CHECK_OPERANDS("smootherstep(x, low, high)", x, low)
  MEGANEURA_CHECK_OPERANDS("smootherstep(x, low, high)", x, high)
  MEGANEURA_CHECK_FLOATS("smootherstep(x, low, high)", x, low)
  return detail::formula<layers::smootherstep>(x, low, high);
}

/// What smoothstep(0, 1, y) is x of, for x in [0, 1]; NaN outside. gradient: infinite at both ends.
template <value A>
[[nodiscard]] constexpr auto inverse_smoothstep(A x) {
  MEGANEURA_EXPECT_FLOATS("inverse_smoothstep(x)", x)
  return detail::formula<layers::inverse_smoothstep>(x);
}

/// The curve from a to c that b pulls, by de Casteljau's mixtures: just a at t = 0 and just c at 1.
template <value A, class B, class C, class T>
  requires(detail::operands<A, B>&& detail::operands<A, C>&& detail::operands<A, T>)
[[nodiscard]] constexpr auto bezier_quadratic(A a, B b, C c, T t) {
  MEGANEURA_CHECK_OPERANDS("bezier_quadratic(a, b, c, t)", a, b)
  MEGANEURA_CHECK_OPERANDS("bezier_quadratic(a, b, c, t)", a, c)
  MEGANEURA_CHECK_OPERANDS("bezier_quadratic(a, b, c, t)", a, t)
  MEGANEURA_CHECK_FLOATS("bezier_quadratic(a, b, c, t)", a, b)
  return detail::formula<layers::bezier_quadratic>(a, b, c, t);
}

/// The curve from a to d that b and c pull, as bezier_quadratic.
template <value A, class B, class C, class D, class T>
  requires(detail::operands<A, B>&& detail::operands<A, C>&& detail::operands<A, D>&& detail::operands<A, T>)
[[nodiscard]] constexpr auto bezier_cubic(A a, B b, C c, D d, T t) {
  MEGANEURA_CHECK_OPERANDS("bezier_cubic(a, b, c, d, t)", a, b)
  MEGANEURA_CHECK_OPERANDS("bezier_cubic(a, b, c, d, t)", a, c)
  MEGANEURA_CHECK_OPERANDS("bezier_cubic(a, b, c, d, t)", a, d)
  MEGANEURA_CHECK_OPERANDS("bezier_cubic(a, b, c, d, t)", a, t)
  MEGANEURA_CHECK_FLOATS("bezier_cubic(a, b, c, d, t)", a, b)
  const auto second = detail::widened(detail::adapted(b, a));
  const auto third = detail::widened(detail::adapted(c, a));
  const auto share = detail::widened(detail::adapted(t, a));
  const auto left = detail::formula<layers::bezier_quadratic>(detail::widened(a), second, third, share);
  const auto last = detail::widened(detail::adapted(d, a));
  const auto right = detail::formula<layers::bezier_quadratic>(second, third, last, share);
  return detail::narrowed(detail::formula<layers::mix>(left, right, share), a);
}

}  // namespace meganeura::inline MEGANEURA_ABI
