// SPDX-License-Identifier: MIT
// The cost of a program; those of nodes stand with their kernel families (fusion/kernel_family.ipp).
#pragma once
#include <meganeura/fusion/cost.hpp>

namespace meganeura::inline MEGANEURA_ABI::fusion {

MEGANEURA_INLINE double program_cost(const scalar_program& program, const device_profile& device) {
  double total = 0;
  for (const scalar_node& node : program.nodes) {
    if (info(node.op).arity > 0) total += info(node.op).is.slow ? device.transcendental : 1;
  }
  return total;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#include <meganeura/fusion/implement.hpp>
