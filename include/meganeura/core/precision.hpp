// SPDX-License-Identifier: MIT
// How precisely products are computed: what a user allows.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// Of products of f32 whose terms are many enough for it to matter; all else is computed in the dtype it has.
/// Infinities, NaN and numbers of any size give what they give in f32 either way.
enum class precision : std::uint8_t {
  exact,  // errors at or below those of f32 arithmetic; on matrix units three products of f16 terms make one
  fast    // errors at or below those of TF32: operands are rounded to 11 bits, sums are f32. Several times as fast
};

}  // namespace meganeura::inline MEGANEURA_ABI
