// SPDX-License-Identifier: MIT
// Structural rules and extraction: every form of every value agrees with the source, and the plans are the wanted ones.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/core/error.hpp>

#include <support/egraph_sample_graphs.hpp>
#include <support/sentence_of.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::samples;

void expect_agrees(const graph& g, const fusion::optimize_options& options = {}) {
  const auto leaves = random_leaves(g, 0.25, 1.5);
  EXPECT_GT(expect_all_forms_agree(g, leaves, options), 0u);
  expect_plan_agrees(g, leaves, options);
}

TEST(egraph_forms, softmax_forward_and_backward) { expect_agrees(softmax_graph(true)); }
TEST(egraph_forms, cross_entropy_forward_and_backward) { expect_agrees(cross_entropy_graph()); }
TEST(egraph_forms, layer_norm_forward_and_backward) { expect_agrees(norm_graph(layer_norm)); }
TEST(egraph_forms, rms_norm_forward_and_backward) { expect_agrees(norm_graph(rms_norm)); }
TEST(egraph_forms, attention_forward_and_backward) { expect_agrees(attention_graph(true)); }
TEST(egraph_forms, mlp_training) { expect_agrees(mlp_training(6, 7, 5, 3)); }
TEST(egraph_forms, transformer_forward_and_backward) { expect_agrees(transformer_graph(2)); }

TEST(egraph_forms, views_of_all_kinds_under_and_over_maps) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4, 6});
  const int swap[] = {1, 0};
  const std::int64_t low[] = {1, 0}, high[] = {0, 2};
  const node_id turned = g.permute(exp(g, x), swap);
  const node_id flipped = g.flip(g.slice(turned, 0, 1, 3, 2), 1);
  const node_id padded = g.pad(exp(g, flipped), low, high, 0.5);
  const node_id twice = g.pad(padded, high, low, 0.25);
  g.add_output("a", exp(g, twice));
  g.add_output("b", g.reshape(relu(g, g.slice(padded, 1, 2, 3)), {2, 6}));
  const node_id pieces[] = {x, exp(g, x), g.full({2, 6}, 3), g.slice(x, 0, 1, 2)};
  const node_id joined = g.concat(pieces, 0);
  g.add_output("c", exp(g, joined));
  g.add_output("d", softmax(g, joined));
  g.add_output("e", g.reduce(reduce_kind::max, g.slice(joined, 0, 3, 6), 1));
  expect_agrees(g);
}

TEST(egraph_forms, wide_concat_becomes_a_tree) {
  graph g;
  std::vector<node_id> pieces;
  for (int i = 0; i < 20; ++i) pieces.push_back(g.input("x" + std::to_string(i), dtype::f32, {2, i % 3 + 1}));
  g.add_output("y", g.concat(pieces, 1));
  expect_agrees(g);
}

TEST(egraph_forms, convolutions_with_epilogues) {
  graph g;
  const node_id x = g.parameter("x", dtype::f32, {2, 4, 5, 5}), w = g.parameter("w", dtype::f32, {6, 2, 3, 3});
  const node_id bias = g.parameter("b", dtype::f32, {6});
  convolution_attribute c;
  c.pad_low[0] = c.pad_high[0] = c.pad_low[1] = c.pad_high[1] = 1;
  c.stride[0] = 2;
  c.groups = 2;
  const node_id y = g.convolution(x, w, c, {2, 6, 3, 5});
  const node_id z = relu(g, g.add(y, g.expand_axes(bias, {2, 6, 3, 5}, 0b1101)));
  g.add_output("z", z);
  add_gradients(g, total(g, z));
  expect_agrees(g);
}

graph convolution_then_view(bool permuted, bool training) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3, 5, 6}), w = g.parameter("w", dtype::f32, {4, 3, 3, 3});
  node_id y = g.map(scalar_op::tanh, {g.convolution(x, w, {}, {2, 4, 3, 4})});
  const int order[] = {0, 2, 3, 1};
  if (permuted) y = g.permute(y, order);
  y = permuted ? g.reshape(y, {2, 12, 4}) : g.reshape(y, {2, 48});
  g.add_output("y", y);
  if (!training) return g;
  add_gradients(g, total(g, linear(g, relu(g, y), "fc", 5)));
  return g;
}

