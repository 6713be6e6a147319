// SPDX-License-Identifier: MIT
// The rule that lets a backward mask read the stored activation.
#pragma once
#include <meganeura/egraph/lower.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::egraph {

namespace detail {

inline bool is_zero(const engine& g, enode_id id, const scalar_node& node) {
  if (node.op == scalar_op::constant) return node.value == 0;
  return node.op == scalar_op::argument && g[g.operand(id, static_cast<std::size_t>(node.value))].constant == 0.0;
}

// Argument `index` appears, and only on the right of 0 < .
inline bool only_masks(const engine& g, enode_id id, double index) {
  const std::vector<scalar_node>& nodes = g.get<map_attribute>(id).program.nodes;
  bool any = false;
  for (const scalar_node& node : nodes) {
    for (int k = 0; k < info(node.op).arity; ++k) {
      const scalar_node& operand = nodes[node.operands[k]];
      if (operand.op != scalar_op::argument || operand.value != index) continue;
      if (node.op != scalar_op::less || k != 1 || !is_zero(g, id, nodes[node.operands[0]])) return false;
      any = true;
    }
  }
  return any;
}

// maximum(x, 0), or 0 < x ? x : 0, of its first operand.
inline bool is_relu(const engine& g, enode_id id) {
  if (g.node(id).kind != op::map || g.node(id).dead) return false;
  const std::vector<scalar_node>& nodes = g.get<map_attribute>(id).program.nodes;
  const auto is_x = [](const scalar_node& node) { return node.op == scalar_op::argument && node.value == 0; };
  const scalar_node& last = nodes.back();
  if (last.op == scalar_op::maximum) return is_x(nodes[last.operands[0]]) && is_zero(g, id, nodes[last.operands[1]]);
  if (last.op != scalar_op::select) return false;
  const scalar_node& condition = nodes[last.operands[0]];
  return condition.op == scalar_op::less && is_zero(g, id, nodes[condition.operands[0]]) &&
         is_x(nodes[condition.operands[1]]) && is_x(nodes[last.operands[1]]) && is_zero(g, id, nodes[last.operands[2]]);
}

inline class_id relu_of(const engine& g, class_id x) {
  for (enode_id parent : g[x].parents) {
    const class_id activation = g.find(g.node(parent).owner);
    // In a narrower dtype a small positive x would have become 0.
    if (is_relu(g, parent) && g.operand(parent, 0) == x && g[activation].type == g[x].type) return activation;
  }
  return none;
}

MEGANEURA_INLINE void relu_mask::apply(lowering& pass, enode_id id) {
  engine& g = pass.graph();
  for (std::size_t i = 0; i < g.node(id).operand_count; ++i) {
    if (!only_masks(g, id, static_cast<double>(i))) continue;
    const class_id activation = relu_of(g, g.operand(id, i)), owner = g.find(g.node(id).owner);
    if (activation == none || activation == owner) continue;
    const attribute program = g.attribute_of(id);
    std::vector<class_id> operands(g.operands(id).begin(), g.operands(id).end());
    operands[i] = activation;
    g.add_to(owner, op::map, program, operands, bit(rule));
    g.retire(id);  // x would seem to have one more consumer
    pass.note_applied(rule);
    return;
  }
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
