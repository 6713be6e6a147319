// SPDX-License-Identifier: MIT
// Arithmetic modulo the prime 2^61 - 1: rewrites are checked exactly, without rounding to hide behind.
#pragma once
#include <meganeura/core/error.hpp>

#include <cmath>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::oracle {

/// A residue. Doubles are dyadic rationals and convert exactly (2 has an inverse); small integers convert back.
class prime_field {
 public:
  static constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;

  constexpr prime_field() = default;
  explicit prime_field(double value) {
    int exponent = 0;
    const auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
    if (!std::isfinite(value)) fail(error_category::invalid_argument, "prime_field: {} has no residue", value);
    const auto magnitude = static_cast<std::uint64_t>(mantissa < 0 ? -mantissa : mantissa);
    *this = from_residue(mantissa < 0 ? prime - magnitude : magnitude);
    // 2^61 = 1, so powers of two only count modulo 61.
    const int shift = ((exponent - 53) % 61 + 61) % 61;
    *this = *this * from_residue(std::uint64_t{1} << shift);
  }

  [[nodiscard]] static constexpr prime_field from_residue(std::uint64_t residue) {
    prime_field result;
    result.value_ = residue % prime;
    return result;
  }
  [[nodiscard]] constexpr std::uint64_t residue() const { return value_; }
  /// The integer of smallest magnitude with this residue.
  [[nodiscard]] constexpr std::int64_t integer() const {
    return value_ > prime / 2 ? -static_cast<std::int64_t>(prime - value_) : static_cast<std::int64_t>(value_);
  }

  [[nodiscard]] prime_field inverse() const {
    if (value_ == 0) fail(error_category::invalid_argument, "prime_field: division by zero; draw other values");
    prime_field result = from_residue(1), base = *this;
    for (std::uint64_t power = prime - 2; power; power >>= 1) {  // Fermat
      if (power & 1) result = result * base;
      base = base * base;
    }
    return result;
  }

  friend constexpr prime_field operator+(prime_field a, prime_field b) { return from_residue(a.value_ + b.value_); }
  friend constexpr prime_field operator-(prime_field a, prime_field b) {
    return from_residue(a.value_ + prime - b.value_);
  }
  friend constexpr prime_field operator-(prime_field a) { return prime_field() - a; }
  friend constexpr prime_field operator*(prime_field a, prime_field b) {
    // The product in two 61-bit halves, from 32-bit pieces because ISO C++ has no 128-bit integer.
    const std::uint64_t a0 = a.value_ & 0xffffffff, a1 = a.value_ >> 32, b0 = b.value_ & 0xffffffff,
                        b1 = b.value_ >> 32;
    const std::uint64_t low = a0 * b0, cross = a0 * b1 + (low >> 32), more = a1 * b0 + (cross & 0xffffffff);
    const std::uint64_t high = a1 * b1 + (cross >> 32) + (more >> 32), bottom = more << 32 | (low & 0xffffffff);
    return from_residue((bottom & prime) + (high << 3 | bottom >> 61));
  }
  prime_field& operator+=(prime_field other) { return *this = *this + other; }
  prime_field& operator*=(prime_field other) { return *this = *this * other; }
  friend constexpr bool operator==(prime_field, prime_field) = default;

 private:
  std::uint64_t value_ = 0;
};

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