TEST(egraph_forms, views_of_convolutions_keep_the_convolutions_geometry) {
  for (bool permuted : {false, true}) {
    for (bool training : {false, true}) expect_agrees(convolution_then_view(permuted, training));
  }
  graph g;  // nothing but the view
  const node_id x = g.input("x", dtype::f32, {2, 3, 5, 5}), w = g.parameter("w", dtype::f32, {4, 3, 3, 3});
  const node_id y = g.reshape(g.convolution(x, w, {}, {2, 4, 3, 3}), {2, 36});
  g.add_output("loss", g.reduce(reduce_kind::sum, y, 3));
  add_gradients(g, g.find_output("loss"));
  expect_agrees(g);
}

TEST(egraph_forms, a_product_rounded_to_integers_and_scaled_back) {  // fake quantisation
  graph g;
  const node_id y = g.contract(g.input("x", dtype::f32, {3, 5}), g.input("w", dtype::f32, {5, 4}), "ik", "kj", "ij");
  const node_id whole = g.cast(g.map(scalar_op::round, {g.multiply(y, g.full_like(y, 16))}), dtype::i32);
  const node_id back = g.cast(whole, dtype::f32);
  g.add_output("y", g.multiply(back, g.full_like(back, 1.0 / 16)));
  expect_agrees(g);
}

TEST(egraph_forms, a_slice_of_a_sum_and_a_border) {
  for (std::int64_t start : {0, 2, 7}) {  // in the border, across its edge, behind
    graph g;
    const node_id x = g.input("x", dtype::f32, {9, 6}), y = g.input("y", dtype::f32, {4});
    const std::int64_t low[] = {3}, high[] = {2};
    const node_id sums = g.add(g.reduce(reduce_kind::sum, x, 2), g.pad(y, low, high, 0.5));
    g.add_output("y", g.slice(sums, 0, start, 2));
    expect_agrees(g);
  }
}

TEST(egraph_forms, gathers_windows_states_and_random_numbers_pass_through) {
  graph g;
  const node_id table = g.parameter("table", dtype::f32, {4, 3}), rows = g.input("rows", dtype::i32, {2, 5});
  const node_id picked = g.gather(table, rows, 0);
  const node_id noise = g.random("dropout", distribution::uniform, {2, 5, 3});
  const node_id mixed = g.multiply(picked, noise);
  window_attribute pool;
  pool.spatial = 1;
  pool.window[0] = pool.stride[0] = 2;
  const node_id pooled = g.window_reduce(exp(g, mixed), pool);
  const node_id state = g.state("memory", dtype::f32, {2, 5, 3});
  g.assign(state, g.add(state, mixed));
  g.add_output("y", pooled);
  add_gradients(g, total(g, pooled));
  expect_agrees(g);
}

TEST(egraph_forms, thin_products_and_outer_products) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {6}), b = g.input("b", dtype::f32, {5}),
                m = g.input("m", dtype::f32, {6, 5});
  g.add_output("outer", exp(g, g.contract(a, b, "i", "j", "ij")));
  g.add_output("vector", relu(g, g.contract(a, m, "i", "ij", "j")));
  g.add_output("dot", g.contract(a, a, "i", "i", ""));
  g.add_output("diagonal", g.contract(m, b, "ij", "j", "ij"));
  g.add_output("gram", g.contract(m, m, "ik", "jk", "ij"));
  expect_agrees(g);
}

TEST(egraph_forms, constants_that_are_outputs_are_stored) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3});
  g.add_output("constant", g.full({2, 3}, 1.5));
  g.add_output("index", g.coordinates({2, 3}, 1));
  g.add_output("sum", g.add(x, g.multiply(g.full({2, 3}, 2), g.full({2, 3}, 4))));
  g.add_output("same", x);
  expect_agrees(g);
}

