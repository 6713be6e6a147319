// SPDX-License-Identifier: MIT
// What of egraph/egraph.hpp needs to know of each kind of node.
#pragma once
#include <meganeura/egraph/node_analysis.hpp>
#include <meganeura/graph/visit_op.hpp>

namespace meganeura::inline MEGANEURA_ABI::egraph {

MEGANEURA_INLINE void engine::analyse(enode_id id) {
  const enode& node = nodes_[id];
  const class_id owner = find(node.owner);
  eclass& self = classes_[owner];
  std::optional<double> constant =
      visit_op(node.kind, [&]<op Kind> { return detail::node_analysis<Kind>::constant(*this, id); });
  if (constant) constant = rounded_to(*constant, node.type);  // as it would be stored
  if (!constant || self.constant) return;
  self.constant = constant;
  if (!self.parents.empty()) {
    unions_.push_back(owner);  // its parents may know more now
    changed_.push_back(owner);
  }
}

// What the node's result decides its operands decide, a discontinuous function decides by its own operands, and what is
// assigned to a state decides what the state does.
MEGANEURA_INLINE class_list engine::deciding_operands(enode_id id) const {
  if (classes_[find(nodes_[id].owner)].decides) return canonical(operands(id));
  return visit_op(nodes_[id].kind, [&]<op Kind> { return detail::node_analysis<Kind>::deciding(*this, id); });
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
