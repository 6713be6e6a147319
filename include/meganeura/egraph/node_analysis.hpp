// SPDX-License-Identifier: MIT
// What each kind of node tells the e-graph of its value: a constant, and the operands it decides something by.
#pragma once
#include <meganeura/egraph/continuity.hpp>
#include <meganeura/egraph/egraph.hpp>

#include <cstddef>
#include <optional>

namespace meganeura::inline MEGANEURA_ABI::egraph::detail {

/// `constant`: the value of every element, as far as those of the operands tell it. `deciding`: operands on which a
/// comparison or a choice in the node depends.
template <op Kind>
struct node_analysis {
  static std::optional<double> constant(const engine&, enode_id) { return {}; }
  static class_list deciding(const engine&, enode_id) { return {}; }
};
using no_analysis = node_analysis<op::input>;

template <>
struct node_analysis<op::constant> : no_analysis {
  static std::optional<double> constant(const engine& g, enode_id id) { return g.get<constant_attribute>(id).value; }
};

template <>
struct node_analysis<op::view> : no_analysis {
  static std::optional<double> constant(const engine& g, enode_id id) { return g[g.operand(id, 0)].constant; }
};

template <>
struct node_analysis<op::reduce> {
  static std::optional<double> constant(const engine& g, enode_id id) {
    const class_id from = g.operand(id, 0);
    const reduce_kind kind = g.get<reduce_attribute>(id).kind;
    if (!g[from].constant) return {};
    if (kind == reduce_kind::max || kind == reduce_kind::min) return g[from].constant;
    if (kind != reduce_kind::sum) return {};
    const std::int64_t results = g.extents(g.find(g.node(id).owner)).elements();
    const auto terms = static_cast<double>(g.extents(from).elements() / results);
    return meganeura::evaluate(scalar_op::multiply, *g[from].constant, terms, 0, g.node(id).type);
  }
  static class_list deciding(const engine& g, enode_id id) {
    const class_id from = g.operand(id, 0);
    if (!is_arg(g.get<reduce_attribute>(id).kind) || !is_float(g[from].type)) return {};
    return {from};  // which of its elements is the largest
  }
};

template <>
struct node_analysis<op::map> {
  static std::optional<double> constant(const engine& g, enode_id id) {
    small_vector<double, 8> values;
    for (std::size_t i = 0; i < g.node(id).operand_count; ++i) {
      const std::optional<double>& value = g[g.operand(id, i)].constant;
      if (!value) return {};
      values.push_back(*value);
    }
    return evaluate(g.get<map_attribute>(id).program, values);
  }
  static class_list deciding(const engine& g, enode_id id) {
    const program_flags decides = deciding_arguments(g.get<map_attribute>(id).program);
    class_list found;
    for (std::size_t i = 0; i < g.node(id).operand_count && i < decides.size(); ++i) {
      if (decides[i]) found.push_back(g.operand(id, i));
    }
    return found;
  }
};

template <>
struct node_analysis<op::window_scatter> : no_analysis {
  static class_list deciding(const engine& g, enode_id id) {
    if (g.get<window_attribute>(id).kind != reduce_kind::max) return {};
    return {g.operand(id, 0)};  // where the maximum is
  }
};

template <>
struct node_analysis<op::cumulative> : no_analysis {
  static class_list deciding(const engine& g, enode_id id) {
    const class_id from = g.operand(id, 0);
    if (!is_arg(g.get<cumulative_attribute>(id).kind) || !is_float(g[from].type)) return {};
    return {from};
  }
};

template <>
struct node_analysis<op::argsort> : no_analysis {
  static class_list deciding(const engine& g, enode_id id) {
    const class_id from = g.operand(id, 0);
    if (!is_float(g[from].type)) return {};
    return {from};
  }
};

template <>
struct node_analysis<op::assign> : no_analysis {
  static class_list deciding(const engine& g, enode_id id) {
    if (!g[g.operand(id, 0)].decides) return {};
    return {g.operand(id, 1)};  // the next step decides by what is stored
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::egraph::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/egraph/node_analysis.ipp>
#endif