// Random programs over everything with a shape: whatever the rules make of them has to agree.
graph random_graph(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  graph g;
  std::vector<node_id> pool = {g.input("a", dtype::f32, {3, 4}), g.input("b", dtype::f32, {4}),
                               g.input("c", dtype::f32, {2, 3, 4}), g.input("d", dtype::f32, {4, 6})};
  const auto pick = [&] { return pool[random() % pool.size()]; };
  for (int step = 0; step < 14; ++step) {
    const node_id x = pick(), other = pick();
    const shape extents = g[x].extents;
    const int rank = extents.rank(), axis = rank ? static_cast<int>(random() % static_cast<std::uint64_t>(rank)) : 0;
    std::vector<int> order(static_cast<std::size_t>(rank));
    for (int i = 0; i < rank; ++i) order[static_cast<std::size_t>(i)] = (i + 1) % rank;
    node_id made = no_id;
    switch (random() % 11) {
      // clang-format off
      case 0: made = g.map(scalar_op::tanh, {x}); break;
      case 1: made = g.multiply(x, g.full_like(x, 0.5)); break;
      case 2: made = relu(g, x); break;
      case 3: made = rank ? row_value(g, reduce_kind::sum, x) : x; break;
      case 4: made = rank ? g.reduce(reduce_kind::max, x, 1u << axis) : x; break;
      case 5: made = rank ? g.permute(x, order) : x; break;
      case 6: made = rank ? g.flip(x, axis) : x; break;
      case 7: made = rank && extents[axis] > 1 ? g.slice(x, axis, 1, extents[axis] - 1) : x; break;
      case 8: made = g.reshape(x, {extents.elements()}); break;
      // clang-format on
      case 9:
        made = rank && g[other].extents.rank() && rank + g[other].extents.rank() <= 5 &&
                       extents[rank - 1] == g[other].extents[0]
                   ? g.contract(
                         x, other, std::string("abcde").substr(0, static_cast<std::size_t>(rank - 1)) + "k",
                         "k" + std::string("vwxyz").substr(0, static_cast<std::size_t>(g[other].extents.rank() - 1)),
                         std::string("abcde").substr(0, static_cast<std::size_t>(rank - 1)) +
                             std::string("vwxyz").substr(0, static_cast<std::size_t>(g[other].extents.rank() - 1)))
                   : x;
        break;
      default:
        made = rank ? softmax(g, x) : x;
    }
    for (node_id candidate : pool) {
      if (g[candidate].extents == g[made].extents && random() % 2 == 0) {
        made = g.add(made, candidate);
        break;
      }
    }
    pool.push_back(made);
  }
  for (std::size_t i = pool.size() - 4; i < pool.size(); ++i) g.add_output("y" + std::to_string(i), pool[i]);
  return pruned(g);
}

TEST(egraph_forms, random_graphs) {
  for (std::uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const graph g = random_graph(seed);
    const auto leaves = random_leaves(g);
    expect_all_forms_agree(g, leaves);
    expect_plan_agrees(g, leaves);
  }
}

TEST(egraph_forms, gradients_of_random_graphs) {
  for (std::uint64_t seed = 1000; seed < 1050 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    graph g = random_graph(seed);
    std::vector<node_id> wrt = g.leaves(op::input);
    const node_id last = g.outputs().back().node;
    // Weighed: the plain sum of a softmax is a constant, whose gradient is nothing but roundings.
    const node_id weighed = g.multiply(last, g.input("weights", dtype::f32, shape(g[last].extents)));
    const node_id loss = g.reduce(reduce_kind::sum, weighed, (1u << g[last].extents.rank()) - 1);
    const std::vector<node_id> d = gradients(g, loss, wrt);
    for (std::size_t i = 0; i < d.size(); ++i) g.add_output("d" + std::to_string(i), d[i]);
    const auto leaves = random_leaves(g);
    expect_all_forms_agree(g, leaves);
    expect_plan_agrees(g, leaves);
  }
}

// ---- plans ----------------------------------------------------------------------------------------------------------

graph optimized(const graph& g, const fusion::optimize_options& options = {}) { return fusion::optimize(g, options); }

TEST(egraph_plans, softmax_is_one_region) {
  const graph plan = optimized(softmax_graph(false));
  EXPECT_EQ(count(plan, op::region), 1);
  EXPECT_EQ(kernel_count(plan), 1);
}

TEST(egraph_plans, the_gradient_of_cross_entropy_is_one_region_of_the_logits) {
  const graph plan = optimized(cross_entropy_graph());
  const node_id dz = plan.find_output("d z");
  ASSERT_EQ(plan[dz].kind, op::result);
  const node_id region = plan.operand(dz, 0);
  for (node_id operand : plan.operands(region)) EXPECT_EQ(info(plan[operand].kind).stage, op_stage::leaf);
  EXPECT_EQ(plan.results(region).size(), 2u);
  EXPECT_EQ(kernel_count(plan), 2);  // losses of rows with the gradient, their mean
}

TEST(egraph_plans, linear_bias_relu_is_one_matmul) {
  graph g;
  g.add_output("y", relu(g, linear(g, g.input("x", dtype::f32, {8, 16}), "fc", 32)));
  const graph plan = optimized(g);
  EXPECT_EQ(count(plan, op::matmul), 1);
  EXPECT_EQ(kernel_count(plan), 1);
}

// z exp(z) + relu(z) of a linear layer; `further`: z goes elsewhere, too.
graph reads_its_argument_twice(const shape& extents, std::int64_t out, bool further) {
  graph g;
  const node_id z = linear(g, g.input("x", dtype::f32, extents), "fc", out);
  g.add_output("y", g.add(g.multiply(z, exp(g, z)), relu(g, z)));
  if (further) g.add_output("log z z", g.map(scalar_op::log, {g.multiply(z, z)}));
  return g;
}

