// SPDX-License-Identifier: MIT
// The planner's results: numbers that the host reads of every step, in memory of their own.
#pragma once
#include <meganeura/plan/draft.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

MEGANEURA_INLINE void place_results(draft& all) {
  std::uint64_t& bytes = all.result.area_bytes[index_of(area::results)];
  for (node_id id{0}; id < all.g().size(); ++id) {
    if (!all.is_result(id)) continue;
    const range where{area::results, bytes, tensor_bytes(all.g()[id])};
    bytes += tensor_alignment;
    placement& value = all.places[id];
    if (!value.placed) {
      value.placed = true;
      value.where = where;
      continue;
    }
    all.copied_results[id] = where;
    if (all.is_leaf(id)) {  // as it was before the step
      const std::uint32_t level = all.is_written(id) ? all.places[all.writer[id]].level : all.first_level;
      all.copies.push_back({.order = copy::save, .level = level, .from = id, .to = where});
    } else {
      all.copies.push_back({.order = copy::update, .level = value.level, .from = id, .to = where});
    }
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
