// SPDX-License-Identifier: MIT
// Products that compute what they read: which plans have them, and that they compute the same.
#include <meganeura/fusion/optimize.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/prologue_samples.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::support;

// One kernel, whatever it takes.
void let_launches_decide(fusion::optimize_options& options) {
  options.device.launch = {1, 1};
  options.device.matrix_units = matrix_units::cooperative;
  options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024;
  options.schedule = 0;
  options.disabled = {"split_sum"};
}

std::size_t kernels(const graph& g) {
  std::size_t found = 0;
  for (node_id id{0}; id < g.size(); ++id) found += info(g[id].kind).stage == op_stage::implementation;
  return found;
}

TEST(fusion_prologue, spellings_are_one_kernel) {
  for (const named& each : spellings()) {
    for (const bool ends : {false, true}) {
      const graph g = product_of(each.make, {40, 64, 48}, ends);
      fusion::optimize_options options;
      let_launches_decide(options);
      options.explain = true;
      fusion::optimize_report report;
      const graph plan = fusion::optimize(g, options, &report);
      ASSERT_EQ(kernels(plan), 1u) << each.name << ends << '\n' << report.explain;
      const matmul_attribute& product = *products(plan).at(0);
      EXPECT_FALSE(product.start.is_empty()) << each.name;
      EXPECT_EQ(!product.start.statistic.nodes.empty(), each.has_statistic) << each.name;
      samples::expect_equal(g, plan, each.name);
    }
  }
}

// What is no number of a row times elements, or sums of other rows.
TEST(fusion_prologue, look_alikes_are_not) {
  const std::vector<named> all{
      {"sums of columns", true,
       [](graph&, node_value x, node_value w) { return x * rsqrt(mean_along(square(x), 0) + 1e-5) * w; }},
      {"the largest", true, [](graph&, node_value x, node_value) { return x / unsqueeze(max(abs(x), 1), 1); }},
      {"added", true, [](graph&, node_value x, node_value) { return x + sum_along(x, 1); }}};
  for (const named& each : all) {
    const graph g = product_of(each.make, {40, 64, 48});
    fusion::optimize_options options;
    let_launches_decide(options);
    const graph plan = fusion::optimize(g, options);
    for (const matmul_attribute* product : products(plan))
      EXPECT_TRUE(product->start.statistic.nodes.empty()) << each.name;
    const oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
    const auto expected = oracle::interpreter<double>(g, leaves, {}).run().at("y").values;
    const auto found = oracle::interpreter<double>(plan, leaves, {}).run().at("y").values;
    EXPECT_LE(oracle::relative_error(found, expected), oracle::tolerance(dtype::f32)) << each.name;
  }
}

// What is centred has its own kernel, for its mean is no factor; the rest of a layer norm goes with the product.
TEST(fusion_prologue, layer_norms_behind_their_mean) {
  const graph g = product_of(
      [](graph&, node_value x, node_value w) {
        const node_value d = x - mean_along(x, 1);
        return d * rsqrt(mean_along(square(d), 1) + 1e-5) * w;
      },
      {40, 64, 48});
  fusion::optimize_options options;
  let_launches_decide(options);
  const graph plan = fusion::optimize(g, options);
  EXPECT_LE(kernels(plan), 2u);
  const oracle::tensors<double> leaves = samples::random_leaves(g, -2, 2);
  const auto expected = oracle::interpreter<double>(g, leaves, {}).run().at("y").values;
  const auto found = oracle::interpreter<double>(plan, leaves, {}).run().at("y").values;
  EXPECT_LE(oracle::relative_error(found, expected), oracle::tolerance(dtype::f32));
}

// Three products of one norm run side by side: all of them do without it, which one alone would not gain by.
TEST(fusion_prologue, products_of_one_norm_together) {
  graph g;
  const node_value x = f32_input(g, "x", {128, 576}), numbers = f32_input(g, "numbers", {576});
  const node_value norm = spellings()[0].make(g, x, numbers);
  for (const auto& [name, columns] : {std::pair("q", 576), std::pair("k", 192), std::pair("v", 192)})
    g.add_output(name, matmul(norm, f32_input(g, (std::string("w_") + name).c_str(), {576, columns})));
  fusion::optimize_options options;
  options.device.matrix_units = matrix_units::cooperative;
  options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024;
  fusion::optimize_report report;
  EXPECT_EQ(kernels(fusion::optimize(g, options, &report)), 3u);
  EXPECT_EQ(report.groups, 1u);
  const auto rule = std::ranges::find(report.rules, "matmul_prologue", &fusion::rule_report::name);
  ASSERT_NE(rule, report.rules.end());
  EXPECT_EQ(rule->kernels, 3u);
  const double seconds = report.predicted_seconds;
  // A greedy choice is a choice, too.
  options.search_passes = 0;
  EXPECT_GE(kernels(fusion::optimize(g, options, &report)), 3u);
  EXPECT_GE(report.predicted_seconds, seconds);
}

// A product stands at one place: what decides by it decides by that. What decides inside does so in one kernel.
TEST(fusion_prologue, what_decides_by_a_row_is_computed_once) {
  for (const bool inside : {false, true}) {
    graph g;
    const node_value x = f32_input(g, "x", {40, 64}), w = f32_input(g, "w", {64, 48}),
                     dy = f32_input(g, "dy", {40, 48});
    const node_value row = sum_along(square(x), 1);
    const node_value norm = inside ? x * select(less(row, 1), 0, rsqrt(row)) : x * rsqrt(row);
    const node_value h = matmul(norm, w);
    g.add_output("h", select(less(h, 0), 0, h));
    g.add_output("dh", select(less(h, 0), 0, dy));
    g.add_output("norm", norm);
    fusion::optimize_options options;
    let_launches_decide(options);
    const graph plan = fusion::optimize(g, options);
    const auto sums_rows = [](const matmul_attribute* product) { return !product->start.statistic.nodes.empty(); };
    EXPECT_EQ(std::ranges::any_of(products(plan), sums_rows), !inside);
    samples::expect_equal(g, plan, inside ? "decides inside" : "decides behind it");
  }
}

// Nothing that rounds otherwise where that was not allowed, nor without matrix units.
TEST(fusion_prologue, only_where_it_may) {
  const graph g = product_of(spellings()[0].make, {40, 64, 48});
  for (int i = 0; i < 3; ++i) {
    fusion::optimize_options options;
    let_launches_decide(options);
    if (i == 0) options.tolerance = egraph::exactness::exact;
    if (i == 1) options.matrix_units = false;
    if (i == 2) options.disabled.push_back("matmul_prologue");
    for (const matmul_attribute* product : products(fusion::optimize(g, options)))
      EXPECT_TRUE(product->start.is_empty()) << i;
  }
}

}  // namespace