TEST(egraph_plans, an_activation_that_reads_its_argument_several_times_is_part_of_the_product) {
  const graph plan = optimized(reads_its_argument_twice({512, 256}, 512, false));
  EXPECT_EQ(count(plan, op::matmul), 1);
  EXPECT_EQ(kernel_count(plan), 1);
  const graph other = optimized(reads_its_argument_twice({512, 256}, 512, true));
  EXPECT_EQ(count(other, op::matmul), 1) << "a long product is computed once";
  EXPECT_EQ(kernel_count(other), 2);
  for (const bool further : {false, true}) expect_agrees(reads_its_argument_twice({4, 6}, 5, further));
}

TEST(egraph_plans, transposes_of_operands_and_results_vanish) {
  graph g;
  const int swap[] = {1, 0};
  const node_id a = g.input("a", dtype::f32, {16, 8}), b = g.input("b", dtype::f32, {32, 16});
  g.add_output("y", g.permute(g.contract(g.permute(a, swap), g.permute(b, swap), "mk", "kn", "mn"), swap));
  EXPECT_EQ(kernel_count(optimized(g)), 1);
}

TEST(egraph_plans, mlp_training_has_no_kernel_to_spare) {
  const graph plan = optimized(mlp_training(64, 784, 128, 10));
  EXPECT_EQ(count(plan, op::matmul), 5);  // two forward, one to the hidden gradient, two to the weights
  EXPECT_EQ(count(plan, op::region), 4);  // row losses with the logits' gradient, their mean, two bias gradients
  EXPECT_EQ(plan.effects().size(), 1u);
}

TEST(egraph_plans, convolution_bias_relu_is_one_convolve) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3, 8, 8}), w = g.parameter("w", dtype::f32, {4, 3, 1, 1});
  const node_id y = g.convolution(x, w, {}, {2, 4, 8, 8});
  g.add_output("y", relu(g, g.add(y, g.expand_axes(g.parameter("b", dtype::f32, {4}), {2, 4, 8, 8}, 0b1101))));
  const graph plan = optimized(g);
  EXPECT_EQ(count(plan, op::convolve), 1);
  EXPECT_EQ(kernel_count(plan), 1);
}

TEST(egraph_plans, a_flattened_activation_of_a_convolution_is_one_convolve) {
  EXPECT_EQ(kernel_count(optimized(convolution_then_view(false, false))), 1);
}

TEST(egraph_plans, layer_norm_is_one_region) {
  graph g;
  g.add_output("y", layer_norm(g, g.input("x", dtype::f32, {64, 256}), "norm"));
  EXPECT_EQ(kernel_count(optimized(g)), 1);
}

TEST(egraph_plans, a_large_product_with_two_consumers_is_computed_once) {
  graph g;
  const node_id y =
      g.contract(g.input("a", dtype::f32, {512, 512}), g.input("b", dtype::f32, {512, 512}), "ik", "kj", "ij");
  g.add_output("relu", relu(g, y));
  g.add_output("exp", exp(g, y));
  EXPECT_EQ(count(optimized(g), op::matmul), 1);
}

// ---- ablation, limits, reports --------------------------------------------------------------------------------------

TEST(egraph_plans, removing_a_rule_gives_another_plan) {
  const auto differs = [](const graph& source, const char* rule) {
    fusion::optimize_options options;
    options.disabled = {rule};
    EXPECT_NE(to_text(optimized(source, options)), to_text(optimized(source))) << rule;
    expect_plan_agrees(source, random_leaves(source), options);
  };
  for (const char* rule : {"matmul_epilogue", "fuse_rows", "recompute", "relu_mask"}) {
    differs(mlp_training(6, 7, 5, 3), rule);
  }
  for (const char* rule : {"fuse_pointwise", "fuse_view", "matmul_view"}) differs(transformer_graph(1), rule);
}

TEST(egraph_plans, families_can_be_switched_off) {
  const graph source = mlp_training(6, 7, 5, 3);
  const auto leaves = random_leaves(source);
  const int all = kernel_count(optimized(source));
  fusion::optimize_options options;
  options.disabled = {"fusion", "products", "epilogues", "algebra"};
  const graph plain = expect_plan_agrees(source, leaves, options);
  EXPECT_GT(kernel_count(plain), all + 5);
}

