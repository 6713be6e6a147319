// SPDX-License-Identifier: MIT
// Everything that a saturated e-graph says to be equal, as nodes of one graph.
#pragma once
#include <meganeura/egraph/egraph.hpp>
#include <meganeura/graph/graph.hpp>

#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// A way to compute what `value` computes; `node` is no_id where it reads a class that nothing computes.
struct egraph_form {
  egraph::enode_id id;
  node_id node, value;
};

/// One value of each class, and over these values every other living e-node that is no effect.
struct egraph_forms {
  graph nodes;
  std::vector<egraph_form> list;

  explicit egraph_forms(const egraph::engine& e) {
    std::vector<node_id> values(e.class_slots(), no_id);
    const auto copy = [&](egraph::enode_id id) -> node_id {
      std::vector<node_id> operands;
      for (egraph::class_id operand : e.operands(id)) operands.push_back(values[e.find(operand)]);
      for (node_id operand : operands) {
        if (operand == no_id) return no_id;
      }
      const egraph::class_id own = e.find(e.node(id).owner);
      return nodes.add_node(e.node(id).kind, e.node(id).type, e.extents(own), e.attribute_of(id), operands);
    };
    const auto is_effect = [&](egraph::enode_id id) { return info(e.node(id).kind).stage == op_stage::effect; };
    for (bool changed = true; changed;) {
      changed = false;
      for (egraph::enode_id id{0}; id < e.node_count(); ++id) {
        const egraph::class_id own = e.find(e.node(id).owner);
        if (values[own] != no_id || is_effect(id)) continue;
        values[own] = copy(id);
        changed = changed || values[own] != no_id;
      }
    }
    for (egraph::enode_id id{0}; id < e.node_count(); ++id) {
      if (e.node(id).dead || is_effect(id)) continue;
      const node_id value = values[e.find(e.node(id).owner)], node = copy(id);
      if (node == no_id || node != value) list.push_back({id, node, value});
    }
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::support
