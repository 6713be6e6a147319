// SPDX-License-Identifier: MIT
// Definitions for kernels/element.hpp: a row for each dtype.
#pragma once
#include <meganeura/kernels/element.hpp>

#include <cstddef>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

using way = scalar_value (*)(const scalar_value&, spirv::data_type to);

[[nodiscard]] inline scalar_value by_value(const scalar_value& from, spirv::data_type to) {
  return spirv::untyped::convert(to, from);
}

// bf16 is the upper half of an f32: no device needs to know it.
[[nodiscard]] inline scalar_value from_upper_half(const scalar_value& half, spirv::data_type to) {
  using namespace spirv::untyped;
  const scalar_value word = convert({spirv::scalar_kind::u32, to.components}, half);
  return bitcast(to, binary(binary_op::shift_left, word, word_like(word, 16)));
}

[[nodiscard]] inline scalar_value to_upper_half(const scalar_value& x, spirv::data_type to) {
  using namespace spirv::untyped;
  const auto word = [&](std::uint32_t bits) { return word_like(x, bits); };
  const scalar_value bits = bitcast(word(0).type, x);
  const scalar_value odd = binary(binary_op::bit_and, binary(binary_op::shift_right, bits, word(16)), word(1));
  const scalar_value rounded = binary(binary_op::add, bits, binary(binary_op::add, odd, word(0x7fff)));
  const scalar_value size = binary(binary_op::bit_and, bits, word(0x7fffffffu));
  const scalar_value quiet = binary(binary_op::bit_or, bits, word(0x00400000u));
  const scalar_value kept = select(compare(comparison::greater, size, word(0x7f800000u)), quiet, rounded);
  return convert(to, binary(binary_op::shift_right, kept, word(16)));
}

struct element_row {
  dtype type;
  spirv::scalar_kind kind;
  way load = by_value, store = by_value;
};
// clang-format off
inline constexpr element_row element_table[] = {
    {dtype::f32, spirv::scalar_kind::f32},
    {dtype::f16, spirv::scalar_kind::f16},
    {dtype::bf16, spirv::scalar_kind::u16, from_upper_half, to_upper_half},
    {dtype::i32, spirv::scalar_kind::i32},
    {dtype::u32, spirv::scalar_kind::u32},
    {dtype::i8, spirv::scalar_kind::i8},
    {dtype::u8, spirv::scalar_kind::u8},
    {dtype::boolean, spirv::scalar_kind::boolean},
};
// clang-format on

[[nodiscard]] constexpr const element_row& element_of(dtype type) {
  return element_table[static_cast<std::size_t>(type)];
}
static_assert(
    [] {
      for (int i = 0; i < dtype_count; ++i) {
        if (element_of(static_cast<dtype>(i)).type != static_cast<dtype>(i)) return false;
      }
      return sizeof element_table == dtype_count * sizeof(element_row);
    }(),
    "element_table has a row for each dtype, in their order");

}  // namespace detail

MEGANEURA_INLINE spirv::data_type stored_type(dtype type, int components) {
  return {detail::element_of(type).kind, static_cast<std::uint8_t>(components)};
}

MEGANEURA_INLINE spirv::data_type value_type(dtype type, int components) {
  return stored_type(compute_type(type), components);
}

MEGANEURA_INLINE scalar_value loaded(const scalar_value& memory, dtype type) {
  return detail::element_of(type).load(memory, value_type(type, memory.type.components));
}

MEGANEURA_INLINE scalar_value stored(const scalar_value& value, dtype type) {
  return detail::element_of(type).store(value, stored_type(type, value.type.components));
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
