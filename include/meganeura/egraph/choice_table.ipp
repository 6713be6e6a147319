// SPDX-License-Identifier: MIT
// Definitions for egraph/choice_table.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/egraph/choice_table.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::egraph {

MEGANEURA_INLINE choice_table::choice_table(const engine& g, std::span<const class_id> order,
                                            std::span<const class_id> roots, node_time time, const launch_time& launch)
    : g_(g), time_of_(std::move(time)), launch_(launch), classes_(g.class_slots()), times_(g.node_count(), {-1, 0, 0}) {
  std::vector<bool> listed(g.class_slots(), false);
  for (class_id id : order) {  // classes may have merged since they were ordered: each is chosen and paid for once
    if (!listed[g.find(id)]) order_.push_back(g.find(id));
    listed[g.find(id)] = true;
  }
  is_root_.resize(g.class_slots());
  for (class_id id : roots) roots_.push_back(g.find(id)), is_root_[g.find(id)] = true;
  list_operands();
  rank_classes();
}

MEGANEURA_INLINE bool choice_table::is_current() const {
  return std::ranges::all_of(order_, [&](class_id id) { return g_.find(id) == id; });
}

MEGANEURA_INLINE void choice_table::take_in(class_id several) {
  times_.resize(g_.node_count(), {-1, 0, 0});
  classes_.resize(g_.class_slots());
  list_operands();
  order_.push_back(several);
  const enode_id region = g_[several].nodes.front();
  find_time(region);
  classes_[several].candidates = {region};
  classes_[several].rank = 0;
  note_reader(several, region);
  for (const enode_id node : g_[several].parents) {
    if (g_.node(node).dead) continue;
    find_time(node);
    const class_id value = g_.find(g_.node(node).owner);
    classes_[value].candidates.push_back(node);
    note_reader(value, node);
  }
}

// The operands of nodes that are new.
MEGANEURA_INLINE void choice_table::list_operands() {
  for (auto node = static_cast<enode_id>(first_operand_.size() - 1); node < g_.node_count(); ++node) {
    for (class_id operand : g_.operands(node)) {
      operand = g_.find(operand);
      const auto begin = operands_.begin() + static_cast<std::ptrdiff_t>(first_operand_.back());
      if (std::find(begin, operands_.end(), operand) == operands_.end()) operands_.push_back(operand);
    }
    first_operand_.push_back(operands_.size());
  }
}

// A class ranks when it has a node whose operands all rank; nodes reading a class of higher rank are left out.
MEGANEURA_INLINE void choice_table::rank_classes() {
  std::uint32_t next = 0;
  std::vector<class_id> waiting = order_;
  for (std::size_t before = waiting.size() + 1; !waiting.empty() && waiting.size() < before;) {
    before = waiting.size();
    std::erase_if(waiting, [&](class_id id) {
      for (enode_id node : g_[id].nodes) {
        if (g_.node(node).dead || !usable(node, next)) continue;
        if (!is_known(node)) find_time(node);
        if (std::isinf(times_[node].alone)) continue;
        classes_[id].candidates.push_back(node);
      }
      if (classes_[id].candidates.empty()) return false;
      classes_[id].rank = next++;
      for (enode_id node : classes_[id].candidates) note_reader(id, node);
      return true;
    });
  }
  for (class_id root : roots_) {
    if (classes_[root].rank != unranked) continue;
    const enode& node = g_.node(g_[root].nodes.front());
    fail(error_category::internal, "extract: no kernel computes {} {}{}; a rule family it needs is disabled",
         to_string(node.kind), to_string(node.type), to_string(g_.extents(root)));
  }
}

MEGANEURA_INLINE bool choice_table::usable(enode_id node, std::uint32_t rank) const {
  for (class_id operand : g_.operands(node)) {
    if (classes_[g_.find(operand)].rank >= rank) return false;
  }
  return true;
}

MEGANEURA_INLINE void choice_table::note_reader(class_id id, enode_id node) {
  for (class_id operand : g_.operands(node)) {
    class_list& readers = classes_[g_.find(operand)].readers;
    if (readers.empty() || readers.back() != id) readers.push_back(id);
  }
}

MEGANEURA_INLINE void choice_table::find_time(enode_id node) {
  times_[node] = time_of_(node);
  times_[node].room = 0;  // is found by whoever places the kernels: those that nobody waits for stand elsewhere then
  if (!std::isfinite(times_[node].alone + times_[node].busy))
    times_[node].alone = std::numeric_limits<double>::infinity();
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
