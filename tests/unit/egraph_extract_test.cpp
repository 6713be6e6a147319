// SPDX-License-Identifier: MIT
// What extraction chooses, against every choice there is, and as groups of kernels that run side by side.
#include <meganeura/fusion/cost.hpp>
#include <meganeura/fusion/saturated_graph.hpp>
#include <meganeura/plan/plan.hpp>

#include <oracle/interpreter.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/exact_choice.hpp>
#include <support/random_program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::samples;
using egraph::class_id;
using egraph::enode_id;

using support::exact_choice;

struct chosen_graph {
  fusion::saturated_graph all;
  egraph::extraction taken;
  exact_choice choices;

  chosen_graph(const graph& source, const fusion::optimize_options& options)
      : all(saturated(source, options)),
        taken(fusion::choose(all, options)),
        choices(
            all.graph, all.roots, [&](enode_id id) { return fusion::node_time(all.graph, id, options.device); },
            options.device.launch) {}

 private:
  static fusion::saturated_graph saturated(const graph& source, const fusion::optimize_options& options) {
    fusion::optimize_report report;
    return fusion::saturate(source, options, report);
  }
};

/// The least of every choice there is; nothing where there are more than `most`.
std::optional<double> least_of_all(const chosen_graph& g, std::size_t most) {
  const egraph::engine& e = g.all.graph;
  egraph::extraction made;
  made.chosen.assign(e.class_slots(), no_id);
  double least = std::numeric_limits<double>::infinity();
  const auto choose = [&](const auto& self, std::vector<class_id> needed) -> void {
    while (!needed.empty() && made.chosen[needed.back()] != no_id) needed.pop_back();
    if (most == 0) return;
    if (needed.empty()) {
      --most;
      least = std::min(least, g.choices.seconds(made));
      return;
    }
    const class_id id = needed.back();
    for (enode_id node : e[id].nodes) {
      if (e.node(node).dead || !g.choices.has(node)) continue;
      std::vector<class_id> more = needed;
      for (class_id operand : e.operands(node)) more.push_back(e.find(operand));
      made.chosen[id] = node, made.order.push_back(id);
      self(self, std::move(more));
      made.chosen[id] = no_id, made.order.pop_back();
    }
  };
  std::vector<class_id> roots;
  for (class_id root : g.all.roots) roots.push_back(e.find(root));
  choose(choose, roots);
  return most == 0 ? std::nullopt : std::optional(least);
}

TEST(egraph_extract, branch_and_bound_finds_the_least_of_all_choices) {
  int graphs = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const auto s = support::make_sample(seed, 9);
    if (!s) continue;
    chosen_graph g(s->source, s->optimize);
    const auto least = least_of_all(g, 400);
    if (!least) continue;
    ++graphs;
    for (const double known : {std::numeric_limits<double>::infinity(), g.taken.seconds}) {
      const exact_choice::answer found = exact_choice(g.choices).quickest(known, 100000);
      EXPECT_TRUE(found.is_proven) << "seed " << seed;
      EXPECT_NEAR(found.seconds, *least, 2e-9 * *least) << "seed " << seed;
    }
  }
  EXPECT_GE(graphs, 70);
}

/// How extraction compares with the quickest choices, where these are proven.
struct comparison {
  std::size_t visits = 1000;  // partial choices to look at for the quickest
  int graphs = 0, proven = 0, best = 0;
  double worst = 1;

  void add(const std::string& name, const graph& source, const fusion::optimize_options& options) {
    SCOPED_TRACE(name);
    chosen_graph g(source, options);
    ASSERT_TRUE(g.choices.is_small());
    const double seconds = g.choices.seconds(g.taken);
    EXPECT_NEAR(g.taken.seconds, seconds, 1e-9 * seconds);
    const exact_choice::answer found = g.choices.quickest(seconds, visits);
    ++graphs;
    proven += found.is_proven;
    best += found.is_proven && seconds <= found.seconds * 1.001;
    worst = std::max(worst, seconds / found.seconds);
    if (seconds > found.seconds * 1.02)
      std::printf("  %s: %.3f times as long as the best that was found\n", name.c_str(), seconds / found.seconds);
  }
  void print(const char* name) const {
    std::printf("%s: %d of %d have a proven choice, %d this one; the worst takes %.3f times as long\n", name, proven,
                graphs, best, worst);
  }
};

TEST(egraph_extract, is_hardly_ever_slower_than_the_best_of_all_choices) {
  const struct {
    int steps;
    std::uint64_t seeds;
    double proven, best, worst;  // parts of all graphs and of those that are proven; times as long
  } sizes[] = {
      {7, 300, 0.98, 0.97, 1.22}, {12, 80, 0.95, 0.95, 1.1}, {18, 80, 0.85, 0.94, 1.18}, {24, 40, 0.7, 0.85, 1.15}};
  for (const auto& size : sizes) {
    comparison all{.visits = 4000};
    for (std::uint64_t seed = 1; seed <= size.seeds; ++seed) {
      const auto s = support::make_sample(seed, size.steps);
      if (s) all.add("seed " + std::to_string(seed), s->source, s->optimize);
    }
    all.print((std::to_string(size.steps) + " steps").c_str());
    EXPECT_GE(all.proven, size.proven * all.graphs);
    EXPECT_GE(all.best, size.best * all.proven);
    EXPECT_LE(all.worst, size.worst);
  }
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
    const auto time = [&](enode_id id) { return fusion::node_time(all.graph, id, s->optimize.device); };
    const support::exact_choice choices(all.graph, all.roots, time, s->optimize.device.launch);
    if (!choices.is_small()) continue;
    for (const egraph::alternative& each :
         egraph::compare({all.graph, all.order, all.roots, time, s->optimize.device.launch}, taken)) {
      EXPECT_NE(taken.chosen[each.value], each.node);
      egraph::extraction with;
      with.chosen.assign(all.graph.class_slots(), no_id);
      bool is_all_chosen = true;
      std::vector<class_id> needed(all.roots);
      while (!needed.empty()) {
        const class_id id = all.graph.find(needed.back());
        needed.pop_back();
        const enode_id node = id == each.value ? each.node : taken.chosen[id];
        is_all_chosen = is_all_chosen && node != no_id;
        if (!is_all_chosen || with.chosen[id] != no_id) continue;
        with.chosen[id] = node;
        with.order.push_back(id);
        for (class_id operand : all.graph.operands(node)) needed.push_back(operand);
      }
      if (!is_all_chosen) continue;
      ++compared;
      cheaper += each.seconds < -1e-12;
      const double seconds = choices.seconds(with);
      EXPECT_NEAR(taken.seconds + each.seconds, seconds, 1e-9 * seconds) << "seed " << seed;
    }
  }
  std::printf("%zu other ways compared, %zu would be quicker\n", compared, cheaper);
  EXPECT_GE(compared, 500u);
  EXPECT_LE(cheaper, compared / 50);
}

