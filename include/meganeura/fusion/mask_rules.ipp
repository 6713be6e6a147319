// SPDX-License-Identifier: MIT
// The rule that lets a backward mask read the stored activation.
#pragma once
#include <meganeura/fusion/implement.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

inline bool is_zero(const engine& g, enode_id id, const scalar_node& node) {
  if (node.op == scalar_op::constant) return node.value == 0;
  return node.op == scalar_op::argument && g[g.operand(id, static_cast<std::size_t>(node.value))].constant == 0.0;
}

// What an argument is compared with 0 for. A NaN is neither: x <= 0 asks for what a relu stops, 0 < x for what it
// passes.
enum class mask_use : std::uint8_t { none, positive, stopped };

// How argument `index` appears, if only in comparisons of the form 0 < x, or in these and x <= 0.
inline mask_use only_masks(const engine& g, enode_id id, double index) {
  const std::span<const scalar_node> nodes = g.get<map_attribute>(id).program.nodes;
  mask_use found = mask_use::none;
  for (const scalar_node& node : nodes) {
    for (int k = 0; k < info(node.op).arity; ++k) {
      const scalar_node& operand = nodes[node.operands[k]];
      if (operand.op != scalar_op::argument || operand.value != index) continue;
      const bool positive = node.op == scalar_op::less && k == 1 && is_zero(g, id, nodes[node.operands[0]]);
      const bool stopped = node.op == scalar_op::less_equal && k == 0 && is_zero(g, id, nodes[node.operands[1]]);
      if (!positive && !stopped) return mask_use::none;
      if (stopped || found == mask_use::none) found = stopped ? mask_use::stopped : mask_use::positive;
    }
  }
  return found;
}

// maximum(x, 0) or x <= 0 ? 0 : x of the first operand, which keep a NaN, or 0 < x ? x : 0, which drops it and serves
// only masks that are false for it either way.
inline bool is_relu(const engine& g, enode_id id, mask_use use) {
  if (g.node(id).kind != op::map || g.node(id).dead) return false;
  const std::span<const scalar_node> nodes = g.get<map_attribute>(id).program.nodes;
  const auto is_x = [&](scalar_ref at) { return nodes[at].op == scalar_op::argument && nodes[at].value == 0; };
  const auto zero = [&](scalar_ref at) { return is_zero(g, id, nodes[at]); };
  const scalar_node& last = nodes.back();
  if (last.op == scalar_op::maximum) return is_x(last.operands[0]) && zero(last.operands[1]);
  if (last.op != scalar_op::select) return false;
  const scalar_node& condition = nodes[last.operands[0]];
  if (condition.op == scalar_op::less_equal) {
    return is_x(condition.operands[0]) && zero(condition.operands[1]) && zero(last.operands[1]) &&
           is_x(last.operands[2]);
  }
  return use == mask_use::positive && condition.op == scalar_op::less && zero(condition.operands[0]) &&
         is_x(condition.operands[1]) && is_x(last.operands[1]) && zero(last.operands[2]);
}

inline class_id relu_of(const engine& g, class_id x, mask_use use) {
  for (enode_id parent : g[x].parents) {
    const class_id activation = g.find(g.node(parent).owner);
    // In a narrower dtype a small positive x would have become 0.
    if (is_relu(g, parent, use) && g.operand(parent, 0) == x && g[activation].type == g[x].type) return activation;
  }
  return no_id;
}

MEGANEURA_INLINE void relu_mask::apply(implementation_pass& pass, enode_id id) {
  engine& g = pass.graph();
  for (std::size_t i = 0; i < g.node(id).operand_count; ++i) {
    const mask_use use = only_masks(g, id, static_cast<double>(i));
    if (use == mask_use::none) continue;
    const class_id activation = relu_of(g, g.operand(id, i), use), owner = g.find(g.node(id).owner);
    if (activation == no_id || activation == owner) continue;
    class_list operands(g.operands(id).begin(), g.operands(id).end());
    operands[i] = activation;
    g.add_to(owner, op::map, g.attribute_of(id), operands, bit(rule));
    g.retire(id);  // x would seem to have one more consumer
    pass.note_applied(rule);
    return;
  }
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