TEST(egraph_plans, a_rule_nothing_can_replace_is_named_when_it_is_missing) {
  const auto refused = [](const char* disabled) -> std::string {
    fusion::optimize_options options;
    options.disabled = {disabled};
    try {
      (void)optimized(mlp_training(6, 7, 5, 3), options);
    } catch (const error& found) {
      EXPECT_EQ(found.category(), error_category::invalid_argument) << found.what();
      return found.what();
    }
    return "";
  };
  EXPECT_THAT(refused("contract_to_matmul"),
              testing::HasSubstr("nothing computes contract f32[6, 5] without contract_to_matmul"));
  EXPECT_THAT(refused("map_to_region"), testing::HasSubstr("without map_to_region"));
  EXPECT_THAT(refused("no such rule"), testing::HasSubstr("no rule or family of rules \"no such rule\""));
  EXPECT_THAT(refused("atention"), testing::HasSubstr("did you mean \"attention\"?"));
  EXPECT_THAT(refused(""), testing::HasSubstr("no rule"));
  EXPECT_EQ(refused("fuse_rows"), "");
}

TEST(egraph_plans, rules_that_round_are_left_out_on_request) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {8});
  g.add_output("y", g.divide(g.full_like(x, 1), g.map(scalar_op::sqrt, {x})));
  fusion::optimize_options options;
  options.tolerance = egraph::exactness::exact;
  EXPECT_NE(to_text(optimized(g)), to_text(optimized(g, options)));
}

TEST(egraph_plans, limits_are_reported_and_keep_the_plan_valid) {
  const graph source = transformer_graph(2);
  const auto leaves = random_leaves(source);
  fusion::optimize_report report;
  fusion::optimize_options options;
  options.max_matches = 2;
  expect_plan_agrees(source, leaves, options, &report);
  EXPECT_FALSE(report.limits.empty());
  options = {};
  options.max_nodes = 10;
  expect_plan_agrees(source, leaves, options, &report);
  EXPECT_FALSE(report.limits.empty());
  options = {};
  options.max_steps = 1;
  expect_plan_agrees(source, leaves, options, &report);
  EXPECT_FALSE(report.limits.empty());
  options = {};
  options.region.program_nodes = 6;
  options.region.accesses = 3;
  expect_plan_agrees(source, leaves, options, &report);
  (void)fusion::optimize(source, {}, &report);
  EXPECT_TRUE(report.limits.empty());
}

// relu(x w^T + b), x [rows, length], w [columns, length].
graph long_product(std::int64_t rows, std::int64_t columns, std::int64_t length) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {rows, length}), w = g.parameter("w", dtype::f32, {columns, length});
  const node_id b = g.parameter("b", dtype::f32, {columns});
  const node_id y = g.add(g.contract(x, w, "ik", "jk", "ij"), g.expand(b, {rows, columns}));
  g.add_output("y", relu(g, y));
  return g;
}

TEST(egraph_plans, long_sums_of_few_results_are_split_by_cost) {
  fusion::optimize_report whole, parts;
  const graph g = long_product(128, 576, 49152);
  const graph plan = fusion::optimize(g, {.explain = true}, &parts);
  EXPECT_EQ(count(plan, op::matmul), 1);
  EXPECT_EQ(kernel_count(plan), 2) << to_text(plan);  // the parts' sum with the bias and the relu
  EXPECT_NE(parts.explain.find("split_sum"), std::string::npos);
  EXPECT_EQ(kernel_count(fusion::optimize(g, {.disabled = {"split_sum"}}, &whole)), 1);
  EXPECT_LT(parts.predicted_seconds, 0.5 * whole.predicted_seconds);
  // Short sums, results enough for the whole device, a device that computes one tile after the other.
  for (const auto& [rows, columns, length] : {std::tuple{128, 576, 512}, std::tuple{4096, 4096, 8192}}) {
    EXPECT_EQ(kernel_count(fusion::optimize(long_product(rows, columns, length))), 1) << rows;
  }
  fusion::optimize_options sequential;
  sequential.device.parallel = false;
  EXPECT_EQ(kernel_count(fusion::optimize(g, sequential)), 1);
}

TEST(egraph_plans, split_sums_agree_in_every_layout) {
  fusion::optimize_options options;
  options.device.compute_units = 500, options.device.split_terms = 2;
  graph g;
  const node_id a = g.parameter("a", dtype::f32, {9, 192, 9}), b = g.parameter("b", dtype::f32, {192, 7, 9, 9});
  g.add_output("batched", g.contract(a, b, "bkt", "knub", "btnu"));
  g.add_output("two", g.contract(a, b, "bkt", "kntc", "bnc"));
  g.add_output("gram", g.contract(a, a, "bkt", "ckt", "bc"));
  fusion::optimize_report report;
  (void)fusion::optimize(g, options, &report);
  EXPECT_GE(applied(report, "split_sum"), 3u);
  expect_agrees(g, options);
}

