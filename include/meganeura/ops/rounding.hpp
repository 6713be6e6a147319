// SPDX-License-Identifier: MIT
// Remainders, and floats taken apart into whole numbers, fractions and exponents.
#pragma once
#include <meganeura/ops/bits.hpp>
#include <meganeura/ops/bounds.hpp>
#include <meganeura/ops/exponential.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// What rounding took from the product of two f32: their upper and lower twelve bits have exact products. Not where
// these leave the range. source: T. J. Dekker, Numerische Mathematik 18 (1971).
constexpr auto upper_bits(value auto x) {
  return meganeura::reinterpret<dtype::f32>(meganeura::bitwise_and(meganeura::reinterpret<dtype::i32>(x), -4096));
}
constexpr auto product_error(value auto a, value auto b) {
  const auto a_upper = upper_bits(a), b_upper = upper_bits(b);
  const auto a_lower = a - a_upper, b_lower = b - b_upper;
  return a_upper * b_upper - a * b + a_upper * b_lower + a_lower * b_upper + a_lower * b_lower;
}

}  // namespace detail

namespace layers {

// a less a whole multiple of b, as it is where |a| < |b|. A device's quotient is off by a little; here it is never too
// small, so that what is left has the digits of b.
struct reduced {
  static constexpr auto forward(value auto a, value auto b) {
    const auto is_rest = less(abs(a), abs(b));
    const auto divisor = select(is_rest, 1.0f, b);  // not infinite
    const auto quotient = meganeura::trunc(a / divisor * 1.0000005f);
    return select(is_rest, a, a - quotient * divisor - detail::product_error(quotient, divisor));
  }
};

struct fmod {
  static constexpr auto forward(value auto a, value auto b, value auto rest) {
    const auto is_negative = less(a, 0.0f);
    const auto size = select(is_negative, -rest, rest);
    const auto raised = select(less(size, 0.0f), size + abs(b), size);
    return select(is_negative, -raised, raised);
  }
};

struct modulo {
  static constexpr auto forward(value auto b, value auto rest) {
    const auto other_side = logical_xor(less(rest, 0), less(b, 0));
    return select(logical_and(other_side, not_equal(rest, 0)), rest + b, rest);
  }
};

struct remainder {
  static constexpr auto forward(value auto b, value auto rest) {  // rest: beside 2 b
    const auto is_negative = less(rest, 0.0f);
    const auto size = select(is_negative, -rest, rest), divisor = abs(b);
    const auto once = size - divisor;
    const auto twice = select(less_equal(divisor, once + once), once - divisor, once);
    const auto nearest = select(less(divisor, size + size), twice, size);
    return select(is_negative, -nearest, nearest);
  }
};

struct wrap {
  static constexpr auto forward(value auto rest, value auto low, value auto high) {
    const auto y = low + rest;
    return select(less_equal(high, y), low, y);  // where the sum was rounded up
  }
};

struct ldexp {
  static constexpr auto forward(value auto x, value auto exponent) {
    // Three factors: where the result is in the range, so are they.
    const auto bounded = clamp(cast(exponent, dtype::f32), -300.0f, 300.0f);
    const auto third = meganeura::trunc(bounded * 0.33333334f);
    const auto power = exp2(third);
    return detail::narrowed(detail::widened(x) * power * power * exp2(bounded - third * 2.0f), x);
  }
};

struct exponent_of {
  static constexpr auto forward(value auto x) {
    const auto wide = detail::widened(x), size = abs(wide);
    const auto is_tiny = less(size, 0x1p-126f);
    const auto bits = meganeura::reinterpret<dtype::i32>(select(is_tiny, size * 0x1p24f, size));
    const auto biased = shift_right(bits, 23);
    const auto exponent = select(is_tiny, biased - 150, biased - 126);
    return select(logical_and(less(0.0f, size), isfinite(size)), exponent, 0);
  }
};

struct nextafter {
  static constexpr auto forward(value auto a, value auto b) {
    const auto bits = meganeura::reinterpret<dtype::i32>(a);
    const auto shrinks = logical_xor(less(a, b), less(0.0f, a));
    const auto moved = meganeura::reinterpret<dtype::f32>(select(shrinks, bits - 1, bits + 1));
    const auto least = copysign(detail::number_of(a, 0x1p-149), b);
    const auto next = select(equal(a, b), b, select(equal(a, 0.0f), least, moved));
    return select(isnan(a), a, select(isnan(b), b, next));
  }
};

}  // namespace layers

namespace detail {
template <value A, value B>
constexpr auto fmod_of(A a, B b) {
  const auto wide = widened(a);
  const auto divisor = widened(b);
  const auto once = layer<layers::reduced>(fixed_text<"">{}, wide, divisor);
  const auto twice = layer<layers::reduced>(fixed_text<"">{}, once, divisor);
  return narrowed(layer<layers::fmod>(fixed_text<"">{}, wide, divisor, twice), a);
}
template <value A, value B>
constexpr auto modulo_of(A a, B b) {
  return formula<layers::modulo>(b, fmod_of(a, b));
}
}  // namespace detail

/// x - floor(x), in [0, 1]; 1 where x is negative and nearer to 0 than floats are to 1. gradient: to x.
template <value A>
[[nodiscard]] constexpr auto fract(A x) {
  MEGANEURA_EXPECT_FLOATS("fract(x)", x)
  return x - floor(x);
}

