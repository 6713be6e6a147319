// SPDX-License-Identifier: MIT
// Gradients of a softmax at the end of the product that they are of: which plans have them, and that they are the same.
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/meganeura.hpp>

#include <support/egraph_sample_graphs.hpp>
#include <support/prologue_samples.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::support;

// The weights' product o, and weights * (x - sum of weights * x along the row) of the product x of dy.
struct operands {
  node_value weights, dy, v;
};
struct spelling {
  std::string name;
  shape weights, dy, v;
  std::function<void(graph&, const operands&)> add;
};

fusion::optimize_options one_kernel_each() {
  fusion::optimize_options options = samples::on_units();
  options.device.launch = {1, 1};
  options.schedule = 0;
  options.disabled = {"split_sum"};
  return options;
}

std::vector<spelling> spellings() {
  const auto gradient = [](graph& g, node_value w, node_value x, int axis) {
    g.add_output("y", w * (x - sum_along(w * x, axis)));
  };
  return {{"rows",
           {24, 40},
           {24, 32},
           {40, 32},
           [=](graph& g, const operands& all) {
             g.add_output("o", matmul(all.weights, all.v));
             gradient(g, all.weights, matmul(all.dy, transpose(all.v)), 1);
           }},
          {"heads that share keys, queries outermost, a mask and a scale",
           {2, 3, 24, 40},
           {24, 2, 3, 32},
           {40, 2, 32},
           [](graph& g, const operands& all) {
             const node_value o{g, g.contract(all.weights, all.v, "hgqk", "khc", "qhgc")};
             const node_value x{g, g.contract(all.dy, all.v, "qhgc", "khc", "hgqk")};
             g.add_output("o", o);
             const node_value row = sum_along(x * all.weights, 3), mask = f32_input(g, "mask", {24, 40});
             g.add_output("y", select(less(mask, 0), 0, all.weights * (x - row)) * 0.125);
           }},
          {"a batch, of which one operand has heads in one row",
           {4, 24, 40},
           {24, 128},
           {4, 40, 32},
           [=](graph& g, const operands& all) {
             const node_value o{g, g.contract(all.weights, all.v, "hqk", "hkc", "qhc")};
             const node_value dy = reshape(all.dy, shape{24, 4, 32});
             const node_value x{g, g.contract(dy, all.v, "qhc", "hkc", "hqk")};
             g.add_output("o", o);
             gradient(g, all.weights, x, 2);
           }}};
}

graph graph_of(const spelling& each) {
  graph g;
  each.add(g, {f32_input(g, "weights", each.weights), f32_input(g, "dy", each.dy), f32_input(g, "v", each.v)});
  return g;
}

TEST(fusion_exchange, spellings_are_one_kernel) {
  for (const spelling& each : spellings()) {
    const graph g = graph_of(each);
    fusion::optimize_options options = one_kernel_each();
    options.explain = true;
    fusion::optimize_report report;
    const graph plan = fusion::optimize(g, options, &report);
    const std::vector<const matmul_attribute*> all = products(plan);
    ASSERT_EQ(all.size(), 2u) << each.name << '\n' << report.explain;
    EXPECT_EQ(all[0]->start.is_empty() + all[1]->start.is_empty(), 1) << each.name << '\n' << report.explain;
    samples::expect_equal(g, plan, each.name);
    options.disabled.push_back("exchange_sums");
    for (const matmul_attribute* product : products(fusion::optimize(g, options)))
      EXPECT_TRUE(product->start.is_empty()) << each.name;
  }
}

TEST(fusion_exchange, look_alikes_are_not) {
  const shape weights{24, 40}, dy{24, 32}, v{40, 32};
  const std::vector<spelling> all{
      {"another right operand", weights, dy, v,
       [](graph& g, const operands& x) {
         const node_value other = f32_input(g, "other", {40, 32}), product = matmul(x.dy, transpose(x.v));
         g.add_output("o", matmul(x.weights, other));
         g.add_output("y", x.weights * (product - sum_along(x.weights * product, 1)));
       }},
      {"other weights", weights, dy, v,
       [](graph& g, const operands& x) {
         const node_value other = f32_input(g, "other", {24, 40}), product = matmul(x.dy, transpose(x.v));
         g.add_output("o", matmul(other, x.v));
         g.add_output("y", x.weights * (product - sum_along(x.weights * product, 1)));
       }},
      {"a part of the sum", weights, dy, v,
       [](graph& g, const operands& x) {
         const node_value product = matmul(x.dy, transpose(x.v));
         g.add_output("o", matmul(slice(x.weights, 1, 0, 20), slice(x.v, 0, 0, 20)));
         g.add_output("y", x.weights * (product - sum_along(x.weights * product, 1)));
       }},
      {"keys in another order", weights, dy, v,
       [](graph& g, const operands& x) {
         const node_value product = matmul(x.dy, transpose(x.v));
         g.add_output("o", matmul(flip(x.weights, 1), x.v));
         g.add_output("y", x.weights * (product - sum_along(x.weights * product, 1)));
       }},
      {"columns",
       {40, 40},
       {40, 32},
       v,
       [](graph& g, const operands& x) {
         const node_value product = matmul(x.dy, transpose(x.v));
         g.add_output("o", matmul(x.weights, x.v));
         g.add_output("y", x.weights * (product - sum_along(x.weights * product, 0)));
       }},
      {"the largest", weights, dy, v,
       [](graph& g, const operands& x) {
         const node_value product = matmul(x.dy, transpose(x.v));
         g.add_output("o", matmul(x.weights, x.v));
         g.add_output("y", x.weights * (product - unsqueeze(max(x.weights * product, 1), 1)));
       }},
      {"a product that is read elsewhere", weights, dy, v,
       [](graph& g, const operands& x) {
         const node_value product = matmul(x.dy, transpose(x.v));
         g.add_output("o", matmul(x.weights, x.v));
         g.add_output("product", product);
         g.add_output("y", x.weights * (product - sum_along(x.weights * product, 1)));
       }},
      {"something that decides", weights, dy, v, [](graph& g, const operands& x) {
         const node_value product = matmul(x.dy, transpose(x.v));
         g.add_output("o", matmul(x.weights, x.v));
         g.add_output("y", select(less(x.weights * (product - sum_along(x.weights * product, 1)), 0), 0, x.weights));
       }}};
  for (const spelling& each : all) {
    const graph g = graph_of(each);
    fusion::optimize_report report;
    const graph plan = fusion::optimize(g, one_kernel_each(), &report);
    EXPECT_EQ(samples::applied(report, "exchange_sums"), 0u) << each.name;
    samples::expect_equal(g, plan, each.name);
  }
}

}  // namespace
