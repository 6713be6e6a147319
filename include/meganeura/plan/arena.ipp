// SPDX-License-Identifier: MIT
// The planner's memory: lifetimes, results in place of operands, and the arena that they share.
#pragma once
#include <meganeura/plan/draft.hpp>
#include <meganeura/plan/occupied_bytes.hpp>

#include <algorithm>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

// Finds out which values share bytes of the arena, and which bytes these are.
class arena_placer {
 public:
  explicit arena_placer(draft& all) : draft_(all), g_(all.g()), places_(all.places) {}

  void run() {
    lifetimes();
    if (draft_.options.in_place) share_in_place();
    allocate_arena();
  }

 private:
  void lifetimes() {
    for (node_id id{0}; id < g_.size(); ++id) {
      if (draft_.is_leaf(id) || draft_.is_effect(id)) continue;
      if (const std::int64_t sums = draft_.scratch_of(id).sums; sums != 0) {
        draft_.partial_sums[id] = draft_.scratches.size();
        add_scratch(places_[id].level, static_cast<std::uint64_t>(sums) * sizeof(float));
      }
      if (g_.has_several_results(id)) {  // memory is theirs
        find_unnamed_results(id);
        continue;
      }
      placement& p = places_[id];
      p.in_arena = !p.placed;
      p.last_use = draft_.is_output[id] ? never : p.level;
      for (node_id reader : draft_.readers[id]) {
        const bool stays = draft_.is_folded[id] && !draft_.is_folded[reader];
        p.last_use = stays ? never : std::max(p.last_use, places_[reader].level);
      }
    }
    for (node_id effect : g_.effects()) {
      for (node_id operand : g_.operands(effect))
        places_[operand].last_use = std::max(places_[operand].last_use, places_[effect].level);
    }
    for (const copy& each : draft_.copies)
      places_[each.from].last_use = std::max(places_[each.from].last_use, each.level);
    for (node_id id{0}; id < g_.size(); ++id) {
      if (places_[id].in_arena) draft_.result.unaliased_arena_bytes += aligned(tensor_bytes(g_[id]));
    }
    for (const scratch& each : draft_.scratches) draft_.result.unaliased_arena_bytes += aligned(each.bytes);
  }

  // A kernel stores all of its results: what nobody names has bytes for as long as it runs.
  void find_unnamed_results(node_id id) {
    const draft::node_list values = draft_.values_of(id);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != no_id) continue;
      const tensor_spec unnamed = g_.results(id)[i];
      draft_.unnamed[id].push_back(draft_.scratches.size());
      add_scratch(places_[id].level, static_cast<std::uint64_t>(unnamed.extents.bytes(unnamed.type)));
    }
  }
  void add_scratch(std::uint32_t level, std::uint64_t bytes) {
    draft_.scratches.push_back({.first = level, .last = level, .bytes = bytes, .where = {}});
  }

  // An operand that dies here and is read element by element where the result is written can give its memory away.
  void share_in_place() {
    same_memory_.assign(g_.size(), no_id);
    for (node_id id{0}; id < g_.size(); ++id) {
      const node_id made_by = draft_.producer(id);
      const bool is_gradient = places_[id].placed && places_[id].where.where == area::gradient;
      if (!places_[id].in_arena && (!is_gradient || draft_.is_leaf(id))) continue;
      for (std::size_t k = 0; k < g_.operands(made_by).size(); ++k) {
        const node_id operand = g_.operand(made_by, k);
        const auto has_it = [&](node_id other) { return other != no_id && same_memory_[other] == operand; };
        if (!dies_at(operand, made_by) || !draft_.writes_where_it_reads(id, k)) continue;
        if (made_by != id && std::ranges::any_of(draft_.values_of(made_by), has_it)) continue;
        if (is_gradient) {  // what is scaled to a gradient is computed where that will lie
          places_[operand] = {.level = places_[operand].level, .placed = true, .where = places_[id].where};
          same_memory_[operand] = no_id;
        } else {
          same_memory_[id] = operand;
        }
        break;
      }
    }
  }

  [[nodiscard]] bool dies_at(node_id operand, node_id id) const {
    const placement& from = places_[operand];
    if (!from.in_arena || from.last_use != places_[id].level) return false;
    if (draft_.read_by_effect[operand]) return false;  // a copy of this level may come later
    return std::ranges::all_of(draft_.readers[operand], [&](node_id reader) {
      return reader == id || places_[reader].level != places_[id].level;
    });
  }

  // Bytes of the arena with one lifetime.
  struct block {
    std::size_t index = 0;
    std::uint32_t first = never, last = 0;
    std::uint64_t bytes = 0;
  };

  // Chains of in-place results form one block that lives from the first write to the last read; scratches come last.
  [[nodiscard]] std::vector<block> blocks() {
    std::vector<block> result;
    block_of_.assign(g_.size(), none);
    for (node_id id{0}; id < g_.size(); ++id) {
      if (!places_[id].in_arena) continue;
      const node_id shared = same_memory_.empty() ? no_id : same_memory_[id];
      if (shared == no_id) result.push_back({.index = result.size()});
      block_of_[id] = shared == no_id ? result.size() - 1 : block_of_[shared];
      block& b = result[block_of_[id]];
      b.first = std::min(b.first, places_[id].level);
      b.last = std::max(b.last, places_[id].last_use);
      b.bytes = std::max(b.bytes, aligned(tensor_bytes(g_[id])));
    }
    for (const scratch& each : draft_.scratches)
      result.push_back({result.size(), each.first, each.last, aligned(each.bytes)});
    return result;
  }

  // Largest block first, at the lowest offset free during its whole life (greedy by size; within a few percent of
  // optimal on network graphs, see Pisarchyk and Lee 2020).
  void allocate_arena() {
    std::vector<block> all = blocks();
    std::stable_sort(all.begin(), all.end(), [](const block& a, const block& b) { return a.bytes > b.bytes; });
    std::uint32_t levels = 1;
    for (const placement& p : places_) levels = std::max(levels, p.level + 1);
    for (const scratch& each : draft_.scratches) levels = std::max(levels, each.first + 1);
    occupied_bytes taken(levels, draft_.result.page_bytes);
    std::uint64_t total = 0;
    std::vector<std::uint64_t> offsets(all.size());
    for (const block& b : all) {
      const std::uint32_t last = std::min(b.last, levels - 1);
      const std::uint64_t offset = draft_.options.share_memory ? taken.lowest_free(b.first, last, b.bytes)
                                                               : fit_page(total, b.bytes, draft_.result.page_bytes);
      if (draft_.options.share_memory) taken.insert(b.first, last, offset, offset + b.bytes);
      total = std::max(total, offset + b.bytes);
      offsets[b.index] = offset;
    }
    for (node_id id{0}; id < g_.size(); ++id) {
      if (block_of_[id] != none) places_[id].where = {area::arena, offsets[block_of_[id]], tensor_bytes(g_[id])};
    }
    const std::size_t first_scratch = all.size() - draft_.scratches.size();
    for (std::size_t i = 0; i < draft_.scratches.size(); ++i)
      draft_.scratches[i].where = {area::arena, offsets[first_scratch + i], draft_.scratches[i].bytes};
    draft_.result.area_bytes[index_of(area::arena)] = total;
  }

  std::vector<node_id> same_memory_;   // of a node: the operand that it overwrites
  std::vector<std::size_t> block_of_;  // of nodes in the arena
  draft& draft_;
  const graph& g_;
  std::vector<placement>& places_;
};

MEGANEURA_INLINE void place_in_arena(draft& all) { arena_placer(all).run(); }

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
