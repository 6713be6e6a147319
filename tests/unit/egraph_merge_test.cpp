// SPDX-License-Identifier: MIT
// Values computed from the same operands become results of one kernel, where that is cheaper and no circle comes of it.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/models/unet.hpp>
#include <meganeura/nn/losses.hpp>
#include <meganeura/plan/plan.hpp>

#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

struct outcome {
  graph plan;
  fusion::optimize_report report;
  std::size_t dispatches = 0;
};

/// The optimised graph, which computes the same, and the steps of its plan.
outcome optimised(const graph& g, std::vector<std::string> disabled = {}) {
  fusion::optimize_options options;
  options.disabled = std::move(disabled);
  options.explain = true;
  outcome found;
  const auto leaves = samples::random_leaves(g);
  found.plan = samples::expect_plan_agrees(g, leaves, options, &found.report);
  const auto p = plan::make_plan(found.plan, plan::make_layout(g));
  plan::verify(p);
  found.dispatches = p.steps.size();
  (void)samples::expect_all_forms_agree(g, leaves, options);
  return found;
}

std::size_t results_of_widest(const graph& g) {
  std::size_t most = 1;
  for (node_id id{0}; id < g.size(); ++id) most = std::max(most, g.results(id).size());
  return most;
}

node_id silu(graph& g, node_id x) {
  const node_id one = g.full_like(x, 1), decay = samples::exp(g, g.map(scalar_op::negate, {x}));
  return g.multiply(x, g.map(scalar_op::reciprocal, {g.add(one, decay)}));
}

TEST(egraph_merge, both_gradients_of_a_gated_unit_are_one_kernel) {
  graph g;
  const shape extents{64, 96};
  const node_id a = g.parameter("a", dtype::f32, extents), b = g.parameter("b", dtype::f32, extents);
  const node_id wrt[] = {a, b};
  const node_id loss = samples::total(g, g.multiply(silu(g, a), b));
  const std::vector<node_id> slopes = gradients(g, loss, wrt);
  g.add_output("da", slopes[0]);
  g.add_output("db", slopes[1]);
  const outcome merged = optimised(g), apart = optimised(g, {"merge_regions"});
  EXPECT_EQ(merged.dispatches, 1u) << to_text(merged.plan);
  EXPECT_EQ(apart.dispatches, 2u);
  EXPECT_EQ(results_of_widest(merged.plan), 2u);
  EXPECT_LT(merged.report.predicted_seconds, apart.report.predicted_seconds);
  EXPECT_NE(merged.report.explain.find("merge_regions"), std::string::npos);
}

TEST(egraph_merge, rows_and_what_they_are_reduced_to_are_one_kernel) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {48, 80});
  const node_id p = samples::softmax(g, x);
  g.add_output("softmax", p);
  g.add_output("logarithm", g.map(scalar_op::log, {g.reduce(reduce_kind::sum, samples::exp(g, x), 2)}));
  g.add_output("most", g.reduce(reduce_kind::max, x, 2));
  const outcome merged = optimised(g);
  EXPECT_EQ(merged.dispatches, 1u) << to_text(merged.plan);
  EXPECT_EQ(results_of_widest(merged.plan), 3u);
}

// The normalised input is stored for the backward pass beside what the next product reads.
TEST(egraph_merge, a_value_and_what_is_made_of_it_are_one_kernel) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {48, 80}), w = g.parameter("w", dtype::f32, {80});
  const node_id root = g.map(scalar_op::rsqrt, {samples::row_mean(g, g.multiply(x, x))});
  const node_id normal = g.multiply(x, root);
  g.add_output("normal", normal);
  g.add_output("scaled", g.multiply(normal, g.expand(w, {48, 80})));
  // Without `recompute` no kernel but its own computes the normalised value again.
  for (const outcome& merged : {optimised(g), optimised(g, {"recompute"})})
    EXPECT_EQ(merged.dispatches, 1u) << to_text(merged.plan);
}

// a1 and b1 read x, a2 and b2 read y; a product leads from a1 to b2 and another from a2 to b1. Together the two pairs
// would wait for each other.
TEST(egraph_merge, no_kernel_waits_for_itself) {
  graph g;
  const shape extents{32, 32};
  const node_id x = g.input("x", dtype::f32, extents), y = g.input("y", dtype::f32, extents);
  const node_id a1 = samples::exp(g, x), a2 = samples::exp(g, y);
  const auto product = [&](node_id a) { return g.contract(a, a, "ik", "kj", "ij"); };
  const node_id b1 = g.multiply(g.map(scalar_op::tanh, {x}), product(a2));
  const node_id b2 = g.multiply(g.map(scalar_op::tanh, {y}), product(a1));
  for (const auto& [name, id] : {std::pair("a1", a1), std::pair("a2", a2), std::pair("b1", b1), std::pair("b2", b2)})
    g.add_output(name, id);
  g.add_output("c", g.map(scalar_op::tanh, {g.add(b1, a1)}));
  (void)optimised(g);
}

TEST(egraph_merge, what_a_kernel_cannot_bind_stays_apart) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4096}), y = g.input("y", dtype::f32, {4096});
  g.add_output("sum", g.add(x, y));
  g.add_output("product", g.multiply(x, y));
  EXPECT_EQ(optimised(g).dispatches, 1u);
  fusion::optimize_options options;
  options.region.buffers = 2;  // and one result: three of what the kernel needs four of
  const graph apart = samples::expect_plan_agrees(g, samples::random_leaves(g), options);
  EXPECT_EQ(results_of_widest(apart), 1u);
}

TEST(egraph_merge, graphs_that_share_no_reads_are_as_they_were) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4096}), y = g.input("y", dtype::f32, {4096});
  g.add_output("a", samples::exp(g, x));
  g.add_output("b", samples::exp(g, y));
  EXPECT_EQ(to_text(optimised(g).plan), to_text(optimised(g, {"merge_regions"}).plan));
}

// Where several results are read, all are: what a kernel's other results alone need stays inside of it.
TEST(egraph_merge, a_value_that_is_read_inside_of_the_kernel_alone_is_not_stored) {
  constexpr models::unet::config tiny{.width = 16, .groups = 4};
  using net = model<models::unet::denoiser<tiny>, input<"x", dtype::f32, dims<2, 4, 16, 16>>>;
  graph g;
  const auto results = lower_into<net>(g, {});
  const node_id loss = lower_loss<net, mean_squared_error<"target">>(g, results, {})[0];
  const auto weights = g.leaves(op::parameter);
  const auto slopes = gradients(g, loss, weights);
  for (std::size_t i = 0; i < slopes.size(); ++i) g.add_output("d" + std::to_string(i), slopes[i]);
  const graph plan = fusion::optimize(g);
  std::map<node_id, std::set<std::size_t>> read;
  for (node_id id{0}; id < plan.size(); ++id) {
    if (plan[id].kind == op::result) read[plan.operand(id, 0)].insert(plan.get<result_attribute>(id).index);
  }
  int merged = 0;
  for (const auto& [region, named] : read) {
    merged += named.size() >= 2;
    if (named.size() >= 2) {
      EXPECT_EQ(named.size(), plan.results(region).size());
    }
  }
  EXPECT_GT(merged, 3);
}

}  // namespace
