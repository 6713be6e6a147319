// SPDX-License-Identifier: MIT
// From a node of an implementation graph to its kernel.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/plan/plan.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// The kernel of a node whose result has memory of its own.
/// errors: unsupported when an invocation would loop longer than the device lets it; internal when the node is not one
/// that runs on a device (leaves, primitives, assign).
[[nodiscard]] kernel_dispatch generate(const graph& g, node_id id, const device_profile& on);

/// The kernel of a step of a plan, in place or not. errors: as above; internal for a copy, which needs no kernel.
[[nodiscard]] kernel_dispatch generate(const plan::execution_plan& p, const plan::step& s, const device_profile& on);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/generate.ipp>
#endif
