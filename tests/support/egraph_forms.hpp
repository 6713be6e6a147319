// SPDX-License-Identifier: MIT
// Everything that a saturated e-graph says to be equal, as nodes of one graph.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/egraph/extract.hpp>
#include <meganeura/graph/graph.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// A way to compute what `value` computes; `node` is no_id where it reads a class that nothing computes.
struct egraph_form {
  egraph::enode_id id;
  node_id node, value;
};

/// One value of each class, and over these values every other living e-node that is no effect.
class egraph_forms {
 public:
  graph nodes;
  std::vector<egraph_form> list;

  explicit egraph_forms(const egraph::engine& e) : e_(e), values_(e.class_slots(), no_id) {
    for (bool changed = true; changed;) {
      changed = false;
      for (egraph::enode_id id{0}; id < e.node_count(); ++id) {
        const egraph::class_id own = e.find(e.node(id).owner);
        if (values_[own] != no_id || is_effect(id)) continue;
        values_[own] = copy(id, values_);
        changed = changed || values_[own] != no_id;
      }
    }
    for (egraph::enode_id id{0}; id < e.node_count(); ++id) {
      if (e.node(id).dead || is_effect(id)) continue;
      const node_id value = values_[e.find(e.node(id).owner)], node = copy(id, values_);
      if (node == no_id || node != value) list.push_back({id, node, value});
    }
  }

  /// The value of a node's class as it is extracted where the node is the only one of its class that is quick, and what
  /// it reads is whatever `time` finds quick; no_id where it would wait for itself.
  node_id plan(egraph::enode_id forced, const egraph::node_time& time) {
    const egraph::class_id own = e_.find(e_.node(forced).owner);
    std::vector<egraph::class_id> order;
    std::vector<bool> seen(e_.class_slots());
    seen[own] = true;  // what it reads does without
    const auto visit = [&](const auto& self, egraph::class_id id) -> void {
      if (seen[id]) return;
      seen[id] = true;
      for (const egraph::enode_id node : e_[id].nodes) {
        for (const egraph::class_id operand : e_.operands(node)) self(self, e_.find(operand));
      }
      order.push_back(id);
    };
    for (const egraph::class_id operand : e_.operands(forced)) visit(visit, e_.find(operand));
    order.push_back(own);
    const auto time_of = [&](egraph::enode_id id) {
      if (id == forced) return kernel_time{};
      const bool is_sibling = e_.find(e_.node(id).owner) == own;
      return is_sibling ? kernel_time{std::numeric_limits<double>::infinity()} : time(id);
    };
    egraph::extraction taken;
    try {
      taken = egraph::extract({e_, order, std::vector{own}, time_of, {}});
    } catch (const error&) {
      return no_id;
    }
    std::vector<node_id> made(e_.class_slots(), no_id);
    for (const egraph::class_id id : taken.order) made[id] = copy(taken.chosen[id], made);
    return made[own];
  }

 private:
  [[nodiscard]] bool is_effect(egraph::enode_id id) const { return info(e_.node(id).kind).stage == op_stage::effect; }
  node_id copy(egraph::enode_id id, const std::vector<node_id>& values) {
    std::vector<node_id> operands;
    for (const egraph::class_id operand : e_.operands(id)) operands.push_back(values[e_.find(operand)]);
    if (std::ranges::find(operands, node_id(no_id)) != operands.end()) return no_id;
    const egraph::class_id own = e_.find(e_.node(id).owner);
    return nodes.add_node(e_.node(id).kind, e_.node(id).type, e_.extents(own), e_.attribute_of(id), operands);
  }

  const egraph::engine& e_;
  std::vector<node_id> values_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::support
