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

// The quotient in f32 is off by a few, and what is left by as many m: modulo 2^32 nothing of that is lost.
struct modular_multiply {
  static constexpr auto forward(value auto a, value auto b, value auto m) {
    const dtype type = a.facts().type;
    const auto x = cast(detail::residue(a, m), dtype::i32), y = cast(detail::residue(b, m), dtype::i32);
    const auto divisor = cast(m, dtype::i32);
    const auto quotient = cast(x, dtype::f32) * cast(y, dtype::f32) / cast(divisor, dtype::f32);
    return cast(detail::residue(x * y - cast(quotient, dtype::i32) * divisor, divisor), type);
  }
};

}  // namespace layers

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

}  // namespace meganeura::inline MEGANEURA_ABI
