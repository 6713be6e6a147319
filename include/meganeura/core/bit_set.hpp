// SPDX-License-Identifier: MIT
// A set of numbers below `Count`, one bit each: std::bitset that a compiler evaluates.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/division.hpp>

#include <cstddef>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

template <std::size_t Count>
class bit_set {
 public:
  static constexpr std::size_t size = Count;

  constexpr bit_set() = default;
  /// The set of one number.
  [[nodiscard]] static constexpr bit_set of(std::size_t number) {
    bit_set result;
    result.words_[number / 64] = std::uint64_t{1} << number % 64;
    return result;
  }
  [[nodiscard]] static constexpr bit_set all() {
    bit_set result;
    for (std::size_t i = 0; i < Count; ++i) result |= of(i);
    return result;
  }

  [[nodiscard]] constexpr bool operator[](std::size_t number) const { return words_[number / 64] >> number % 64 & 1; }

  constexpr bit_set& operator|=(const bit_set& other) {
    for (std::size_t i = 0; i < word_count; ++i) words_[i] |= other.words_[i];
    return *this;
  }
  /// Those of this set that are not in the other.
  constexpr bit_set& operator-=(const bit_set& other) {
    for (std::size_t i = 0; i < word_count; ++i) words_[i] &= ~other.words_[i];
    return *this;
  }
  constexpr bit_set& operator&=(const bit_set& other) {
    for (std::size_t i = 0; i < word_count; ++i) words_[i] &= other.words_[i];
    return *this;
  }
  [[nodiscard]] friend constexpr bit_set operator|(bit_set a, const bit_set& b) { return a |= b; }
  [[nodiscard]] friend constexpr bit_set operator&(bit_set a, const bit_set& b) { return a &= b; }
  friend constexpr bool operator==(const bit_set&, const bit_set&) = default;

 private:
  static constexpr std::size_t word_count = ceil_div<std::size_t>(Count, 64);
  std::uint64_t words_[word_count]{};
};

}  // namespace meganeura::inline MEGANEURA_ABI
