// SPDX-License-Identifier: MIT
// Bits of integers, and floats as their bits.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

constexpr bool can_reinterpret(dtype from, dtype to) {
  const int bits = info(from).bits;
  return bits == info(to).bits && (bits == 32 || bits == 8);
}

constexpr node_spec describe_reinterpret(const facts& a, dtype type) {
  if (type == a.type) return {};
  return {.kind = primitive::map, .type = type, .shape = a.shape, .function = static_cast<int>(scalar_op::reinterpret)};
}

// All bits of x's type: -1, or 2^32 - 1.
constexpr node_spec describe_all_bits(const facts& a) {
  return constant_spec(is_signed(a.type) ? -1 : highest(a.type), a.type);
}
template <value A>
constexpr auto bitwise_not(A a) {
  return binary<scalar_op::bitwise_xor>(a, make<describe_all_bits>(a));
}

}  // namespace detail

/// Of integers; gradient: none flows.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto bitwise_and(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("bitwise_and(a, b)", a, b)
  MEGANEURA_CHECK_INTEGERS("bitwise_and(a, b)", a, b)
  return detail::binary<scalar_op::bitwise_and>(a, b);
}

template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto bitwise_or(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("bitwise_or(a, b)", a, b)
  MEGANEURA_CHECK_INTEGERS("bitwise_or(a, b)", a, b)
  return detail::binary<scalar_op::bitwise_or>(a, b);
}

template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto bitwise_xor(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("bitwise_xor(a, b)", a, b)
  MEGANEURA_CHECK_INTEGERS("bitwise_xor(a, b)", a, b)
  return detail::binary<scalar_op::bitwise_xor>(a, b);
}

template <value A>
[[nodiscard]] constexpr auto bitwise_not(A a) {
  MEGANEURA_EXPECT(is_integer(a.facts().type), "meganeura: bitwise_not(x): x must be integers; cast it", a)
  return detail::bitwise_not(a);
}

/// a 2^b modulo 2^32, for b from 0 to 31; 0 for any other b.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto shift_left(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("shift_left(a, b)", a, b)
  MEGANEURA_CHECK_INTEGERS("shift_left(a, b)", a, b)
  return detail::binary<scalar_op::shift_left>(a, b);
}

/// a / 2^b rounded down; for a b that is not from 0 to 31 0, or -1 where a is negative.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto shift_right(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("shift_right(a, b)", a, b)
  MEGANEURA_CHECK_INTEGERS("shift_right(a, b)", a, b)
  return detail::binary<scalar_op::shift_right>(a, b);
}

/// |a| with the sign of b, which zeros and NaN have as well. gradient: to a.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto copysign(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("copysign(a, b)", a, b)
  MEGANEURA_CHECK_FLOATS("copysign(a, b)", a, b)
  return detail::binary<scalar_op::copysign>(a, b);
}

/// The same bits as another dtype: of f32, i32 and u32, or of i8 and u8. gradient: none flows.
/// errors: "x and the result are two of f32, i32 and u32, or of i8 and u8".
template <dtype Type, value A>
[[nodiscard]] constexpr auto reinterpret(A a) {
  MEGANEURA_EXPECT(
      detail::can_reinterpret(a.facts().type, Type),
      "meganeura: reinterpret<type>(x): x and the result are two of f32, i32 and u32, or of i8 and u8; cast x", a)
  return detail::make<detail::describe_reinterpret>(a, c<Type>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
