// SPDX-License-Identifier: MIT
// The optimiser in its two halves: every way to compute a graph, and one of them for each value.
#pragma once
#include <meganeura/fusion/implement.hpp>
#include <meganeura/graph/graph.hpp>

#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

struct optimize_options;
struct optimize_report;

/// What a graph became before extraction: every way that was found to compute it.
struct saturated_graph {
  engine graph;
  std::vector<class_id> classes;  // of each node of the source
  std::vector<class_id> roots;    // outputs, then effects
  std::vector<class_id> order;    // classes the roots reach, operands before users
  std::vector<missed_fusion> missed;
  rule_mask enabled;          // the rules that were not left out
  std::vector<bool> folded;   // classes that depend on parameters and constants alone; empty: nothing is folded
  std::vector<bool> of_step;  // classes of which each step has its own: numbers that the host reads, what effects read

  /// Whether a node is computed when parameters change, and not in each step: where it reads nothing else, and each of
  /// its values may be kept.
  [[nodiscard]] bool is_folded(enode_id id) const;
  /// Of a step; of what is folded no launch, and little that tells ways to compute the same apart. Infinite for what
  /// would compute in each step what can be folded.
  [[nodiscard]] kernel_time time_in_step(enode_id id, const device_profile& device) const;

  [[nodiscard]] bool is_folded_class(class_id id) const {
    const class_id known = graph.find(id);
    return known < folded.size() && folded[known];
  }
  [[nodiscard]] bool is_of_step(class_id id) const {
    const class_id known = graph.find(id);
    return known < of_step.size() && of_step[known];
  }
};
[[nodiscard]] saturated_graph saturate(const graph& g, const optimize_options& options, optimize_report& report);

/// One way for each value; kernels with several results are added to `all` where they may be better.
[[nodiscard]] extraction choose(saturated_graph& all, const optimize_options& options);

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#include <meganeura/fusion/optimize.hpp>  // at the end: its bodies read the above
