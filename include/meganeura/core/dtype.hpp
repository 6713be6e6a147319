// SPDX-License-Identifier: MIT
// Element types of tensors and of the values inside scalar programs: a row each. How one lies in a kernel's memory is
// told in kernels/element.ipp.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/division.hpp>

#include <cstdint>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

/// `boolean` lives inside scalar programs only (a comparison feeding a select); it is never stored in a tensor.
/// Arithmetic on f16 and bf16 tensors happens in f32: operands are widened when loaded, results rounded when stored; on
/// i8 and u8 in 32 bits, of which the low 8 are stored. Their sums and products are taken of a wider type: cast first.
enum class dtype : std::uint8_t { f32, f16, bf16, i32, u32, i8, u8, boolean };

enum class number_kind : std::uint8_t { floating, signed_integer, unsigned_integer, condition };

struct dtype_info {
  dtype type;
  const char* name;
  const char* safetensors;  // its name in files
  number_kind kind;
  dtype compute;           // the type its values have inside a scalar program
  int bits;                // of one block in memory; 0: never stored
  int digits;              // binary ones of a number, without the sign: holds every integer up to 2^digits
  int least_exponent = 0;  // of a float's normal numbers; 1 - this is the greatest (IEEE 754)
  int block = 1;           // elements stored together
};

namespace detail {
// clang-format off
inline constexpr dtype_info dtype_table[] = {
    {dtype::f32, "f32", "F32", number_kind::floating, dtype::f32, 32, 24, -126},
    {dtype::f16, "f16", "F16", number_kind::floating, dtype::f32, 16, 11, -14},
    {dtype::bf16, "bf16", "BF16", number_kind::floating, dtype::f32, 16, 8, -126},
    {dtype::i32, "i32", "I32", number_kind::signed_integer, dtype::i32, 32, 31},
    {dtype::u32, "u32", "U32", number_kind::unsigned_integer, dtype::u32, 32, 32},
    {dtype::i8, "i8", "I8", number_kind::signed_integer, dtype::i32, 8, 7},
    {dtype::u8, "u8", "U8", number_kind::unsigned_integer, dtype::u32, 8, 8},
    {dtype::boolean, "bool", "BOOL", number_kind::condition, dtype::boolean, 0, 1},
};
// clang-format on
inline constexpr dtype_info unknown_dtype{
    static_cast<dtype>(255), "an unknown dtype", "", number_kind::condition, static_cast<dtype>(255), 0, 0};
}  // namespace detail

inline constexpr int dtype_count = static_cast<int>(sizeof detail::dtype_table / sizeof(dtype_info));

/// Whether the number of an enumerator is one.
[[nodiscard]] constexpr bool exists(dtype type) { return static_cast<int>(type) < dtype_count; }

[[nodiscard]] constexpr const dtype_info& info(dtype type) {
  return exists(type) ? detail::dtype_table[static_cast<int>(type)] : detail::unknown_dtype;
}
static_assert(
    [] {
      for (int i = 0; i < dtype_count; ++i) {
        if (info(static_cast<dtype>(i)).type != static_cast<dtype>(i)) return false;
      }
      return exists(dtype::boolean);
    }(),
    "dtype_table has its rows in the order of dtype");

/// Bytes of `elements` dense ones; the last block is whole.
[[nodiscard]] constexpr std::int64_t storage_bytes(dtype type, std::int64_t elements) {
  const dtype_info& row = info(type);
  const std::int64_t blocks = ceil_div<std::int64_t>(elements, row.block);
  return blocks / 8 * row.bits + (blocks % 8 * row.bits + 7) / 8;  // in bits they might not be countable
}

/// Whether element i of the one lies in the same bytes as element i of the other.
[[nodiscard]] constexpr bool same_storage(dtype a, dtype b) {
  return info(a).bits == info(b).bits && info(a).block == info(b).block;
}

/// The type a value of `type` has inside a scalar program.
[[nodiscard]] constexpr dtype compute_type(dtype type) { return info(type).compute; }

/// Whether storing a value that was computed loses digits of it.
[[nodiscard]] constexpr bool is_narrow(dtype type) { return compute_type(type) != type; }

[[nodiscard]] constexpr bool is_float(dtype type) { return info(type).kind == number_kind::floating; }

[[nodiscard]] constexpr bool is_signed(dtype type) {
  return info(type).kind == number_kind::floating || info(type).kind == number_kind::signed_integer;
}

[[nodiscard]] constexpr bool is_integer(dtype type) {
  return info(type).kind == number_kind::signed_integer || info(type).kind == number_kind::unsigned_integer;
}

/// Whether a tensor of it holds sums of its elements: those of 8 bits soon pass 127 and 255.
[[nodiscard]] constexpr bool holds_sums(dtype type) { return is_float(type) || !is_narrow(type); }

/// The greatest and the least number of an integer dtype.
[[nodiscard]] constexpr double highest(dtype type) {
  return static_cast<double>((std::int64_t{1} << info(type).digits) - 1);
}
[[nodiscard]] constexpr double lowest(dtype type) { return is_signed(type) ? -highest(type) - 1 : 0; }

/// The least number that a float dtype rounds to infinity: half a step beyond its last.
[[nodiscard]] constexpr double overflow(dtype type) {
  const auto exponent = static_cast<std::uint64_t>(1024 - info(type).least_exponent);  // as a double has it
  return __builtin_bit_cast(double, exponent << 52) * (2 - 1 / (highest(type) + 1));
}
/// Whether a constant of it can be this number: whole and within the range of an integer dtype; of a float one all but
/// what it would round to infinity.
[[nodiscard]] constexpr bool holds(dtype type, double value) {
  if (is_float(type)) {
    const double size = value < 0 ? -value : value;
    return !(size >= overflow(type)) || size == __builtin_inf();
  }
  if (!is_integer(type)) return true;
  return value >= lowest(type) && value <= highest(type) &&
         static_cast<double>(static_cast<std::int64_t>(value)) == value;
}

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
template <>
inline constexpr dtype dtype_of<std::int8_t> = dtype::i8;
template <>
inline constexpr dtype dtype_of<std::uint8_t> = dtype::u8;

/// The dtype in which a program's user gives and reads elements: f32 for floats of any width; and its C++ type.
[[nodiscard]] constexpr dtype host_type(dtype type) { return is_float(type) ? dtype::f32 : type; }

template <class Narrow, class Wide, dtype Type>
using of_width = std::conditional_t<info(Type).bits == 8, Narrow, Wide>;
template <dtype Type>
using host_number = std::conditional_t<is_float(Type), float,
                                       std::conditional_t<is_signed(Type), of_width<std::int8_t, std::int32_t, Type>,
                                                          of_width<std::uint8_t, std::uint32_t, Type>>>;

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
