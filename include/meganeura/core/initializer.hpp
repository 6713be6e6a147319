// SPDX-License-Identifier: MIT
// What the elements of a parameter or a state begin as.
#pragma once
#include <meganeura/core/same_bits.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

enum class initial_draw : std::uint8_t {
  none,       // 0
  uniform,    // in -1 .. 1
  normal,     // of deviation 1
  orthogonal  // of a matrix [first extent, the others] whose rows, or else whose columns, are orthonormal
};

/// Of a tensor [out, in, window...]: `in` counts elements / out, `out` elements / in, `mean` is between them. A vector
/// counts its length.
enum class initial_fan : std::uint8_t { one, in, out, mean };

/// Each element is centre + draw * sqrt(square / fan).
struct initializer {
  initial_draw draw = initial_draw::none;
  initial_fan fan = initial_fan::one;
  double centre = 0, square = 0;
  bool saved = true;           // files of parameters hold what became of it, and need it
  std::int64_t zero_row = -1;  // of the first extent; begins as zeros; -1: none
  friend constexpr bool operator==(const initializer& a, const initializer& b) {
    return a.draw == b.draw && a.fan == b.fan && same_bits(a.centre, b.centre) && same_bits(a.square, b.square) &&
           a.saved == b.saved && a.zero_row == b.zero_row;
  }
};

/// parameter<"scale", dims<4>, init::ones>; names and definitions are those of torch.nn.init.
namespace init {

inline constexpr initializer zeros{};
inline constexpr initializer ones{.centre = 1};
/// Zeros of a state that belongs to a run and not to the model, a cache: files of parameters neither hold nor need it.
inline constexpr initializer each_run{.saved = false};
[[nodiscard]] constexpr initializer constant(double value) { return {.centre = value}; }
[[nodiscard]] constexpr initializer uniform(double low, double high) {
  return {initial_draw::uniform, initial_fan::one, (low + high) / 2, (high - low) * (high - low) / 4};
}
[[nodiscard]] constexpr initializer normal(double mean = 0, double deviation = 1) {
  return {initial_draw::normal, initial_fan::one, mean, deviation * deviation};
}
/// Uniform in +-1 / sqrt(fan_in), kaiming_uniform(sqrt(5)): of every weight that says nothing else, as in torch.nn.
inline constexpr initializer fan_in_uniform{initial_draw::uniform, initial_fan::in, 0, 1};
/// For what a leaky ReLU of that slope follows, 0 for a ReLU. source: arXiv 1502.01852.
[[nodiscard]] constexpr initializer kaiming_uniform(double negative_slope = 0) {
  return {initial_draw::uniform, initial_fan::in, 0, 6 / (1 + negative_slope * negative_slope)};
}
[[nodiscard]] constexpr initializer kaiming_normal(double negative_slope = 0) {
  return {initial_draw::normal, initial_fan::in, 0, 2 / (1 + negative_slope * negative_slope)};
}
/// source: Glorot and Bengio 2010.
[[nodiscard]] constexpr initializer xavier_uniform(double gain = 1) {
  return {initial_draw::uniform, initial_fan::mean, 0, 3 * gain * gain};
}
[[nodiscard]] constexpr initializer xavier_normal(double gain = 1) {
  return {initial_draw::normal, initial_fan::mean, 0, gain * gain};
}
/// Of two axes or more. source: arXiv 1312.6120.
[[nodiscard]] constexpr initializer orthogonal(double gain = 1) {
  return {initial_draw::orthogonal, initial_fan::one, 0, gain * gain};
}

}  // namespace init

}  // namespace meganeura::inline MEGANEURA_ABI