// The filter's gradient, [out, in / groups, 3, 3], of images of the same size, times 2.
graph filter_gradient(std::int64_t images, std::int64_t in, std::int64_t out, std::int64_t side,
                      std::int64_t groups = 1) {
  const convolution_attribute c{
      .form = convolution_attribute::filter, .stride = {1, 2}, .pad_low = {1, 0}, .pad_high = {1, 1}, .groups = groups};
  graph g;
  const node_id x = g.parameter("x", dtype::f32, {images, in, side, side + 2});
  const node_id y = g.parameter("y", dtype::f32, {images, out, side, side / 2 + 1});
  const node_id w = g.convolution(x, y, c, {out, in / groups, 3, 3});
  g.add_output("w", g.add(w, w));
  return g;
}

TEST(egraph_plans, gradients_of_small_filters_are_split_by_image_by_cost) {
  fusion::optimize_report whole, parts;
  const graph g = filter_gradient(4, 64, 64, 56);
  fusion::optimize_options options, in_one;
  options.disabled = {"convolution_to_contract"}, options.explain = true;
  in_one.disabled = {"convolution_to_contract", "split_filter"};
  EXPECT_EQ(kernel_count(fusion::optimize(g, options, &parts)), 2);  // the doubling with the sum of the parts
  EXPECT_NE(parts.explain.find("split_filter"), std::string::npos);
  EXPECT_EQ(kernel_count(fusion::optimize(g, in_one, &whole)), 1);
  EXPECT_LT(parts.predicted_seconds, 0.6 * whole.predicted_seconds);
  EXPECT_EQ(kernel_count(fusion::optimize(filter_gradient(1, 64, 64, 56), options)), 1);  // no parts
  // Occupies the device as it is.
  EXPECT_EQ(kernel_count(fusion::optimize(filter_gradient(4, 2048, 2048, 16), options)), 1);
  fusion::optimize_options sequential = options;
  sequential.device.parallel = false;
  EXPECT_EQ(kernel_count(fusion::optimize(g, sequential)), 1);
}

TEST(egraph_plans, filters_of_images_agree) {
  fusion::optimize_options options;
  options.device.compute_units = 500, options.device.split_terms = 1, options.device.launch = {};
  options.device.matmul_flops = 1e6;
  for (const std::int64_t groups : {1, 2}) {
    const graph g = filter_gradient(3, 4, 6, 5, groups);
    fusion::optimize_report report;
    (void)fusion::optimize(g, options, &report);
    EXPECT_EQ(applied(report, "split_filter"), 1u);
    expect_agrees(g, options);
  }
}

TEST(egraph_plans, a_device_that_takes_no_time_or_for_ever_is_refused) {
  const graph g = filter_gradient(1, 2, 2, 4);
  const auto refused = [&](auto change) {
    fusion::optimize_options options;
    change(options.device);
    return support::refusal([&] { (void)fusion::optimize(g, options); });
  };
  EXPECT_NE(refused([](device_profile& on) { on.compute_units = 0; }).find("compute_units is 0"), std::string::npos);
  EXPECT_NE(refused([](device_profile& on) { on.split_terms = 0; }).find("split_terms"), std::string::npos);
  EXPECT_NE(refused([](device_profile& on) { on.bandwidth = 0; }).find("bandwidth"), std::string::npos);
  EXPECT_NE(refused([](device_profile& on) { on.launch.group = -1; }).find("launch.group"), std::string::npos);
  EXPECT_NE(refused([](device_profile& on) { on.scalar_flops = std::nan(""); }).find("nan"), std::string::npos);
  EXPECT_EQ(refused([](device_profile& on) { on.launch = {}; }), "no error");
}

// sum((x - y)^2) of n elements
graph squared_distance(const shape& extents) {
  graph g;
  const node_id d = g.subtract(g.input("x", dtype::f32, extents), g.input("y", dtype::f32, extents));
  g.add_output("y", total(g, g.multiply(d, d)));
  return g;
}

