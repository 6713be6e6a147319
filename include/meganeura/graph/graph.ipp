// SPDX-License-Identifier: MIT
// Definitions for graph/graph.hpp: nodes, the names of outputs and taps, what a step computes and costs.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/hash.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/graph/visit_op.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
inline std::uint64_t node_key(op kind, dtype type, const shape& extents, attribute_id attribute,
                              std::span<const node_id> operands, std::uint32_t turn) {
  const std::uint64_t what = static_cast<std::uint64_t>(kind) << 8 | static_cast<std::uint64_t>(type);
  std::uint64_t key = hash_combine(what | std::uint64_t{turn} << 32, attribute);
  for (std::int64_t extent : extents) key = hash_combine(key, static_cast<std::uint64_t>(extent));
  for (node_id operand : operands) key = hash_combine(key, operand);
  return key;
}
}  // namespace detail

MEGANEURA_INLINE node_id graph::add_node(op kind, dtype type, const shape& extents, attribute_ref value,
                                         std::span<const node_id> operands, std::uint32_t turn) {
  const attribute_id interned = attributes_.intern(value);
  const std::uint64_t key = detail::node_key(kind, type, extents, interned, operands, turn);
  const node_id known = ids_.find(key, [&](node_id each) {
    const node& n = nodes_[each];
    return n.kind == kind && n.type == type && n.attribute == interned && n.extents == extents && n.turn == turn &&
           std::ranges::equal(this->operands(each), operands) && !is_dropped(each);
  });
  if (known != no_id) return known;
  const bool is_effect = info(kind).stage == op_stage::effect;
  if (is_effect) expect_unwritten(operands);
  const auto id = static_cast<node_id>(nodes_.size());
  nodes_.push_back({kind, type, extents, interned, static_cast<std::uint32_t>(operands_.size()),
                    static_cast<std::uint32_t>(operands.size()), path_, turn});
  // `operands` may be a view into operands_ itself: copy before growing.
  const small_vector<node_id, 8> copy(operands.begin(), operands.end());
  operands_.insert(operands_.end(), copy.begin(), copy.end());
  ids_.insert(key, id);
  if (const auto* leaf = std::get_if<leaf_attribute>(&attributes_[interned])) {
    leaf_names_.insert(hash_string(leaf->name), id);
  }
  if (is_effect) {
    effects_.push_back(id);
    for (const update& each : updates(id)) writers_.emplace(each.target, id);
  }
  return id;
}

// It is found by the new one from now on.
MEGANEURA_INLINE void graph::replace_attribute(node_id id, attribute_ref value) {
  node& n = nodes_[id];
  n.attribute = attributes_.intern(value);
  ids_.insert(detail::node_key(n.kind, n.type, n.extents, n.attribute, operands(id), n.turn), id);
}

MEGANEURA_INLINE void graph::expect_values(std::string_view asked, std::span<const node_id> operands) const {
  for (node_id operand : operands) {
    if (operand == no_id) {
      fail(error_category::invalid_argument,
           "{}: an operand is no node (no_id), as find_leaf and find_output give for a name that they do not know",
           asked);
    }
    if (operand >= size()) {
      fail(error_category::invalid_argument, "{}: operand %{} does not exist; the graph has {} nodes", asked, operand,
           size());
    }
    if (const op kind = nodes_[operand].kind; info(kind).stage == op_stage::effect) {
      fail(error_category::invalid_argument,
           "{}: operand %{} is an {}, which has no value; use what it reads, or the state or parameter that it writes",
           asked, operand, to_string(kind));
    }
  }
}

MEGANEURA_INLINE void graph::add_output(std::string_view name, node_id node) {
  expect_values(fmt::format("output \"{}\"", name), {node});
  if (name.empty()) fail(error_category::invalid_argument, "output \"\" of %{}: the name is empty; give it one", node);
  if (nodes_[node].type == dtype::boolean) {
    fail(error_category::invalid_argument, "output \"{}\" of %{}: it is bool, which is not stored; cast it to u8", name,
         node);
  }
  if (find_output(name) != no_id) {
    fail(error_category::invalid_argument, "output \"{}\" exists already; give it another name", name);
  }
  outputs_.push_back({std::string(name), node});
  output_names_.emplace(std::string(name), node);
}

MEGANEURA_INLINE void graph::tap(std::string_view name, node_id node) {
  expect_values(fmt::format("tap \"{}\"", name), {node});
  const auto [known, is_new] = tap_names_.emplace(std::string(name), node);
  if (is_new) {
    taps_.push_back({std::string(name), node});
  } else if (known->second != node) {
    fail(error_category::invalid_argument, "tap \"{}\" of %{}: %{} is tapped by that name; give it another one", name,
         node, known->second);
  }
}

MEGANEURA_INLINE void graph::expect_indices(index_range expected) {
  expect_values("expect_indices", {expected.indices});
  if (expected.counts != no_id) expect_values("expect_indices", {expected.counts});
  const bool known = std::ranges::any_of(index_ranges_, [&](const index_range& each) {
    return each.indices == expected.indices && each.count == expected.count && each.ignored == expected.ignored &&
           each.counts == expected.counts;
  });
  if (!known) index_ranges_.push_back(std::move(expected));
}

MEGANEURA_INLINE node_id graph::find_output(std::string_view name) const {
  const auto found = output_names_.find(name);
  return found == output_names_.end() ? no_id : found->second;
}

