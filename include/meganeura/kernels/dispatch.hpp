// SPDX-License-Identifier: MIT
// What every kernel generator returns: a module and the grid to launch it with.
#pragma once
#include <meganeura/spirv/module.hpp>

#include <array>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// Bindings: one for each operand of the node, in order, then the result, then (for random and optimizer_step) the
/// step_values buffer. Buffers are bound at the first element of the tensor.
struct kernel_dispatch {
  spirv::module module;
  std::array<std::uint32_t, 3> groups{1, 1, 1};
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
