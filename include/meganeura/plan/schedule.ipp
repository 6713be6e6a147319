// SPDX-License-Identifier: MIT
// The planner's levels: which kernels may run at the same time, and which should wait.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/plan/draft.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

// Levels of all nodes but effects.
class scheduler {
 public:
  explicit scheduler(draft& all) : draft_(all), g_(all.g()), places_(all.places) {}

  void run() {
    find_first_level();
    levels();
    if (draft_.options.late_scheduling) schedule_late();
  }

 private:
  void find_first_level() {
    std::vector<std::uint32_t> levels(g_.size(), 0);
    for (node_id id{0}; id < g_.size(); ++id) {
      if (!draft_.is_folded[id]) continue;
      for (node_id operand : g_.operands(id)) levels[id] = std::max(levels[id], levels[operand]);
      levels[id] += g_[id].kind != op::result;
      draft_.first_level = std::max(draft_.first_level, levels[id] + 1);
    }
  }

  void levels() {
    for (node_id id{0}; id < g_.size(); ++id) {
      const std::uint64_t most = std::min(draft_.options.max_tensor_bytes, draft_.result.page_bytes);
      if (tensor_bytes(g_[id]) > most) {
        const auto* leaf = std::get_if<leaf_attribute>(&g_.attribute_of(id));
        const bool is_kept = g_[id].kind == op::parameter || g_[id].kind == op::state;
        fail(error_category::unsupported, "{} is {}{}, {} bytes, and the device takes {} of one tensor at most: {}",
             leaf ? quote(leaf->name) : fmt::format("%{}", id), to_string(g_[id].type), to_string(g_[id].extents),
             tensor_bytes(g_[id]), most, is_kept ? "make it several tensors" : "use a smaller batch, or split it");
      }
      const op kind = g_[id].kind;
      if (draft_.is_leaf(id)) continue;
      if (kind == op::result) {
        places_[id].level = places_[draft_.producer(id)].level;
        continue;
      }
      if (!info(kind).runs && !draft_.is_effect(id)) {
        fail(error_category::internal, "plan: node %{} is a {}, which no kernel implements; extraction must replace it",
             id, to_string(kind));
      }
      std::uint32_t before = draft_.is_folded[id] ? 0 : draft_.first_level - 1;
      for (node_id operand : g_.operands(id)) before = std::max(before, places_[operand].level);
      places_[id].level = before + 1;
    }
  }

  // As late as its readers allow, when its result is larger than the operands that would have to wait for it. Not for
  // the sake of a few levels, whose memory is had again soon: beside its neighbours a kernel costs less time than among
  // others, and the choice of kernels counted on that.
  void schedule_late() {
    constexpr std::uint32_t short_wait = 6;
    for (node_id id = static_cast<node_id>(g_.size()); id-- > 0;) {
      if (draft_.is_there(id) || draft_.is_effect(id) || g_[id].kind == op::result) continue;
      std::uint32_t latest = never;
      std::uint64_t bytes = 0;
      for (node_id value : draft_.values_of(id)) latest = std::min(latest, latest_level(value, bytes));
      if (latest == never || latest <= places_[id].level + short_wait || bytes <= draft_.kept_for(id, latest)) continue;
      for (node_id value : draft_.values_of(id)) places_[value].level = latest;
      places_[id].level = latest;
    }
  }

  // That the readers of a value allow: 0 for one that is needed otherwise. Adds its bytes.
  [[nodiscard]] std::uint32_t latest_level(node_id value, std::uint64_t& bytes) const {
    if (value == no_id || draft_.readers[value].empty() || draft_.is_output[value] || draft_.read_by_effect[value])
      return 0;
    std::uint32_t latest = never;
    for (node_id reader : draft_.readers[value]) latest = std::min(latest, places_[reader].level - 1);
    bytes += tensor_bytes(g_[value]);
    return latest;
  }

  draft& draft_;
  const graph& g_;
  std::vector<placement>& places_;
};

MEGANEURA_INLINE void schedule(draft& all) { scheduler(all).run(); }

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