MEGANEURA_INLINE std::vector<tensor_spec> graph::results(node_id id) const {
  std::vector<tensor_spec> all = {{nodes_[id].type, nodes_[id].extents}};
  for (const further_result& each : further_results(attribute_of(id))) all.push_back({each.type, each.extents});
  return all;
}

MEGANEURA_INLINE std::vector<bool> graph::pullbacks() const {
  const auto followed = [&](node_id id) {
    return operands(id).first(nodes_[id].kind == op::custom_gradient ? 1 : nodes_[id].operand_count);
  };
  std::vector<bool> left_out(size(), false), read(size(), false), needed(size(), false);
  for (node_id id{0}; id < size(); ++id) {
    left_out[id] = nodes_[id].kind == op::adjoint ||
                   std::ranges::any_of(followed(id), [&](node_id from) { return left_out[from]; });
    for (node_id from : operands(id)) read[from] = true;
  }
  for (const graph_output& output : outputs_) needed[output.node] = true;
  for (node_id effect : effects_) needed[effect] = true;
  for (node_id id = static_cast<node_id>(size()); id-- > 0;) {
    left_out[id] = !needed[id] && (read[id] || left_out[id]);
    if (left_out[id]) continue;
    for (node_id from : followed(id)) needed[from] = true;
  }
  return left_out;
}

MEGANEURA_INLINE double graph::flops() const {
  const std::vector<bool> left_out = pullbacks();
  double total = 0;
  for (node_id id{0}; id < size(); ++id) total += left_out[id] ? 0.0 : flops(id);
  return total;
}

namespace detail {

// Of a node of that primitive, or of the part of an implementation that is one.
template <op Primitive>
double primitive_flops(const graph& g, node_id id, const typename primitive_traits<Primitive>::attribute_type& value,
                       const shape& result) {
  if constexpr (has_flops<Primitive>) {
    std::vector<symbolic_shape> from;
    for (node_id operand : g.operands(id)) from.push_back(g[operand].extents);
    const auto extent = [](const dim& each) { return static_cast<double>(each.coefficient); };
    return primitive_traits<Primitive>::flops(value, from.data(), result, extent);
  }
  return 0;
}

inline double program_flops(const scalar_program& program, const shape& over) {
  return static_cast<double>(program.operations() * over.elements());
}

}  // namespace detail

MEGANEURA_INLINE double graph::flops(node_id id) const {
  const node& n = nodes_[id];
  const attribute& what = attribute_of(id);
  if (const auto* map = std::get_if<map_attribute>(&what)) return detail::program_flops(map->program, n.extents);
  if (const auto* nest = std::get_if<region_attribute>(&what)) return detail::program_flops(nest->program, nest->space);
  if (const auto* product = std::get_if<matmul_attribute>(&what)) {
    shape rows = product->space;
    for (int i = 0; i < product->n_axes; ++i) rows.set(product->batch_axes + product->m_axes + i, 1);
    const double terms = static_cast<double>(product->space.elements()) * static_cast<double>(product->sums());
    return 2 * terms + detail::program_flops(product->start.program, rows) +
           detail::program_flops(product->start.statistic, rows) +
           detail::program_flops(product->finish.program, n.extents);
  }
  if (const auto* rows = std::get_if<attention_attribute>(&what)) {
    const auto [batch, queries, channels, keys, width] = rows->sizes();
    const std::int64_t programs = rows->score.operations() + rows->weight.operations() + 4;
    const std::int64_t more = rows->form == attention_form::output           ? 0
                              : rows->form == attention_form::query_gradient ? width
                                                                             : width + channels;
    return static_cast<double>(batch * queries * keys) * static_cast<double>(2 * (width + channels + more) + programs);
  }
  return visit_op(n.kind, [&]<op Kind> {
    if constexpr (has_epilogue(Kind) && Kind != op::matmul) {
      const auto& whole = get<typename detail::implementation_traits<Kind>::attribute_type>(id);
      return detail::primitive_flops<info(Kind).implements>(*this, id, whole.primitive, whole.space) +
             detail::program_flops(whole.finish.program, whole.space);
    } else if constexpr (detail::has_flops<Kind>) {
      using attribute_type = typename detail::primitive_traits<Kind>::attribute_type;
      return detail::primitive_flops<Kind>(*this, id, get<attribute_type>(id), n.extents);
    }
    return 0.0;
  });
}

MEGANEURA_INLINE graph pruned(const graph& g) {
  std::vector<bool> needed(g.size(), false);
  for (const graph_output& output : g.outputs()) needed[output.node] = true;
  for (node_id effect : g.effects()) needed[effect] = true;
  for (node_id id = static_cast<node_id>(g.size()); id-- > 0;) {
    if (!needed[id]) continue;
    for (node_id operand : g.operands(id)) needed[operand] = true;
  }
  graph result(g.paths());
  std::vector<node_id> copies(g.size(), no_id);
  for (node_id id{0}; id < g.size(); ++id) {
    if (!needed[id]) continue;
    small_vector<node_id, 8> operands;
    for (node_id operand : g.operands(id)) operands.push_back(copies[operand]);
    const graph::scope in(result, g[id].path);
    copies[id] = result.add_node(g[id].kind, g[id].type, g[id].extents, g.attribute_of(id), operands);
  }
  for (const graph_output& output : g.outputs()) result.add_output(output.name, copies[output.node]);
  for (index_range range : g.index_ranges()) {
    const bool counted = range.counts != no_id;
    range.indices = copies[range.indices];
    if (counted) range.counts = copies[range.counts];
    if (range.indices != no_id && counted == (range.counts != no_id)) result.expect_indices(std::move(range));
  }
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI
