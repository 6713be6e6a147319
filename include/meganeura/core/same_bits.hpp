// SPDX-License-Identifier: MIT
// Numbers as hash-consing compares them; of the front end, so that nothing else is here.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// 0 and -0 are two, a NaN is itself.
[[nodiscard]] constexpr bool same_bits(double a, double b) {
  return __builtin_bit_cast(std::uint64_t, a) == __builtin_bit_cast(std::uint64_t, b);
}

}  // namespace meganeura::inline MEGANEURA_ABI
