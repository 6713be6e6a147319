// SPDX-License-Identifier: MIT
// What extraction chooses, against every choice there is, and as groups of kernels that run side by side.
#include <meganeura/fusion/cost.hpp>
#include <meganeura/fusion/saturated_graph.hpp>
#include <meganeura/plan/plan.hpp>

#include <support/egraph_sample_graphs.hpp>
#include <support/random_program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::samples;
using egraph::class_id;
using egraph::enode_id;

/// Every choice of a node for each class that the roots need.
class all_choices {
 public:
  all_choices(const fusion::saturated_graph& all, const device_profile& device)
      : e_(all.graph), roots_(all.roots), device_(device) {}

  /// Seconds of the quickest; nothing where there are more than `most`.
  std::optional<double> quickest(std::size_t most) {
    left_ = most, least_ = std::numeric_limits<double>::infinity();
    std::vector<class_id> needed;
    for (class_id root : roots_) needed.push_back(e_.find(root));
    choose(needed);
    return left_ == 0 ? std::nullopt : std::optional(least_);
  }

  /// Of one choice, by its definition; infinite where a kernel waits for itself.
  double seconds(const std::map<class_id, enode_id>& chosen) const {
    std::map<class_id, int> levels;
    std::vector<class_id> open;
    bool cyclic = false;
    const auto level = [&](const auto& self, class_id id) -> int {
      if (const auto known = levels.find(id); known != levels.end()) return known->second;
      if (std::ranges::find(open, id) != open.end()) return cyclic = true, 0;
      open.push_back(id);
      int last = 0;
      for (class_id operand : e_.operands(chosen.at(id))) last = std::max(last, self(self, e_.find(operand)));
      open.pop_back();
      return levels[id] = last + launches(chosen.at(id));
    };
    std::map<int, std::vector<enode_id>> groups;
    for (const auto& [id, node] : chosen) {
      const int group = level(level, id);
      if (launches(node)) groups[group].push_back(node);
    }
    double total = 0;
    for (const auto& [unused, nodes] : groups) {
      double longest = 0, busy = 0, idle = std::numeric_limits<double>::infinity();
      std::vector<double> alone;
      for (enode_id node : nodes) {
        const kernel_time time = fusion::node_time(e_, node, device_);
        alone.push_back(time.alone), busy += time.busy, idle = std::min(idle, time.alone - time.busy);
      }
      std::ranges::sort(alone, std::greater<>());
      for (std::size_t i = 0; i < alone.size(); ++i)  // each begins half a launch behind the one before
        longest = std::max(longest, alone[i] + static_cast<double>(i) * device_.launch.group / 2);
      total += device_.launch.group + static_cast<double>(nodes.size()) * device_.launch.dispatch;
      total += std::max(longest, busy + idle);
    }
    return cyclic ? std::numeric_limits<double>::infinity() : total;
  }

 private:
  bool launches(enode_id node) const {
    const op_stage stage = info(e_.node(node).kind).stage;
    return stage != op_stage::leaf && stage != op_stage::projection;
  }

  void choose(std::vector<class_id> needed) {
    while (!needed.empty() && chosen_.contains(needed.back())) needed.pop_back();
    if (left_ == 0) return;
    if (needed.empty()) {
      --left_;
      least_ = std::min(least_, seconds(chosen_));
      return;
    }
    const class_id id = needed.back();
    for (enode_id node : e_[id].nodes) {
      if (e_.node(node).dead || std::isinf(fusion::node_time(e_, node, device_).alone)) continue;
      std::vector<class_id> more = needed;
      for (class_id operand : e_.operands(node)) more.push_back(e_.find(operand));
      chosen_[id] = node;
      choose(std::move(more));
      chosen_.erase(id);
    }
  }

  const fusion::engine& e_;
  std::vector<class_id> roots_;
  device_profile device_;
  std::map<class_id, enode_id> chosen_;
  double least_ = 0;
  std::size_t left_ = 0;
};

