// SPDX-License-Identifier: MIT
// Fusion: how large a kernel may become.
#pragma once
#include <meganeura/config.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// What a fused kernel may have at most.
struct region_limits {
  std::size_t program_nodes = 96;                                        // operations for an element
  std::size_t accesses = 12;                                             // places that an element is read from
  std::size_t buffers = 10;                                              // a kernel reads; it writes one more
  std::int64_t tensor_bytes = std::numeric_limits<std::int64_t>::max();  // that a kernel binds
};

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
