// SPDX-License-Identifier: MIT
// Element types of tensors and of the values inside scalar programs.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// `boolean` lives inside scalar programs only (a comparison feeding a select); it is never stored in a tensor.
/// Arithmetic on f16 tensors happens in f32: operands are widened when loaded, results rounded when stored.
enum class dtype : std::uint8_t { f32, f16, i32, u32, boolean };

/// Bytes of one stored element; 0 for boolean, which is not stored.
[[nodiscard]] constexpr int size_of(dtype type) { return type == dtype::boolean ? 0 : type == dtype::f16 ? 2 : 4; }

/// The type a value of `type` has inside a scalar program.
[[nodiscard]] constexpr dtype compute_type(dtype type) { return type == dtype::f16 ? dtype::f32 : type; }

[[nodiscard]] constexpr bool is_float(dtype type) { return type == dtype::f32 || type == dtype::f16; }

[[nodiscard]] constexpr const char* to_string(dtype type) {
  constexpr const char* names[] = {"f32", "f16", "i32", "u32", "bool"};
  return type <= dtype::boolean ? names[static_cast<int>(type)] : "an unknown dtype";
}

namespace detail {

/// The dtype whose elements C++ has as T.
template <class T>
inline constexpr dtype dtype_of = dtype::boolean;  // no tensor holds this type
template <>
inline constexpr dtype dtype_of<float> = dtype::f32;
template <>
inline constexpr dtype dtype_of<std::int32_t> = dtype::i32;
template <>
inline constexpr dtype dtype_of<std::uint32_t> = dtype::u32;

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
