// SPDX-License-Identifier: MIT
// The bits of floats on the host, up to 32 of them, as IEEE 754 lays them out.
#pragma once
#include <meganeura/core/dtype.hpp>

#include <bit>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// Between the bits of a float dtype and the number.
class float_format {
 public:
  constexpr explicit float_format(dtype type)
      : shift_(24 - info(type).digits),
        top_(info(type).bits - 1),
        rebias_(static_cast<std::uint32_t>(info(type).least_exponent + 126) << 23) {}

  /// The bits of +infinity, below which a positive number lies and above which a NaN.
  [[nodiscard]] constexpr std::uint32_t infinity() const { return wide_infinity() >> shift_; }
  [[nodiscard]] constexpr std::uint32_t magnitude(std::uint32_t bits) const { return bits & ((1u << top_) - 1); }

  // Both ways compute every case and take one: loops over tensors have no branches, and compilers make vectors of them.

  /// Exact; NaN stays NaN.
  [[nodiscard]] constexpr float decode(std::uint32_t bits) const {
    const std::uint32_t sign = (bits >> top_) << 31, wide = magnitude(bits) << shift_;
    if (rebias_ == 0) return std::bit_cast<float>(sign | wide);  // the exponents of f32
    const std::uint32_t one = rebias_ + least_normal;  // a subnormal number is what lies beyond the least normal one
    const std::uint32_t small = below(wide, least_normal), not_finite = ~below(wide, wide_infinity());
    const float subnormal = std::bit_cast<float>((wide & small) + one) - std::bit_cast<float>(one);
    const std::uint32_t finite = chosen(small, std::bit_cast<std::uint32_t>(subnormal), wide + rebias_);
    return std::bit_cast<float>(sign | chosen(not_finite, wide | 0x7f800000u, finite));
  }

  /// To the nearest, ties to even, which is infinity beyond the greatest number. NaN stays NaN.
  [[nodiscard]] constexpr std::uint32_t encode(float value) const {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), wide = bits & 0x7fffffffu;
    if (shift_ == 0) return bits;
    const std::uint32_t sign = bits >> 31 << top_, is_nan = below(0x7f800000u, wide);
    const std::uint32_t rebased = wide - rebias_, half = 1u << (shift_ - 1);
    std::uint32_t finite = (rebased + half - 1 + (rebased >> shift_ & 1u)) >> shift_;
    if (rebias_ != 0) {
      // Added to a power of two whose last bit is the least subnormal number.
      const std::uint32_t power = rebias_ + least_normal + (static_cast<std::uint32_t>(shift_) << 23);
      const std::uint32_t small = below(wide, least_normal + rebias_);
      const float subnormal = std::bit_cast<float>(wide & small) + std::bit_cast<float>(power);
      finite = chosen(small, std::bit_cast<std::uint32_t>(subnormal) - power, finite);
    }
    finite = chosen(below(wide, wide_infinity() + rebias_), finite, infinity());
    return sign | chosen(is_nan, (wide_infinity() | 0x00400000u) >> shift_, finite);
  }

 private:
  static constexpr std::uint32_t least_normal = 0x00800000u;
  // All bits or none, as the sign of a difference of magnitudes: compilers make branches again of a comparison.
  [[nodiscard]] static constexpr std::uint32_t below(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(a - b) >> 31);
  }
  [[nodiscard]] static constexpr std::uint32_t chosen(std::uint32_t mask, std::uint32_t where,
                                                      std::uint32_t elsewhere) {
    return (where & mask) | (elsewhere & ~mask);
  }
  [[nodiscard]] constexpr std::uint32_t wide_infinity() const { return 0x7f800000u - 2 * rebias_; }

  int shift_, top_;       // bits that f32 has more; where the sign stands
  std::uint32_t rebias_;  // what f32's exponents are larger by, in place
};

}  // namespace meganeura::inline MEGANEURA_ABI
