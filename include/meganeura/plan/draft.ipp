// SPDX-License-Identifier: MIT
// Definitions for plan/draft.hpp: who reads, makes and overwrites what, and the places of leaves.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/plan/draft.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

MEGANEURA_INLINE draft::draft(graph of, const layout& parameters, const plan_options& planning,
                              std::uint64_t page_bytes)
    : options(planning) {
  result.implementation = std::move(of);
  result.parameters = parameters;
  result.inputs = paged(layout_of(g(), {op::input}), page_bytes);
  result.training = paged(make_training_layout(g()), page_bytes);
  result.page_bytes = page_bytes;
  places.resize(g().size());
  readers.resize(g().size());
  is_output.resize(g().size(), false);
  read_by_effect.resize(g().size(), false);
  writer.resize(g().size(), no_id);
  for (const graph_output& output : g().outputs()) is_output[output.node] = true;
  for (node_id id{0}; id < g().size(); ++id) {
    for (node_id operand : g().operands(id)) {
      if (is_effect(id)) read_by_effect[operand] = true;
      if (!is_effect(id) && (readers[operand].empty() || readers[operand].back() != id)) readers[operand].push_back(id);
    }
  }
  for (node_id effect : g().effects()) {
    for (const update& each : g().updates(effect)) writer[each.target] = effect;
  }
  is_folded.resize(g().size(), false);
  if (options.fold.value_or(false)) find_folded();
}

// Nothing of it is a number that the host reads of every step, or assigned to a state.
MEGANEURA_INLINE void draft::find_folded() {
  const auto is_known = [&](node_id id) {
    const op kind = g()[id].kind;
    if (!is_leaf(id)) return static_cast<bool>(is_folded[id]);
    return (kind == op::parameter || kind == op::state) && writer[id] == no_id &&
           result.training.find(g().get<leaf_attribute>(id).name) == nullptr;
  };
  const auto may_be = [&](node_id value) { return value == no_id || (!is_result(value) && !read_by_effect[value]); };
  for (node_id id{0}; id < g().size(); ++id) {
    if (is_leaf(id) || is_effect(id) || g()[id].kind == op::random) continue;
    const bool is_part = g()[id].kind == op::result;
    is_folded[id] =
        std::ranges::all_of(g().operands(id), is_known) && (is_part || std::ranges::all_of(values_of(id), may_be));
  }
}

MEGANEURA_INLINE draft::node_list draft::values_of(node_id id) const {
  if (!g().has_several_results(id)) return {id};
  node_list values(g().results(id).size(), no_id);
  for (node_id reader : readers[id]) values[g().get<result_attribute>(reader).index] = reader;
  return values;
}

MEGANEURA_INLINE std::uint64_t draft::kept_for(node_id id, std::uint32_t level) const {
  std::uint64_t kept = 0;
  for (node_id operand : g().operands(id)) {
    const auto& others = readers[operand];  // the last of them are the likeliest to need it as long
    const auto last = std::make_reverse_iterator(others.end()), end = std::make_reverse_iterator(others.begin());
    const bool waits = !is_there(operand) && std::all_of(last, end, [&](node_id reader) {
      return reader == id || places[reader].level < level;
    });
    if (waits) kept += tensor_bytes(g()[operand]);
  }
  return kept;
}

MEGANEURA_INLINE bool draft::writes_where_it_reads(node_id id, std::size_t which) const {
  const node_id made_by = producer(id);
  const auto operands = g().operands(made_by);
  if (info(g()[made_by].kind).updates) return which == 0 && std::ranges::count(operands, operands[0]) == 1;
  if (g()[made_by].kind != op::region) return false;
  const auto& region = g().get<region_attribute>(made_by);
  const std::size_t number = made_by == id ? 0 : g().get<result_attribute>(id).index;
  const index_map& output = number == 0 ? region.output : region.further[number - 1].output;
  if (region.row_axes != 0 && !(number == 0 ? region.per_row : region.further[number - 1].per_row)) return false;
  const node &from = g()[operands[which]], &to = g()[id];
  if (!same_storage(from.type, to.type) || tensor_bytes(from) != tensor_bytes(to)) return false;
  if (std::ranges::count(operands, operands[which]) != 1) return false;
  return std::ranges::all_of(region.accesses, [&](const index_map& a) {
    return a.source != static_cast<int>(which) ||
           (a.bounded == 0 && a.offset == output.offset && std::ranges::equal(a.strides, output.strides));
  });
}

inline void place_leaf(draft& all, node_id id, area where, const layout& tensors) {
  const node& leaf = all.g()[id];
  const auto& name = all.g().get<leaf_attribute>(id).name;
  const named_tensor* found = tensors.find(name);
  if (!found || found->kind != leaf.kind || found->extents != leaf.extents || found->type != leaf.type) {
    fail(error_category::invalid_argument, "{} \"{}\" {} {} is {}; build both from one model", to_string(leaf.kind),
         name, to_string(leaf.type), to_string(leaf.extents),
         found ? fmt::format("stored as a {} {}{}", to_string(found->kind), to_string(found->type),
                             to_string(found->extents))
               : "not among the parameters");
  }
  all.places[id] = {
      .level = 0, .last_use = never, .in_arena = false, .placed = true, .where = {where, found->offset, found->bytes}};
}

MEGANEURA_INLINE void place_leaves(draft& all) {
  for (node_id id{0}; id < all.g().size(); ++id) {
    const op kind = all.g()[id].kind;
    if (kind == op::input) place_leaf(all, id, area::input, all.result.inputs);
    if (kind != op::parameter && kind != op::state) continue;
    const bool of_training = all.result.training.find(all.g().get<leaf_attribute>(id).name) != nullptr;
    if (of_training) place_leaf(all, id, area::training, all.result.training);
    if (!of_training) place_leaf(all, id, area::parameter, all.result.parameters);
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
