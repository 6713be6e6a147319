// SPDX-License-Identifier: MIT
// The small device buffer with everything that changes from step to step; kernels read it, the host writes it.
#pragma once
#include <meganeura/graph/attribute.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// Layout shared with shaders/ (std140, 4-byte members only).
struct step_values {
  std::uint32_t step = 0;                     // 1 for the first training step
  std::uint32_t seed_low = 0, seed_high = 0;  // Philox key of every random stream
  float numbers[max_optimizer_numbers]{};     // of the optimiser, in the order in which its program counts them
};
static_assert(sizeof(step_values) == step_bytes);

/// What step number `step` (1, 2, ...) needs to draw its random numbers.
[[nodiscard]] constexpr step_values step_values_of(std::uint32_t step, std::uint64_t seed) {
  return {
      .step = step, .seed_low = static_cast<std::uint32_t>(seed), .seed_high = static_cast<std::uint32_t>(seed >> 32)};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
