// SPDX-License-Identifier: MIT
// The sweep of reverse mode: which nodes need an adjoint, and adding them up.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/graph/visit_op.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

class gradient_sweep {
 public:
  gradient_sweep(graph& g, std::span<const node_id> outputs, std::span<const node_id> wrt)
      : graph_(g), active_(g.size(), false), arrived_(g.size()), adjoints_(g.size(), no_id) {
    for (node_id target : wrt) active_[target] = true;
    for (node_id id{0}; id < active_.size(); ++id) {
      for (std::size_t i = 0; !active_[id] && i < g.operands(id).size(); ++i) {
        active_[id] = active_[g.operand(id, i)] && passes_gradient(g, id, i);
      }
    }
    std::vector<bool> reaches(g.size(), false);
    for (node_id output : outputs) reaches[output] = true;
    for (std::size_t at = active_.size(); at-- > 0;) {
      const auto id = static_cast<node_id>(at);
      active_[id] = active_[id] && reaches[id];
      for (std::size_t i = 0; active_[id] && i < g.operands(id).size(); ++i) {
        if (passes_gradient(g, id, i)) reaches[g.operand(id, i)] = true;
      }
    }
  }

  void add(node_id target, node_id gradient) {
    if (active_[target]) arrived_[target].push_back(gradient);
  }

  void run() {
    for (std::size_t at = active_.size(); at-- > 0;) {
      const auto id = static_cast<node_id>(at);
      if (!active_[id] || arrived_[id].empty()) continue;
      const graph::scope in(graph_, path_pool::backward(graph_[id].path));
      for (node_id each : joined(arrived_[id])) adjoints_[id] = sum(adjoints_[id], each);
      propagate(id, adjoints_[id]);
    }
  }

  /// See gradient_stop.
  [[nodiscard]] static node_id stop(const graph& g, node_id loss, std::span<const node_id> wrt);

  /// no_id where no gradient arrived.
  [[nodiscard]] node_id result(node_id target) const { return adjoints_[target]; }

  // What the rules are written with.
  [[nodiscard]] graph& nodes() { return graph_; }
  [[nodiscard]] bool is_active(node_id id) const { return active_[id]; }
  [[nodiscard]] bool wants(node_id id, std::size_t index) const {
    return active_[graph_.operand(id, index)] && passes_gradient(graph_, id, index);
  }

 private:
  // Can the result change smoothly with operand `index`?
  [[nodiscard]] static bool passes_gradient(const graph& g, node_id id, std::size_t index);
  void propagate(node_id id, node_id g);
  // What is scattered into zeros is added into the other term instead: rows of a table, not a second table.
  [[nodiscard]] node_id sum(node_id first, node_id second) {
    if (first == no_id) return second;
    if (graph_[second].kind != op::scatter_add) std::swap(first, second);
    if (graph_[second].kind != op::scatter_add) return graph_.add(second, first);
    const node_id indices = graph_.operand(second, 0), updates = graph_.operand(second, 1);
    return graph_.apply(op::index_add, graph_.get<axis_attribute>(second), {first, indices, updates});
  }
  /// The terms of a sum, of which those that lie in places of their own along an axis, with zeros around them, are one:
  /// n slices of a sequence give n parts of its gradient, and not n whole ones.
  [[nodiscard]] small_vector<node_id, 2> joined(std::span<const node_id> terms);

  graph& graph_;
  std::vector<bool> active_;                       // of the nodes before the sweep: on a path from a wrt to an output
  std::vector<small_vector<node_id, 2>> arrived_;  // from each user
  std::vector<node_id> adjoints_;
};

/// What a rule adds to and asks of the sweep. Rules copy what they need of a node first: building nodes moves the
/// graph's tables.
class gradient_step {
 public:
  explicit gradient_step(gradient_sweep& sweep) : graph_(sweep.nodes()), sweep_(sweep) {}
  /// Can the result change smoothly with operand `index`, if both are floats?
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t) { return true; }

 protected:
  void add(node_id target, node_id gradient) { sweep_.add(target, gradient); }
  [[nodiscard]] bool is_active(node_id id) const { return sweep_.is_active(id); }
  [[nodiscard]] bool wants(node_id id, std::size_t index) const { return sweep_.wants(id, index); }
  [[nodiscard]] shape extents(node_id id) const { return graph_[id].extents; }

  graph& graph_;

 private:
  gradient_sweep& sweep_;
};

/// How `g`, the adjoint of node `id`, reaches the operands: one specialisation for each primitive that has operands.
template <op Kind>
struct gradient_rule;
template <op Kind>
  requires(info(Kind).arity == 0)
struct gradient_rule<Kind> : gradient_step {
  using gradient_step::gradient_step;
  void propagate(node_id, node_id) {}
};
template <op Kind>
  requires(info(Kind).stage == op_stage::effect || info(Kind).stage == op_stage::implementation ||
           info(Kind).stage == op_stage::projection)
struct gradient_rule<Kind> : gradient_step {
  using gradient_step::gradient_step;
  void propagate(node_id, node_id) {
    fail(error_category::unsupported, "gradients: {} has no rule; differentiate before choosing implementations",
         to_string(Kind));
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::detail
