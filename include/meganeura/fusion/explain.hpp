// SPDX-License-Identifier: MIT
// A plan in words: what each kernel computes of the source, what made it, and what was not chosen.
#pragma once
#include <meganeura/fusion/engine.hpp>
#include <meganeura/graph/graph.hpp>

#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

struct optimize_options;
struct rule_report;
struct saturated_graph;

/// `made`: the node of the plan's graph for each class. `rules`: by their bit.
[[nodiscard]] std::string explain(const graph& source, const saturated_graph& all, const extraction& plan,
                                  const graph& chosen, std::span<const node_id> made, const optimize_options& options,
                                  std::span<const rule_report> rules);

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/explain.ipp>
#endif
