// SPDX-License-Identifier: MIT
// Element types of tensors and of the values inside scalar programs.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// `boolean` lives inside scalar programs only (a comparison feeding a select); it is never stored in a tensor.
/// Arithmetic on f16 tensors happens in f32: operands are widened when loaded, results rounded when stored.
enum class dtype : std::uint8_t { f32, f16, i32, u32, boolean };

struct dtype_info {
  const char* name = "an unknown dtype";
  int bytes = 0;               // of one stored element; 0: not stored
  dtype compute = dtype::f32;  // of a value inside a scalar program
  bool is_float = false, exists = false;
};

[[nodiscard]] constexpr dtype_info info(dtype type) {
  switch (type) {
    case dtype::f32:
      return {"f32", 4, dtype::f32, true, true};
    case dtype::f16:
      return {"f16", 2, dtype::f32, true, true};
    case dtype::i32:
      return {"i32", 4, dtype::i32, false, true};
    case dtype::u32:
      return {"u32", 4, dtype::u32, false, true};
    case dtype::boolean:
      return {"bool", 0, dtype::boolean, false, true};
  }
  return {};
}

/// Bytes of one stored element; 0 for boolean, which is not stored.
[[nodiscard]] constexpr int size_of(dtype type) { return info(type).bytes; }
/// The type a value of `type` has inside a scalar program.
[[nodiscard]] constexpr dtype compute_type(dtype type) { return info(type).compute; }
[[nodiscard]] constexpr bool is_float(dtype type) { return info(type).is_float; }
[[nodiscard]] constexpr const char* to_string(dtype type) { return info(type).name; }

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
