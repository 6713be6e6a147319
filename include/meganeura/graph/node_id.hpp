// SPDX-License-Identifier: MIT
// The position of a node in its graph.
#pragma once
#include <meganeura/core/id.hpp>

namespace meganeura::inline MEGANEURA_ABI {

using node_id = strong_id<struct node_kind>;

}  // namespace meganeura::inline MEGANEURA_ABI
