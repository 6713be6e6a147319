// SPDX-License-Identifier: MIT
// Definitions for egraph/cost.hpp.
#pragma once
#include <meganeura/egraph/cost.hpp>

namespace meganeura::inline MEGANEURA_ABI::egraph {

MEGANEURA_INLINE double program_cost(const scalar_program& program, const device_profile& device) {
  double total = 0;
  for (const scalar_node& node : program.nodes) {
    if (info(node.op).arity > 0) total += info(node.op).is.slow ? device.transcendental : 1;
  }
  return total;
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph

#include <meganeura/egraph/kernel_family.hpp>
