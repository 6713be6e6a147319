// SPDX-License-Identifier: MIT
// Definitions for kernels/element.hpp: a row for each dtype.
#pragma once
#include <meganeura/kernels/element.hpp>

#include <cstddef>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

struct element_row {
  dtype type;
  spirv::scalar_kind kind;
};
// clang-format off
inline constexpr element_row element_table[] = {
    {dtype::f32, spirv::scalar_kind::f32},
    {dtype::f16, spirv::scalar_kind::f16},
    {dtype::bf16, spirv::scalar_kind::bf16},
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
  return spirv::untyped::convert(value_type(type, memory.type.components), memory);
}

MEGANEURA_INLINE scalar_value stored(const scalar_value& value, dtype type) {
  return spirv::untyped::convert(stored_type(type, value.type.components), value);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