TEST(egraph_extract, is_hardly_ever_slower_than_the_best_of_all_choices) {
  int graphs = 0, best = 0;
  double worst = 1;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const auto s = support::make_sample(seed, 7);
    if (!s) continue;
    fusion::optimize_report report;
    fusion::saturated_graph all = fusion::saturate(s->source, s->optimize, report);
    const egraph::extraction taken = fusion::choose(all, s->optimize);
    all_choices choices(all, s->optimize.device);
    std::map<class_id, enode_id> chosen;
    for (class_id id : taken.order) chosen[id] = taken.chosen[id];
    const double seconds = choices.seconds(chosen);
    EXPECT_NEAR(taken.seconds, seconds, 1e-9 * seconds) << "seed " << seed;
    const auto quickest = choices.quickest(3000);
    if (!quickest) continue;
    ++graphs;
    EXPECT_GE(seconds, *quickest * (1 - 1e-9)) << "seed " << seed;
    best += seconds <= *quickest * 1.001;
    worst = std::max(worst, seconds / *quickest);
  }
  std::printf("%d of %d graphs have the quickest choice, the worst is %.2f times as slow\n", best, graphs, worst);
  EXPECT_GE(graphs, 150);
  EXPECT_GE(best, 0.96 * graphs);
}

// Each other way to compute a value costs what the plan with it costs more, if it needs nothing that is not computed.
TEST(egraph_extract, other_ways_cost_what_a_plan_with_them_does) {
  std::size_t compared = 0, cheaper = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto s = support::make_sample(seed, 12);
    if (!s) continue;
    fusion::optimize_report report;
    fusion::saturated_graph all = fusion::saturate(s->source, s->optimize, report);
    const egraph::extraction taken = fusion::choose(all, s->optimize);
    const all_choices choices(all, s->optimize.device);
    const auto time = [&](enode_id id) { return fusion::node_time(all.graph, id, s->optimize.device); };
    for (const egraph::alternative& each :
         egraph::compare(all.graph, all.order, all.roots, taken, time, s->optimize.device.launch)) {
      EXPECT_NE(taken.chosen[each.value], each.node);
      std::map<class_id, enode_id> chosen;
      bool is_all_chosen = true;
      std::vector<class_id> needed(all.roots);
      while (!needed.empty()) {
        const class_id id = all.graph.find(needed.back());
        needed.pop_back();
        const enode_id node = id == each.value ? each.node : taken.chosen[id];
        is_all_chosen = is_all_chosen && node != no_id;
        if (!is_all_chosen || !chosen.emplace(id, node).second) continue;
        for (class_id operand : all.graph.operands(node)) needed.push_back(operand);
      }
      if (!is_all_chosen) continue;
      ++compared;
      cheaper += each.seconds < -1e-12;
      const double seconds = choices.seconds(chosen);
      EXPECT_NEAR(taken.seconds + each.seconds, seconds, 1e-9 * seconds) << "seed " << seed;
    }
  }
  std::printf("%zu other ways compared, %zu would be quicker\n", compared, cheaper);
  EXPECT_GE(compared, 500u);
  EXPECT_LE(cheaper, compared / 50);
}

// silu(x gate) * (x up)
graph gated_unit() {
  graph g;
  const node_id x = g.input("x", dtype::f32, {128, 576});
  const auto side = [&](const char* name) {
    return g.contract(x, g.parameter(name, dtype::f32, {1536, 576}), "mk", "nk", "mn");
  };
  const node_id gate = side("gate");
  const node_id silu =
      g.divide(gate, g.add(g.expand(g.constant(1), {128, 1536}), exp(g, g.map(scalar_op::negate, {gate}))));
  g.add_output("y", g.multiply(silu, side("up")));
  return g;
}

TEST(egraph_extract, products_of_one_operand_run_side_by_side_where_the_device_has_room) {
  const graph g = gated_unit();
  fusion::optimize_options options;
  options.device.matrix_units = matrix_units::cooperative;
  options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024;
  const auto kernels = [&](std::size_t groups) {
    fusion::optimize_report report;
    graph chosen = fusion::optimize(g, options, &report);
    const int count = kernel_count(chosen);
    const plan::layout parameters = plan::make_layout(chosen);
    EXPECT_EQ(plan::make_plan(std::move(chosen), parameters).groups, groups);
    EXPECT_EQ(report.groups, groups);
    return count;
  };
  EXPECT_EQ(kernels(1), 1);  // as one
  options.disabled = {"matmul_pair"};
  EXPECT_EQ(kernels(2), 3);  // both products, and then what is made of them
  options.device = {.parallel = false, .launch = {.dispatch = 15e-6}};
  EXPECT_EQ(kernels(2), 2);  // one after the other: the second product ends with the rest
}

}  // namespace
