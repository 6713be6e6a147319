// SPDX-License-Identifier: MIT
// From a node of an implementation graph to its kernel.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/plan/plan.hpp>

#include <cstddef>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// The kernel of a node whose result has memory of its own.
/// errors: unsupported when an invocation would loop longer than the device lets it; internal when the node is not one
/// that runs on a device (leaves, primitives, assign).
[[nodiscard]] kernel_dispatch generate(const graph& g, node_id id, const device_profile& on);

/// The kernel of a step of a plan, in place or not. errors: as above; internal for a copy, which needs no kernel.
[[nodiscard]] kernel_dispatch generate(const plan::execution_plan& p, const plan::step& s, const device_profile& on);

/// The kernels of a plan. Steps of which generators read the same, as the layers of a model have them, share one.
struct kernel_set {
  std::vector<kernel_dispatch> kernels;  // each was generated once
  std::vector<std::size_t> of_step;      // the place of each step's; 0 of a copy, which needs none
};
/// Generated on up to `threads` threads. errors: as above.
[[nodiscard]] kernel_set generate(const plan::execution_plan& p, const device_profile& on, std::size_t threads = 1);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/generate.ipp>
#endif