/// x as a fraction with its sign, below 1, and a whole number: auto [fraction, whole] = modf(x). gradient: to the
/// fraction.
template <value A>
[[nodiscard]] constexpr auto modf(A x) {
  MEGANEURA_CHECK(is_float(x.facts().type), detail::is_float_dtype<x.facts().type>,
                  "meganeura: modf(x): x must be floats; cast it", x)
  const auto whole = trunc(x);
  return results<"fraction", "whole">(copysign(select(equal(x, whole), constant<0.0f>, x - whole), x), whole);
}

/// a - trunc(a / b) b: what is left of a, with its sign, smaller than b. Exact where |a / b| < 2^20, beyond within
/// 2^-44 |a|; NaN where b is 0 or a infinite, a where b is. gradient: to a, and -trunc(a / b) to b.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto fmod(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("fmod(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("fmod(a, b)", a, b)
  return detail::fmod_of(detail::adapted(a, b), detail::adapted(b, a));
}

/// a - floor(a / b) b, with the sign of b: torch.remainder. Exact and NaN as fmod; b where that is infinite and has
/// another sign than a. gradient: to a, and -floor(a / b) to b.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto modulo(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("modulo(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("modulo(a, b)", a, b)
  return detail::modulo_of(detail::adapted(a, b), detail::adapted(b, a));
}

/// a - round(a / b) b, ties to even, C's remainder and not torch's, which is `modulo`: at most |b| / 2. Exact and NaN
/// as fmod. gradient: to a, and -round(a / b) to b.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto remainder(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("remainder(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("remainder(a, b)", a, b)
  const auto x = detail::widened(detail::adapted(a, b));
  const auto divisor = detail::widened(detail::adapted(b, a));
  const auto rest = detail::fmod_of(x, divisor * constant<2.0f>);
  return detail::narrowed(detail::formula<layers::remainder>(divisor, rest), detail::adapted(a, b));
}

/// x moved by whole multiples of high - low into [low, high); low < high. gradient: as of the formula, 1 to x.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto wrap(A x, B low, C high) {
  MEGANEURA_CHECK_OPERANDS("wrap(x, low, high)", x, low)
  MEGANEURA_CHECK_OPERANDS("wrap(x, low, high)", x, high)
  MEGANEURA_CHECK_FLOATS("wrap(x, low, high)", x, low)
  const auto begin = detail::widened(detail::adapted(low, x));
  const auto end = detail::widened(detail::adapted(high, x));
  const auto rest = detail::modulo_of(detail::widened(x) - begin, end - begin);
  return detail::narrowed(detail::formula<layers::wrap>(rest, begin, end), x);
}

/// Up from 0 to `length` > 0 and down again, over and over, also for x < 0. gradient: 1 or -1 to x.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto ping_pong(A x, B length) {
  MEGANEURA_CHECK_OPERANDS("ping_pong(x, length)", x, length)
  MEGANEURA_CHECK_FLOATS("ping_pong(x, length)", x, length)
  const auto bound = detail::widened(detail::adapted(length, x));
  const auto distance = abs(detail::modulo_of(detail::widened(x), bound * constant<2.0f>) - bound);
  return detail::narrowed(bound - distance, x);
}

/// x 2^exponent, also where 2^exponent alone would leave the range; integers of another dtype are an exponent, too.
/// gradient: to both.
template <value A, class B>
  requires(detail::number_like<B> || value<B>)
[[nodiscard]] constexpr auto ldexp(A x, B exponent) {
  if constexpr (value<B>) {
    MEGANEURA_EXPECT(is_float(x.facts().type), "meganeura: ldexp(x, exponent): x must be floats; cast it", x, exponent)
    MEGANEURA_EXPECT(detail::mismatch(x, exponent).agrees(),
                     "meganeura: ldexp(x, exponent): extents must be equal or 1", x, exponent)
    return detail::layer<layers::ldexp>(fixed_text<"">{}, x, exponent);
  } else {
    return ldexp(x, detail::adapted(exponent, x));
  }
}

/// x as mantissa 2^exponent with 0.5 <= |mantissa| < 1, exponent i32: auto [mantissa, exponent] = frexp(x). Of 0, NaN
/// and infinities the mantissa is x, the exponent 0. gradient: to the mantissa, 2^-exponent.
template <value A>
[[nodiscard]] constexpr auto frexp(A x) {
  MEGANEURA_CHECK(is_float(x.facts().type), detail::is_float_dtype<x.facts().type>,
                  "meganeura: frexp(x): x must be floats; cast it", x)
  const auto exponent = detail::layer<layers::exponent_of>(fixed_text<"">{}, x);
  return results<"mantissa", "exponent">(ldexp(x, -exponent), exponent);
}

/// The float next to a on the way to b, b where they are equal. dtypes: f32. Where a device takes denormal numbers for
/// zeros, 0 stays. gradient: none flows.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto nextafter(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("nextafter(a, b)", a, b)
  MEGANEURA_CHECK(detail::common_type(a, b) == dtype::f32, detail::holds_of<(detail::common_type(a, b) == dtype::f32)>,
                  "meganeura: nextafter(a, b): operands must be f32; cast them", a, b)
  return detail::layer<layers::nextafter>(fixed_text<"">{}, a, detail::adapted(b, a));
}

}  // namespace meganeura::inline MEGANEURA_ABI
