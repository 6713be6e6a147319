// SPDX-License-Identifier: MIT
// How precisely products are computed: what a user allows.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// Of products of f32 whose terms are many enough for it to matter; all else is computed in the dtype it has. Rows of
/// any size, infinities and NaN give what they give in f32 either way. Errors are relative to the largest element of a
/// row times that of the column it meets (docs/devices.md).
enum class precision : std::uint8_t {
  exact,  // errors at or below those of f32 arithmetic; on matrix units three products of f16 terms make one
  fast    // errors at or below those of TF32: operands are rounded to 11 bits, sums are f32. Several times as fast;
          // products of a batch, as attention has, are as in exact where rounding would save less than 22 %
};

}  // namespace meganeura::inline MEGANEURA_ABI
