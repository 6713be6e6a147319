// SPDX-License-Identifier: MIT
// Random numbers of the host's side: the same everywhere, which those of the standard library's distributions are not.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::data {

/// splitmix64 (Steele, Lea, Flood 2014).
class random_numbers {
 public:
  explicit constexpr random_numbers(std::uint64_t seed) : state_(seed) {}

  /// What belongs to one sample of one epoch, whoever asks and whenever: for augmentation on several threads.
  constexpr random_numbers(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index)
      : state_(mixed(mixed(mixed(seed) + epoch) + index)) {}

  [[nodiscard]] constexpr std::uint64_t bits() { return mixed(state_ += step); }

  /// In [low, high).
  [[nodiscard]] constexpr double between(double low, double high) {
    return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
  }
  /// A whole number below `count`, which is above 0; for a `count` of 2^32 numbers differ in probability by 2^-32.
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t count) { return bits() % count; }

  static constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;

  /// Every bit of the result depends on every bit of `z`.
  [[nodiscard]] static constexpr std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

 private:
  std::uint64_t state_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::data