TEST(egraph_plans, few_long_rows_are_split_by_cost) {
  fusion::optimize_report whole, parts;
  const graph g = squared_distance({64, 64, 56, 56});
  EXPECT_EQ(kernel_count(fusion::optimize(g, {.explain = true}, &parts)),
            2);  // the differences' squares are read as parts
  EXPECT_NE(parts.explain.find("split_reduce"), std::string::npos);
  EXPECT_EQ(kernel_count(fusion::optimize(g, {.disabled = {"split_reduce"}}, &whole)), 1);
  EXPECT_LT(parts.predicted_seconds, 0.1 * whole.predicted_seconds);
  EXPECT_EQ(kernel_count(fusion::optimize(squared_distance({2'000'003}))), 3);  // a prime: what is left over, beside
  EXPECT_EQ(kernel_count(fusion::optimize(squared_distance({1024}))), 1);
  fusion::optimize_options sequential;
  sequential.device.parallel = false;
  EXPECT_EQ(kernel_count(fusion::optimize(g, sequential)), 1);
}

TEST(egraph_plans, split_rows_agree_for_every_reduction) {
  fusion::optimize_options options;
  options.device.compute_units = 500, options.device.split_terms = 1;
  options.device.launch = {}, options.device.region_once = 0;  // so that one more kernel pays
  graph g;
  const node_id x = g.parameter("x", dtype::f32, {3, 5, 7, 11}), y = g.parameter("y", dtype::f32, {2, 400});
  const node_id i = g.cast(g.multiply(x, g.full_like(x, 100)), dtype::i32);
  const std::pair<const char*, reduce_kind> kinds[] = {{"sum", reduce_kind::sum},
                                                       {"max", reduce_kind::max},
                                                       {"min", reduce_kind::min},
                                                       {"product", reduce_kind::product}};
  for (const auto& [name, kind] : kinds) {
    int count = 0;
    for (const std::uint32_t axes : {0b1111u, 0b0110u, 0b1101u, 0b0011u, 0b1000u}) {
      g.add_output(fmt::format("{}{}", name, count++), g.reduce(kind, x, axes));
    }
    g.add_output(fmt::format("{} of integers", name), g.reduce(kind, i, 0b1111));
  }
  g.add_output("dot", g.contract(y, y, "ik", "ik", "i"));
  g.add_output("squares", total(g, g.multiply(y, exp(g, y))));
  fusion::optimize_report report;
  (void)fusion::optimize(g, options, &report);
  EXPECT_GE(applied(report, "split_reduce"), 20u);
  EXPECT_GE(applied(report, "split_sum"), 1u);
  expect_agrees(g, options);
}

// Whatever axes the parts are along; more, and other reductions, remain rows.
TEST(egraph_plans, sums_of_few_parts_of_a_product_have_no_rows) {
  const auto row_axes = [](const graph& plan) {
    int found = 0;
    for (node_id id{0}; id < plan.size(); ++id) {
      if (plan[id].kind == op::region) found += plan.get<region_attribute>(id).row_axes;
    }
    return found;
  };
  const auto product_of = [](graph& g, const shape& parts, std::uint32_t axes, reduce_kind kind) {
    const node_id a = g.parameter("a", dtype::f32, {parts[0], 6, 20}), b = g.parameter("b", dtype::f32, {parts[1], 20});
    g.add_output("y", g.reduce(kind, g.contract(a, b, "pmk", "nk", "pmn"), axes));
  };
  for (const std::uint32_t axes : {0b001u, 0b100u, 0b101u}) {
    graph g;
    product_of(g,
               {axes == 0b001u   ? 4
                : axes == 0b100u ? 7
                                 : 2,
                axes == 0b001u   ? 7
                : axes == 0b100u ? 4
                                 : 2},
               axes, reduce_kind::sum);
    EXPECT_EQ(row_axes(optimized(g)), 0) << axes;
    expect_agrees(g);
    fusion::optimize_options without;
    without.disabled = {"sum_parts"};
    EXPECT_GE(row_axes(optimized(g, without)), 1) << axes;
  }
  for (const reduce_kind kind : {reduce_kind::sum, reduce_kind::max}) {
    graph g;
    product_of(g, {kind == reduce_kind::sum ? 5 : 4, 7}, 1, kind);
    EXPECT_GE(row_axes(optimized(g)), 1);
  }
}

TEST(egraph_plans, explain_names_rules_and_failed_guards) {
  fusion::optimize_report report;
  (void)fusion::optimize(mlp_training(6, 7, 5, 3), {.explain = true}, &report);
  EXPECT_NE(report.explain.find("matmul_epilogue"), std::string::npos);
  EXPECT_NE(report.explain.find("relu_mask"), std::string::npos);
  EXPECT_NE(report.explain.find("not fused"), std::string::npos);
  EXPECT_NE(report.explain.find("the rows are other axes"), std::string::npos);
  EXPECT_GT(report.enodes, report.nodes_in);
}

