// SPDX-License-Identifier: MIT
// What optimising a deep model costs and gives, in e-nodes and kernels: bounded, and the same for every further layer.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/nn/loss.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <support/egraph_sample_graphs.hpp>
#include <support/smollm2_reference.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace mn = meganeura;

namespace {

struct budget {
  std::size_t nodes = 0, enodes = 0, classes = 0;
  int kernels = 0;
  std::vector<std::string> limits;
};

/// Training of SmolLM2-135M's shapes with so many layers.
template <int Layers>
budget measure() {
  using model = mn::support::deep_smollm2<Layers>;
  const mn::symbol_extent symbols[] = {{"seq", 128}};
  mn::graph g;
  const auto logits = mn::lower_into<model>(g, symbols);
  const mn::node_id loss = mn::lower_loss<model, mn::cross_entropy<"label">>(g, logits, symbols)[0];
  g.add_output("loss", loss);
  const std::vector<mn::node_id> weights = g.leaves(mn::op::parameter), slopes = mn::gradients(g, loss, weights);
  std::vector<mn::node_id> pairs;
  for (std::size_t i = 0; i < weights.size(); ++i) pairs.insert(pairs.end(), {weights[i], slopes[i]});
  g.optimizer_step(mn::optimizer(mn::adam{}).rule(), pairs);
  mn::fusion::optimize_report report;
  const mn::graph plan = mn::fusion::optimize(g, {}, &report);
  budget result{g.size(), report.enodes, report.classes, 0, report.limits};
  for (mn::node_id id{0}; id < plan.size(); ++id) {
    result.kernels += info(plan[id].kind).stage == mn::op_stage::implementation;
  }
  return result;
}

TEST(egraph_budget, thirty_layers_of_smollm2_stay_within_their_counts) {
  const budget all = measure<30>();
  EXPECT_TRUE(all.limits.empty());
  EXPECT_LT(all.enodes, 30'000u);
  EXPECT_LE(all.enodes, 3 * all.nodes);
  EXPECT_LE(all.kernels, 1446);  // 115 of them add up the parts of split sums
}

TEST(egraph_budget, every_layer_costs_the_same) {
  const budget four = measure<4>(), eight = measure<8>(), twelve = measure<12>();
  EXPECT_EQ(eight.nodes - four.nodes, twelve.nodes - eight.nodes);
  EXPECT_EQ(eight.enodes - four.enodes, twelve.enodes - eight.enodes);
  EXPECT_EQ(eight.classes - four.classes, twelve.classes - eight.classes);
  EXPECT_EQ(eight.kernels - four.kernels, twelve.kernels - eight.kernels);
}

// ---- depth ----------------------------------------------------------------------------------------------------------

/// Kernels of the optimised graph, which is also planned; its predicted time is that of its kernels, a launch each at
/// least.
int kernels_of_plan(const mn::graph& g) {
  mn::fusion::optimize_report report;
  mn::graph best = mn::fusion::optimize(g, {}, &report);
  EXPECT_TRUE(report.limits.empty());
  const int kernels = mn::samples::kernel_count(best);
  const mn::device_profile device;
  const double seconds_of_launches =
      kernels * device.launch.dispatch + static_cast<double>(report.groups) * device.launch.group;
  EXPECT_GT(report.predicted_seconds, seconds_of_launches);
  const int products = mn::samples::count(best, mn::op::matmul);
  EXPECT_LT(report.predicted_seconds,
            1.2 * (seconds_of_launches + products * device.product_once));  // all of them are tiny
  const mn::plan::layout parameters = mn::plan::make_layout(best);
  const mn::plan::execution_plan plan = mn::plan::make_plan(std::move(best), parameters);
  EXPECT_GE(static_cast<int>(plan.steps.size()), kernels);
  EXPECT_GE(plan.groups, report.groups);  // copies and updates beside
  return kernels;
}

mn::node_id layer_weight(mn::graph& g, const char* name, int layer) {
  return g.parameter(name + std::to_string(layer), mn::dtype::f32, {4, 4});
}

TEST(egraph_depth, two_thousand_layers_that_read_their_input_twice) {
  // Costs added up along paths would double with each layer, past the largest double at the 1,024th.
  mn::graph g;
  mn::node_id h = g.input("x", mn::dtype::f32, {4, 4});
  for (int i = 0; i < 2000; ++i) {
    const mn::node_id a = g.contract(h, layer_weight(g, "w", i), "ik", "kj", "ij");
    h = g.multiply(a, g.contract(h, layer_weight(g, "v", i), "ik", "kj", "ij"));
  }
  g.add_output("y", h);
  // One product, and another that ends with the product of both: side by side the second would begin later.
  EXPECT_EQ(kernels_of_plan(g), 2 * 2000);
}

TEST(egraph_depth, two_thousand_residual_layers_sharing_a_gate) {
  mn::graph g;
  mn::node_id h = g.input("x", mn::dtype::f32, {4, 4});
  const mn::node_id gate = g.input("gate", mn::dtype::f32, {4, 4});  // a value with 2,000 readers
  for (int i = 0; i < 2000; ++i) {
    const mn::node_id y = mn::samples::relu(g, g.contract(h, layer_weight(g, "w", i), "ik", "kj", "ij"));
    h = g.add(h, g.multiply(y, gate));
  }
  g.add_output("y", h);
  EXPECT_EQ(kernels_of_plan(g), 2000);
}

TEST(egraph_depth, five_hundred_transformer_layers_forward_and_backward) {
  const auto training = [](int layers) {
    mn::graph g;
    const mn::node_id x = g.input("x", mn::dtype::f32, {1, 2, 4});
    const mn::node_id loss = mn::samples::total(g, mn::samples::transformer(g, x, layers, 2, 5));
    g.add_output("loss", loss);
    const std::vector<mn::node_id> weights = g.leaves(mn::op::parameter), slopes = mn::gradients(g, loss, weights);
    std::vector<mn::node_id> pairs;
    for (std::size_t i = 0; i < weights.size(); ++i) pairs.insert(pairs.end(), {weights[i], slopes[i]});
    g.optimizer_step(mn::optimizer(mn::adam{}).rule(), pairs);
    return kernels_of_plan(g);
  };
  const int eight = training(8), twelve = training(12);
  EXPECT_EQ(training(500), eight + (twelve - eight) * 492 / 4);
}

}  // namespace