TEST(egraph_extract, sample_graphs_are_close_to_the_best_of_all_choices) {
  comparison all;
  for (const fusion::optimize_options& options : {fusion::optimize_options(), on_units()}) {
    for (const named_graph& each : sample_graphs()) all.add(each.name, each.source, options);
    all.add("large mlp training", mlp_training(64, 784, 128, 10), options);
    all.add("large gated unit", gated_unit(128, 576, 1536, false), options);
    all.add("large gated unit, trained", gated_unit(128, 576, 1536, true), options);
  }
  all.print("sample graphs");
  EXPECT_GE(all.proven, 22);
  EXPECT_GE(all.best, 19);
  EXPECT_LE(all.worst, 1.06);
}

// The same nodes in another order, operands before users and effects in theirs.
graph reordered(const graph& g, support::dice& d) {
  std::vector<std::vector<node_id>> behind(g.size());
  std::vector<std::size_t> waits(g.size());
  std::vector<node_id> ready;
  node_id last_effect = no_id;
  for (node_id id{0}; id < g.size(); ++id) {
    const auto wait = [&](node_id before) { behind[before].push_back(id), ++waits[id]; };
    std::ranges::for_each(g.operands(id), wait);
    if (info(g[id].kind).stage == op_stage::effect) {
      if (last_effect != no_id) wait(last_effect);
      last_effect = id;
    }
    if (waits[id] == 0) ready.push_back(id);
  }
  graph result(g.paths());
  std::vector<node_id> copies(g.size(), no_id);
  while (!ready.empty()) {
    std::swap(ready[static_cast<std::size_t>(d.below(std::ssize(ready)))], ready.back());
    const node_id id = ready.back();
    ready.pop_back();
    std::vector<node_id> operands;
    for (const node_id operand : g.operands(id)) operands.push_back(copies[operand]);
    const graph::scope in(result, g[id].path);
    copies[id] = result.add_node(g[id].kind, g[id].type, g[id].extents, g.attribute_of(id), operands);
    for (const node_id each : behind[id]) {
      if (--waits[each] == 0) ready.push_back(each);
    }
  }
  for (const graph_output& output : g.outputs()) result.add_output(output.name, copies[output.node]);
  return result;
}

double predicted_seconds(const graph& g, const fusion::optimize_options& options) {
  fusion::optimize_report report;
  (void)fusion::optimize(g, options, &report);
  return report.predicted_seconds;
}

TEST(egraph_extract, the_order_of_insertion_does_not_matter) {
  int moved = 0, graphs = 0;
  support::verdict all;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto s = support::make_sample(seed, 10 + static_cast<int>(seed % 15));
    if (!s) continue;
    support::dice d(seed);
    const graph other = reordered(s->source, d);
    ++graphs, moved += to_text(other) != to_text(s->source);
    fusion::optimize_report report;
    const graph plan = fusion::optimize(other, s->optimize, &report);
    const double seconds = predicted_seconds(s->source, s->optimize);
    EXPECT_NEAR(report.predicted_seconds, seconds, 1e-9 * seconds) << "seed " << seed;
    const bool exact = s->optimize.tolerance == egraph::exactness::exact;
    const support::stable_run truth(s->source, s->leaves, exact, support::training_values(1));
    oracle::interpreter<double> run(plan, s->leaves, support::training_values(1));
    const auto results = run.run();
    for (const auto& [name, unused] : truth.outputs()) truth.expect_output(name, results, all);
    for (const auto& [name, unused] : truth.leaves()) truth.expect_leaf(name, run.leaves, all);
    EXPECT_FALSE(all.failed()) << "seed " << seed << '\n' << std::exchange(all.text, {});
  }
  EXPECT_GE(moved, 0.95 * graphs);
  EXPECT_GT(all.compared, 500u);
  for (const named_graph& each : sample_graphs()) {
    support::dice d(1);
    const double seconds = predicted_seconds(each.source, {});
    for (int i = 0; i < 4; ++i) {
      const graph other = reordered(each.source, d);
      EXPECT_NEAR(predicted_seconds(other, {}), seconds, 1e-9 * seconds) << each.name;
      expect_plan_agrees(other, random_leaves(each.source, 0.25, 1.5));
    }
  }
}

TEST(egraph_extract, products_of_one_operand_run_side_by_side_where_the_device_has_room) {
  const graph g = gated_unit(128, 576, 1536, false);
  fusion::optimize_options options = on_units();
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
