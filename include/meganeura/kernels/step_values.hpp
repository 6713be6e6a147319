// SPDX-License-Identifier: MIT
// The small device buffer with everything that changes from step to step; kernels read it, the host writes it.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// Layout shared with shaders/ (std430, 4-byte members only).
struct step_values {
  std::uint32_t step = 0;      // 1 for the first training step
  std::uint32_t seed_low = 0;  // Philox key of every random stream
  std::uint32_t seed_high = 0;
  float learning_rate = 0;
  float momentum = 0;          // sgd
  float beta1 = 0, beta2 = 0;  // adam, adamw
  float epsilon = 0;
  float weight_decay = 0;      // coupled for sgd and adam, decoupled for adamw
  float bias_correction1 = 1;  // 1 - beta1^step, computed on the host in double precision
  float bias_correction2 = 1;  // 1 - beta2^step
  std::uint32_t reserved[5]{};
};
static_assert(sizeof(step_values) == 64);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
