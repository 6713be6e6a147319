// SPDX-License-Identifier: MIT
// Extraction: one node for each needed class, with shared values counted once.
#pragma once
#include <meganeura/egraph/cost.hpp>
#include <meganeura/egraph/region.hpp>

#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::egraph {

struct extraction {
  std::vector<enode_id> chosen;         // by canonical class; no_id where no kernel computes the class
  std::vector<class_id> order;          // live classes, operands before users
  double cost = 0;                      // seconds predicted for the whole
  int passes = 0;                       // of the repair
  std::size_t offered = 0, merged = 0;  // kernels with several results: added to the e-graph, and taken
};

/// Bottom-up choice with the cost of a value shared among its readers, then repair with true use counts until nothing
/// gets cheaper (at most `max_passes`). Where a kernel with several results, within the limits of `merging`, is cheaper
/// than the kernels of these, it is added and taken. `order` names the classes, operands before users as far as
/// possible. Errors: internal when a root has no kernel.
[[nodiscard]] extraction extract(engine& g, std::span<const class_id> order, std::span<const class_id> roots,
                                 const device_profile& device, const std::optional<region_limits>& merging = {},
                                 int max_passes = 8);

}  // namespace meganeura::inline MEGANEURA_ABI::egraph

#if MEGANEURA_HEADER_ONLY
#include <meganeura/egraph/extract.ipp>
#endif
