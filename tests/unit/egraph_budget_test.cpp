// SPDX-License-Identifier: MIT
// What optimising a deep model costs and gives, in e-nodes and kernels: bounded, and the same for every further layer.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/egraph/optimize.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/runtime/loss.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mn = meganeura;

namespace {

template <int Layers>
constexpr mn::models::llama_config deep = [] {
  mn::models::llama_config config = mn::models::smollm2_135m;
  config.layers = Layers;
  return config;
}();

struct budget {
  std::size_t nodes = 0, enodes = 0, classes = 0;
  int kernels = 0;
  std::vector<std::string> limits;
};

/// Training of SmolLM2-135M's shapes with so many layers.
template <int Layers>
budget measure() {
  using tokens = mn::input<"tokens", mn::dtype::i32, mn::dims<mn::sym<"seq">>>;
  using model = mn::model<mn::models::smollm2<deep<Layers>>, tokens>;
  const mn::binding symbols[] = {{"seq", 128}};
  mn::graph g;
  const mn::node_id logits = mn::lower_into<model>(g, symbols), loss = mn::cross_entropy{"label"}(g, logits);
  g.add_output("loss", loss);
  const std::vector<mn::node_id> weights = g.leaves(mn::op::parameter), slopes = mn::gradients(g, loss, weights);
  std::vector<mn::node_id> pairs;
  for (std::size_t i = 0; i < weights.size(); ++i) pairs.insert(pairs.end(), {weights[i], slopes[i]});
  g.optimizer_step({.kind = mn::optimizer_kind::adam}, pairs);
  mn::egraph::optimize_options options;
  options.max_milliseconds = 1e9;  // counts must not depend on the machine
  mn::egraph::optimize_report report;
  const mn::graph plan = mn::egraph::optimize(g, options, &report);
  budget result{g.size(), report.enodes, report.classes, 0, report.limits};
  for (mn::node_id id = 0; id < plan.size(); ++id) {
    result.kernels += info(plan[id].kind).stage == mn::op_stage::implementation;
  }
  return result;
}

TEST(egraph_budget, thirty_layers_of_smollm2_stay_within_their_counts) {
  const budget all = measure<30>();
  EXPECT_TRUE(all.limits.empty());
  EXPECT_LT(all.enodes, 30'000u);
  EXPECT_LE(all.enodes, 3 * all.nodes);
  EXPECT_LE(all.kernels, 1330);
}

TEST(egraph_budget, every_layer_costs_the_same) {
  const budget four = measure<4>(), eight = measure<8>(), twelve = measure<12>();
  EXPECT_EQ(eight.nodes - four.nodes, twelve.nodes - eight.nodes);
  EXPECT_EQ(eight.enodes - four.enodes, twelve.enodes - eight.enodes);
  EXPECT_EQ(eight.classes - four.classes, twelve.classes - eight.classes);
  EXPECT_EQ(eight.kernels - four.kernels, twelve.kernels - eight.kernels);
}

}  // namespace
