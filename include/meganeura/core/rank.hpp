// SPDX-License-Identifier: MIT
// How many axes a tensor may have: the one limit that types and run-time shapes share.
#pragma once
#include <meganeura/config.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// The largest number of axes of a tensor and of a kernel's iteration space.
inline constexpr int max_rank = 8;

/// The largest number of axes that a convolution or a pool slides along.
inline constexpr int max_spatial = 3;

}  // namespace meganeura::inline MEGANEURA_ABI
