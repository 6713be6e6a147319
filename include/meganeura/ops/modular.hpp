// SPDX-License-Identifier: MIT
// Integers modulo another one.
#pragma once
#include <meganeura/ops/bits.hpp>
#include <meganeura/ops/compare.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
// a modulo m > 0, from 0 to m - 1.
constexpr auto residue(value auto a, value auto m) {
  const auto rest = a - a / m * m;
  return select(less(rest, 0), rest + m, rest);
}
// x y modulo m, i32 from 0 to m - 1 <= 2^24. The quotient in f32 is off by a few, and what is left by as many m: modulo
// 2^32 nothing of that is lost.
constexpr auto residue_of_product(value auto x, value auto y, value auto m) {
  const auto quotient = cast(x, dtype::f32) * cast(y, dtype::f32) / cast(m, dtype::f32);
  return residue(x * y - cast(quotient, dtype::i32) * m, m);
}
}  // namespace detail

namespace layers {

struct modular_add {
  static constexpr auto forward(value auto a, value auto b, value auto m) {
    const auto x = detail::residue(a, m), room = m - detail::residue(b, m);
    return select(less(x, room), x + (m - room), x - room);
  }
};

struct modular_subtract {
  static constexpr auto forward(value auto a, value auto b, value auto m) {
    const auto x = detail::residue(a, m), y = detail::residue(b, m);
    return select(less(x, y), x + (m - y), x - y);
  }
};

struct modular_multiply {
  static constexpr auto forward(value auto a, value auto b, value auto m) {
    const auto x = cast(detail::residue(a, m), dtype::i32), y = cast(detail::residue(b, m), dtype::i32);
    return cast(detail::residue_of_product(x, y, cast(m, dtype::i32)), a.facts().type);
  }
};

// A power from the upper bits of the exponent down: its square, times the base where the bit is 1.
struct modular_turn {
  static constexpr auto forward(value auto power, value auto base, value auto exponent, value auto m, int bit) {
    const auto square = detail::residue_of_product(power, power, m);
    const auto is_even = equal(meganeura::bitwise_and(shift_right(exponent, bit), 1), 0);
    return select(is_even, square, detail::residue_of_product(square, base, m));
  }
};
struct modular_base {
  static constexpr auto forward(value auto a, value auto m) { return cast(detail::residue(a, m), dtype::i32); }
};

}  // namespace layers

namespace detail {
template <int Bits, value P, value A, value B, value M>
constexpr auto power_of_bits(P power, A base, B exponent, M m) {
  const auto next = layer<layers::modular_turn>(fixed_text<"">{}, power, base, exponent, m, c<Bits - 1>);
  if constexpr (Bits == 1) {
    return next;
  } else {
    return power_of_bits<Bits - 1>(next, base, exponent, m);
  }
}
}  // namespace detail

/// (a + b) modulo m, from 0 to m - 1, exact for every a, b and m > 0. dtypes: integers. gradient: none flows.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto modular_add(A a, B b, C m) {
  MEGANEURA_CHECK_OPERANDS("modular_add(a, b, m)", a, b)
  MEGANEURA_CHECK_OPERANDS("modular_add(a, b, m)", a, m)
  MEGANEURA_CHECK_INTEGERS("modular_add(a, b, m)", a, b)
  MEGANEURA_CHECK_INTEGERS("modular_add(a, b, m)", a, m)
  return detail::formula<layers::modular_add>(a, b, m);
}

/// (a - b) modulo m, from 0 to m - 1, exact for every a, b and m > 0. dtypes: integers. gradient: none flows.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto modular_subtract(A a, B b, C m) {
  MEGANEURA_CHECK_OPERANDS("modular_subtract(a, b, m)", a, b)
  MEGANEURA_CHECK_OPERANDS("modular_subtract(a, b, m)", a, m)
  MEGANEURA_CHECK_INTEGERS("modular_subtract(a, b, m)", a, b)
  MEGANEURA_CHECK_INTEGERS("modular_subtract(a, b, m)", a, m)
  return detail::formula<layers::modular_subtract>(a, b, m);
}

/// a b modulo m, from 0 to m - 1, exact for every a and b and m from 1 to 2^24. dtypes: integers. gradient: none flows.
template <value A, class B, class C>
  requires(detail::operands<A, B>&& detail::operands<A, C>)
[[nodiscard]] constexpr auto modular_multiply(A a, B b, C m) {
  MEGANEURA_CHECK_OPERANDS("modular_multiply(a, b, m)", a, b)
  MEGANEURA_CHECK_OPERANDS("modular_multiply(a, b, m)", a, m)
  MEGANEURA_CHECK_INTEGERS("modular_multiply(a, b, m)", a, b)
  MEGANEURA_CHECK_INTEGERS("modular_multiply(a, b, m)", a, m)
  return detail::formula<layers::modular_multiply>(a, b, m);
}

/// a^b modulo m, from 0 to m - 1, exact for every a, b from 0 to 2^31 - 1 and m from 1 to 2^24; 0^0 is 1 modulo m.
/// dtypes: integers. cost: 62 products modulo m an element, whatever b is. gradient: none flows.
template <value A, value B, value C>
[[nodiscard]] constexpr auto modular_power(A a, B b, C m) {
  MEGANEURA_CHECK_OPERANDS("modular_power(a, b, m)", a, b)
  MEGANEURA_CHECK_OPERANDS("modular_power(a, b, m)", a, m)
  MEGANEURA_CHECK_INTEGERS("modular_power(a, b, m)", a, b)
  MEGANEURA_CHECK_INTEGERS("modular_power(a, b, m)", a, m)
  const auto divisor = cast<dtype::i32>(detail::adapted(m, a));
  const auto result =
      detail::power_of_bits<31>(detail::layer<layers::modular_base>(fixed_text<"">{}, constant<1, dtype::i32>, divisor),
                                detail::layer<layers::modular_base>(fixed_text<"">{}, a, detail::adapted(m, a)),
                                cast<dtype::i32>(detail::adapted(b, a)), divisor);
  return detail::narrowed(result, a);
}

}  // namespace meganeura::inline MEGANEURA_ABI
