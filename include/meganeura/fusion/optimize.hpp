// SPDX-License-Identifier: MIT
// The optimiser as one function: a graph of primitives in, the graph of kernels that computes it out.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/precision.hpp>
#include <meganeura/egraph/exactness.hpp>
#include <meganeura/fusion/region_limits.hpp>
#include <meganeura/graph/graph.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

class tuned_products;

/// Which rules may change a graph, and how far the search for the cheapest form goes. Without rules each primitive is a
/// kernel.
struct optimize_options {
  /// Names of rules left out, or of families of them: "algebra" (pattern rules), "fusion" (of pointwise and row
  /// kernels), "products" (what else a product's kernel computes), "epilogues", "attention", "splits" (of sums). A
  /// program adds those in $MEGANEURA_DISABLE, between commas.
  std::vector<std::string> disabled{};
  egraph::exactness tolerance = egraph::exactness::reassociates;  // rules that change more are left out
  // Limits of saturation in counts, so that a plan never depends on a clock. Reaching one ends it; what was found is
  // kept.
  std::size_t max_nodes = 0;    // e-nodes; 0: eight for each node of the source
  std::size_t max_matches = 0;  // of one rule in one iteration, then it rests for a while (doubling); 0: four a node
  int max_iterations = 8;       // of all rules over all that is new
  std::size_t max_steps = 0;    // nodes looked at and matches found; 0: 64 for each node of the source
  meganeura::precision precision = meganeura::precision::exact;  // of products; a program sets it
  bool matrix_units = true;  // products may be computed on them, where they are quicker and `tolerance` allows
                             // another order of sums
  std::optional<std::size_t> schedule{};  // for tests: every product that can has the schedule of this number, counted
                                          // round, of those for matrix units
  std::shared_ptr<const tuned_products> tuned{};  // measured schedules, see meganeura::tune; null: the model's alone
  region_limits region{};                         // of a fused kernel; a program lowers them to what its device binds
  std::size_t region_forms = 16;                  // fused kernels that are kept for one value
  int search_passes = 8;       // over all values, in search of a cheaper choice; 0: a greedy one, values one by one
  device_profile device{};     // what costs are of
  std::optional<bool> fold{};  // what depends on parameters and constants alone takes no time of a step, as in plans
                               // made with plan_options::fold
  bool explain = false;        // write optimize_report::explain
};

/// What kernels are chosen for: with matrix units where they may be used.
[[nodiscard]] inline device_profile device_of(const optimize_options& options) {
  device_profile on = options.device;
  const bool may = options.matrix_units && options.tolerance != egraph::exactness::exact;
  if (!may) on.matrix_units = matrix_units::none;
  return on;
}

struct rule_report {
  std::string name;
  std::size_t matches = 0, applied = 0;
  std::size_t kernels = 0;  // of the plan that it had a part in
};

struct optimize_report {
  std::size_t nodes_in = 0, nodes_out = 0, enodes = 0, classes = 0;
  std::size_t groups = 0;  // of kernels that run side by side
  std::size_t moved = 0;   // choices that were changed for the groups' sake
  int iterations = 0, repair_passes = 0;
  double saturate_ms = 0, implement_ms = 0, extract_ms = 0, total_ms = 0;
  double predicted_seconds = 0;
  std::vector<kernel_time> times;  // of each node of the result
  std::vector<rule_report> rules;
  std::vector<std::string> limits;  // each limit that was hit, as a sentence
  /// If asked for: of each kernel of the plan its time by the model, the operations of the source that it computes by
  /// module, what it reads (%7 is node 7 of the result), the rules that made it, the two next best ways to compute the
  /// same with what they would cost more, and the fusions that were refused with the reason.
  std::string explain;
};

/// Outputs and effects keep their names and order. Every node of the result is a leaf or one of region, matmul,
/// convolve, attention, result, an effect, or a primitive that runs as it is (op_info::runs: gather, random, ...). A
/// fused node has the path of what it mostly is: of the product in it, or else of the value it stores; not the prefix
/// that all its parts have in common, which for a layer's input and the normalisation behind it would name no layer.
/// Errors: invalid_argument for an unknown name of a rule or family, and when a disabled rule leaves a value without a
/// kernel.
[[nodiscard]] graph optimize(const graph& g, const optimize_options& options = {}, optimize_report* report = nullptr);

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/optimize.ipp>
#endif
