// SPDX-License-Identifier: MIT
// Numbers as words that are in the same order.
#pragma once
#include <meganeura/kernels/element.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// A u32 that is larger where the number is: NaN is the largest, 2^32 - 1, and the zeros are equal.
[[nodiscard]] inline spirv::u32 order_key(const scalar_value& number) {
  const spirv::u32 bits(spirv::untyped::bitcast(spirv::u32::static_type, number)), sign(0x80000000u);
  if (!number.type.is_float()) return number.type.kind == spirv::scalar_kind::i32 ? bits ^ sign : bits;
  const spirv::u32 value = select(bits == sign, spirv::u32(0), bits);
  const spirv::u32 ordered = select(value < sign, value | sign, ~value);
  return select((bits & 0x7fffffffu) > spirv::u32(0x7f800000u), spirv::u32(0xffffffffu), ordered);
}

/// The same in the opposite order, but for NaN, which is the largest again.
[[nodiscard]] inline spirv::u32 opposite_key(const scalar_value& number) {
  const spirv::u32 key = order_key(number);
  if (!number.type.is_float()) return ~key;
  return select(key == spirv::u32(0xffffffffu), key, ~key);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
