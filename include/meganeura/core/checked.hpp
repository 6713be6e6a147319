// SPDX-License-Identifier: MIT
// 64-bit arithmetic on extents, strides, offsets and bytes that refuses to wrap.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/error.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

/// A signed integer whose sums and products are exact or refused; mixes with plain integers and is compared like one.
/// errors: invalid_argument naming both operands when a result leaves 64 bits, or an unsigned operand too large.
class checked_int {
 public:
  template <std::integral Plain>
  // NOLINTNEXTLINE(google-explicit-constructor): starts a checked computation
  constexpr checked_int(Plain value) : value_(static_cast<std::int64_t>(value)) {
    if constexpr (std::is_unsigned_v<Plain> && sizeof(Plain) >= sizeof(std::int64_t)) {
      if (value_ < 0) refuse(value);
    }
  }
  // NOLINTNEXTLINE(google-explicit-constructor): ends one
  [[nodiscard]] constexpr operator std::int64_t() const { return value_; }

  friend constexpr checked_int operator+(checked_int a, checked_int b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a.value_, b.value_, &sum)) refuse('+', a.value_, b.value_);
    return sum;
  }
  friend constexpr checked_int operator-(checked_int a, checked_int b) {
    std::int64_t difference = 0;
    if (__builtin_sub_overflow(a.value_, b.value_, &difference)) refuse('-', a.value_, b.value_);
    return difference;
  }
  friend constexpr checked_int operator*(checked_int a, checked_int b) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a.value_, b.value_, &product)) refuse('*', a.value_, b.value_);
    return product;
  }
  constexpr checked_int& operator+=(checked_int other) { return *this = *this + other; }

  // Exact matches, or checked + plain would be plain + plain after one conversion.
  template <std::integral Plain>
  friend constexpr checked_int operator+(checked_int a, Plain b) {
    return a + checked_int(b);
  }
  template <std::integral Plain>
  friend constexpr checked_int operator-(checked_int a, Plain b) {
    return a - checked_int(b);
  }
  template <std::integral Plain>
  friend constexpr checked_int operator*(checked_int a, Plain b) {
    return a * checked_int(b);
  }
  template <std::integral Plain>
  friend constexpr checked_int operator+(Plain a, checked_int b) {
    return checked_int(a) + b;
  }
  template <std::integral Plain>
  friend constexpr checked_int operator-(Plain a, checked_int b) {
    return checked_int(a) - b;
  }
  template <std::integral Plain>
  friend constexpr checked_int operator*(Plain a, checked_int b) {
    return checked_int(a) * b;
  }

 private:
  [[noreturn]] static void refuse(std::uint64_t value);
  [[noreturn]] static void refuse(char operation, std::int64_t a, std::int64_t b);
  std::int64_t value_;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/core/checked.ipp>
#endif
