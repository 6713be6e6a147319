// SPDX-License-Identifier: MIT
// The 16-bit floats of IEEE 754 on the host.
#pragma once
#include <meganeura/config.hpp>

#include <bit>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// Exact; NaN stays NaN.
[[nodiscard]] inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x0400) {  // subnormal: units of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

/// To the nearest, ties to even: from 65520 on that is infinity. NaN stays NaN.
[[nodiscard]] inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;
  } else if (magnitude >= 0x47800000u) {
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: one unit is 2^-24, the last bit of a float from 0.5 on
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    const std::uint32_t rebased = magnitude - (112u << 23);
    half = (rebased + 0xfffu + (rebased >> 13 & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace meganeura::inline MEGANEURA_ABI
