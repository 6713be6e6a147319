// SPDX-License-Identifier: MIT
// What every kernel generator returns: a module and the grid to launch it with.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/spirv/module.hpp>

#include <array>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// Kernels count in 32 bits and round up to whole vectors, workgroups and tiles: no count may come closer to 2^32.
inline constexpr std::int64_t max_count = 0xff000000;

/// Bindings: one for each operand of the node, in order, then the results, then (for random and optimizer_step) the
/// step_values buffer. Buffers are bound at the first element of the tensor.
struct kernel_dispatch {
  spirv::module module;
  std::array<std::uint32_t, 3> groups{1, 1, 1};
};

/// Whether the driver lets every invocation finish its loops.
[[nodiscard]] inline bool within_loop_limit(const spirv::module& made, const device_profile& on) {
  return on.max_loop_iterations == 0 || made.loop_iterations <= on.max_loop_iterations;
}

/// `make()`, again as long as its loops are too long for the driver and `widen()` finds more invocations to share them.
template <class Make, class Widen>
[[nodiscard]] kernel_dispatch make_within_loop_limit(const Make& make, const Widen& widen, const device_profile& on) {
  for (;;) {
    kernel_dispatch made = make();
    if (within_loop_limit(made.module, on) || !widen()) return made;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
