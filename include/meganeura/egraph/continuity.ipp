// SPDX-License-Identifier: MIT
// Definitions for egraph/continuity.hpp.
#pragma once
#include <meganeura/egraph/continuity.hpp>

#include <algorithm>
#include <cmath>

namespace meganeura::inline MEGANEURA_ABI::egraph {

namespace detail {

// Floats in, a jump somewhere in what comes out.
inline bool jumps(const scalar_program& program, const scalar_node& node) {
  if (info(node.op).arity == 0 || !is_float(program.nodes[node.operands[0]].type)) return false;
  if (asks_far_below(program, node)) return false;
  return info(node.op).is.jumps || (node.op == scalar_op::convert && !is_float(node.type));
}

// x < y ? x : y, in any order: at the jump both are the same.
inline bool picks_what_it_compares(const scalar_program& program, const scalar_node& select) {
  const scalar_node& condition = program.nodes[select.operands[0]];
  if (condition.op != scalar_op::less && condition.op != scalar_op::less_equal) return false;
  const scalar_ref *compared = condition.operands, *picked = select.operands + 1;
  return std::is_permutation(compared, compared + 2, picked);
}

}  // namespace detail

MEGANEURA_INLINE std::optional<scalar_ref> asks_far_below(const scalar_program& program,
                                                          const scalar_node& comparison) {
  if (comparison.op != scalar_op::less && comparison.op != scalar_op::less_equal) return {};
  const scalar_node& bound = program.nodes[comparison.operands[1]];
  const bool is_far = bound.op == scalar_op::constant && std::isfinite(bound.value) && bound.value <= far_below;
  return is_far ? std::optional(comparison.operands[0]) : std::nullopt;
}

MEGANEURA_INLINE program_flags deciding_nodes(const scalar_program& program) {
  const std::span<const scalar_node> nodes = program.nodes;
  program_flags deciding(nodes.size(), false);
  const auto jumps = [&](const scalar_node& node) { return detail::jumps(program, node); };
  if (std::none_of(nodes.begin(), nodes.end(), jumps)) return deciding;
  program_flags harmless(nodes.size(), true);
  for (std::size_t i = nodes.size(); i-- > 0;) {  // users before operands
    const bool result_of_program = i + 1 == nodes.size();
    const bool jump = jumps(nodes[i]) && (result_of_program || !harmless[i]);
    for (int k = 0; k < info(nodes[i].op).arity; ++k) {
      const scalar_ref operand = nodes[i].operands[k];
      const bool picked =
          k == 0 && nodes[i].op == scalar_op::select && detail::picks_what_it_compares(program, nodes[i]);
      if (!picked) harmless[operand] = false;
      if (jump || deciding[i]) deciding[operand] = true;
    }
  }
  return deciding;
}

MEGANEURA_INLINE program_flags deciding_arguments(const scalar_program& program) {
  const program_flags nodes = deciding_nodes(program);
  program_flags result(static_cast<std::size_t>(program.arguments()), false);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (program.nodes[i].op != scalar_op::argument || !is_float(program.nodes[i].type)) continue;
    if (nodes[i]) result[static_cast<std::size_t>(program.nodes[i].value)] = true;
  }
  return result;
}

MEGANEURA_INLINE stability trace_unstable(const scalar_program& program, std::span<const bool> unstable) {
  const std::span<const scalar_node> nodes = program.nodes;
  const auto starts = [&](const scalar_node& node) {
    if (node.op != scalar_op::argument)
      return (node.op == scalar_op::row_sum || node.op == scalar_op::row_product) && is_float(node.type);
    const auto index = static_cast<std::size_t>(node.value);
    return index < unstable.size() && unstable[index];
  };
  const auto first = static_cast<std::size_t>(std::ranges::find_if(nodes, starts) - nodes.begin());
  if (first == nodes.size()) return {};
  program_flags moves(nodes.size(), false);
  for (std::size_t i = first; i < nodes.size(); ++i) {
    bool found = starts(nodes[i]);
    for (int k = 0; k < info(nodes[i].op).arity; ++k) found = found || moves[nodes[i].operands[k]];
    moves[i] = found;
  }
  stability found;
  found.result = moves.back();
  if (std::ranges::none_of(nodes, [&](const scalar_node& node) { return detail::jumps(program, node); })) return found;
  const program_flags deciding = deciding_nodes(program);
  for (std::size_t i = first; i < moves.size(); ++i) found.decision = found.decision || (moves[i] && deciding[i]);
  return found;
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
