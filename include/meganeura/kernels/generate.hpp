// SPDX-License-Identifier: MIT
// From a node of an implementation graph to its kernel.
#pragma once
#include <meganeura/graph/graph.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/target.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// errors: unsupported when an invocation would loop longer than the device lets it; internal when the node is not one
/// that runs on a device (leaves, primitives, assign).
[[nodiscard]] kernel_dispatch generate(const graph& g, node_id id, const target& on);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/generate.ipp>
#endif
