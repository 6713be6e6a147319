// SPDX-License-Identifier: MIT
// Definitions for graph/graph.hpp: what a step overwrites, and by which rule.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/graph/graph.hpp>

#include <cstddef>
#include <unordered_map>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// Pairs; a number that scales gradients stands behind them.
inline small_vector<update, 8> updates_in(std::span<const node_id> operands) {
  small_vector<update, 8> all;
  for (std::size_t i = 0; i + 1 < operands.size(); i += 2) all.push_back({operands[i], operands[i + 1]});
  return all;
}

}  // namespace detail

MEGANEURA_INLINE small_vector<update, 8> graph::updates(node_id effect) const {
  return detail::updates_in(operands(effect));
}

MEGANEURA_INLINE void graph::expect_unwritten(std::span<const node_id> operands) const {
  for (const update& each : detail::updates_in(operands)) {
    const auto found = writers_.find(each.target);
    if (found == writers_.end()) continue;
    fail(error_category::invalid_argument,
         "{} \"{}\" is written by %{} already, and a step writes it once; combine the two",
         to_string(nodes_[each.target].kind), get<leaf_attribute>(each.target).name, found->second);
  }
}

MEGANEURA_INLINE node_id graph::assign(node_id state, node_id value) {
  expect_values("assign", {state, value});
  if (nodes_[state].kind != op::state || nodes_[state].extents != nodes_[value].extents ||
      nodes_[state].type != nodes_[value].type) {
    fail(error_category::invalid_argument,
         "assign {} {} {}: the target must be a state of the value's dtype and shape {} {}",
         to_string(nodes_[state].kind), to_string(nodes_[state].type), to_string(nodes_[state].extents),
         to_string(nodes_[value].type), to_string(nodes_[value].extents));
  }
  const node_id operands[] = {state, value};
  return add_node(op::assign, nodes_[state].type, {}, no_attribute{}, operands);
}

namespace detail {

inline void check_rule(const optimizer_attribute& rule) {
  check_program(rule.program);
  const std::size_t results = rule.moments.size() + 1, tensors = results + 1;
  if (rule.results.size() != results) {
    fail(error_category::invalid_argument,
         "optimizer_step: {} keeps {} moments and its program makes {} values; it has to make the new parameter and "
         "each new moment",
         rule.name, rule.moments.size(), rule.results.size());
  }
  const std::span<const scalar_node> nodes = rule.program.nodes;
  for (scalar_ref result : rule.results) {
    if (result < nodes.size() && nodes[result].type == dtype::f32) continue;
    fail(error_category::invalid_argument, "optimizer_step: {} names node {} of its program, which is no f32 value",
         rule.name, result);
  }
  for (const scalar_node& node : nodes) {
    if (is_row_reduction(node.op)) {
      fail(error_category::invalid_argument, "optimizer_step: {} has a {}; its program sees one element at a time",
           rule.name, info(node.op).name);
    }
    if (node.op != scalar_op::argument) continue;
    if (node.type == dtype::f32 && node.value < static_cast<double>(tensors + max_optimizer_numbers)) continue;
    fail(error_category::invalid_argument,
         "optimizer_step: {} reads argument {} as {}; there are parameter, gradient, {} moments and {} numbers of the "
         "step, all f32",
         rule.name, node.value, to_string(node.type), rule.moments.size(), max_optimizer_numbers);
  }
}

}  // namespace detail

MEGANEURA_INLINE node_id graph::optimizer_step(const optimizer_attribute& rule,
                                               std::span<const node_id> parameters_and_gradients, node_id scale) {
  expect_values("optimizer_step", parameters_and_gradients);
  if (parameters_and_gradients.empty()) {
    fail(error_category::invalid_argument,
         "optimizer_step: there is nothing to update; give pairs of a parameter and its gradient");
  }
  if (parameters_and_gradients.size() % 2 != 0) {
    fail(error_category::invalid_argument,
         "optimizer_step: operands must be pairs of a parameter and its gradient; found {}",
         parameters_and_gradients.size());
  }
  for (std::size_t i = 0; i < parameters_and_gradients.size(); i += 2) {
    const node &parameter = nodes_[parameters_and_gradients[i]], &gradient = nodes_[parameters_and_gradients[i + 1]];
    if (parameter.kind == op::parameter && parameter.extents == gradient.extents && parameter.type == dtype::f32 &&
        gradient.type == dtype::f32) {
      continue;
    }
    fail(error_category::invalid_argument, "optimizer_step: operand {} must be an f32 parameter and {} its gradient", i,
         i + 1);
  }
  std::unordered_map<node_id, std::size_t> places;
  for (std::size_t i = 0; i < parameters_and_gradients.size(); i += 2) {
    const auto [first, fresh] = places.emplace(parameters_and_gradients[i], i);
    if (fresh) continue;
    fail(error_category::invalid_argument,
         "optimizer_step: operands {} and {} are one parameter, \"{}\"; add its gradients", first->second, i,
         get<leaf_attribute>(first->first).name);
  }
  detail::check_rule(rule);
  small_vector<node_id, 8> operands(parameters_and_gradients.begin(), parameters_and_gradients.end());
  if (scale != no_id) {
    expect_values("optimizer_step", {scale});
    if (nodes_[scale].type != dtype::f32 || nodes_[scale].extents.rank() != 0) {
      fail(error_category::invalid_argument,
           "optimizer_step: gradients are scaled by {} {}; it must be one f32 number: reduce it to one, and cast it",
           to_string(nodes_[scale].type), to_string(nodes_[scale].extents));
    }
    operands.push_back(scale);
  }
  return add_node(op::optimizer_step, dtype::f32, {}, rule, operands);
}

MEGANEURA_INLINE node_id graph::gradient_scale(node_id effect) const {
  const auto all = operands(effect);
  return all.size() % 2 == 0 ? no_id : all[all.size() - 1];
}

MEGANEURA_INLINE void graph::drop_effects() {
  effects_.clear();
  writers_.clear();
}

// An effect that drop_effects took away: it stays a node, which no new one is equal to.
MEGANEURA_INLINE bool graph::is_dropped(node_id id) const {
  if (info(nodes_[id].kind).stage != op_stage::effect) return false;
  const auto found = writers_.find(operands(id)[0]);
  return found == writers_.end() || found->second != id;
}

}  // namespace meganeura::inline MEGANEURA_ABI