// What each kernel computes of the source, and what the other choices would cost: the part of a kernel.
TEST(egraph_plans, explain_names_operations_modules_and_costs) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64, 96});
  node_id h;
  {
    const graph::scope in(g, "up");
    h = g.contract(x, g.parameter("up.weight", dtype::f32, {128, 96}), "mk", "nk", "mn");
  }
  {
    const graph::scope in(g, "act");
    h = relu(g, h);
  }
  g.add_output("h", h);
  g.add_output("rows", g.reduce(reduce_kind::sum, h, {1}));
  fusion::optimize_report report;
  const graph plan = fusion::optimize(g, {.explain = true}, &report);
  std::map<std::string, std::string> parts;  // by the name of the kernel
  for (std::size_t at = report.explain.find("\n\n"); at != std::string::npos;) {
    const std::size_t end = report.explain.find("\n\n", at + 2);
    const std::string part = report.explain.substr(at + 2, end - at - 2);
    parts[part.substr(0, part.find(' '))] = part;
    at = end;
  }
  int kernels = 0;
  for (node_id id{0}; id < plan.size(); ++id) {
    if (info(plan[id].kind).stage == op_stage::leaf) continue;
    ++kernels;
    const std::string& part = parts[fmt::format("%{}", id)];
    if (plan[id].kind == op::matmul) {
      EXPECT_THAT(part, testing::HasSubstr("  computes up: contract\n  computes act: less_equal, select\n"));
      EXPECT_THAT(part, testing::HasSubstr("  reads x, up.weight\n"));
      EXPECT_THAT(part, testing::HasSubstr("  made by map_to_region contract_to_matmul matmul_epilogue\n"));
      EXPECT_THAT(part,
                  testing::ContainsRegex(
                      "  not chosen: %[0-9]+ as region of up: contract f32.64, 128. .not stored., [0-9.]+ us more"));
    } else {
      EXPECT_THAT(part, testing::HasSubstr("  computes reduce\n"));
    }
    EXPECT_THAT(part, testing::ContainsRegex("  takes [0-9.e+-]+ us\n"));
  }
  EXPECT_EQ(kernels, 2);
  EXPECT_EQ(parts.size(), 2u) << report.explain;
  EXPECT_THAT(report.explain, testing::StartsWith(fmt::format("2 kernels in {} groups, which take ", report.groups)));
}

// Every number in it is the head of a part, whose kernel may have several results; nothing else than the model
// computes.
TEST(egraph_plans, explain_numbers_what_it_names) {
  for (const auto& [name, source] : sample_graphs()) {
    fusion::optimize_report report;
    fusion::optimize_options options = on_units();
    options.disabled = {"add_zero"}, options.explain = true;
    const graph plan = fusion::optimize(source, options, &report);
    EXPECT_THAT(report.explain, testing::HasSubstr("left out: add_zero\n")) << name;
    std::set<std::string> known, used;
    std::size_t parts = 0, computing = 0;
    for (std::size_t at = 0, end = 0; at < report.explain.size(); at = end + 1) {
      end = report.explain.find('\n', at);
      const std::string line = report.explain.substr(at, end - at);
      const bool is_head = line.starts_with('%');
      parts += is_head;
      computing += line.starts_with("  computes ");
      const std::string_view names = is_head ? std::string_view(line).substr(0, line.find(" = ")) : line;
      for (std::size_t i = names.find('%'); i != std::string_view::npos; i = names.find('%', i + 1))
        (is_head ? known : used).insert(std::string(names.substr(i, names.find_first_not_of("0123456789", i + 1) - i)));
    }
    EXPECT_TRUE(std::ranges::includes(known, used)) << name << '\n' << report.explain;
    EXPECT_GE(computing, parts) << name;
    std::size_t values = 0;
    for (node_id id{0}; id < plan.size(); ++id) values += info(plan[id].kind).stage != op_stage::leaf;
    EXPECT_EQ(known.size(), values) << name;
  }
}

TEST(egraph_plans, equal_graphs_give_equal_plans) {
  EXPECT_EQ(to_text(optimized(transformer_graph(2))), to_text(optimized(transformer_graph(2))));
}

TEST(egraph_plans, layers_cost_the_same_each) {
  const auto kernels = [](int layers) { return kernel_count(optimized(transformer_graph(layers, {4, 128, 64}))); };
  const int two = kernels(2), three = kernels(3), four = kernels(4);
  EXPECT_EQ(four - three, three - two);
}

}  // namespace
