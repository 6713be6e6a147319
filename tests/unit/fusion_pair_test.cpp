// SPDX-License-Identifier: MIT
// Products with two right operands: which plans have them, and that they compute the same.
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/saturated_graph.hpp>
#include <meganeura/fusion/tuned_products.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/pair_samples.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::support;

// As few kernels as can be, whatever they take.
fusion::optimize_options options_of_launches() {
  fusion::optimize_options options;
  options.device.launch = {1, 1};
  options.device.matrix_units = matrix_units::cooperative;
  options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024;
  options.schedule = 0;
  options.disabled = {"split_sum"};
  options.explain = true;
  return options;
}

TEST(fusion_pair, spellings_are_one_kernel) {
  for (const named_pair& each : pairs()) {
    graph g;
    each.make(g, {40, 64, 48});
    fusion::optimize_report report;
    const graph plan = fusion::optimize(g, options_of_launches(), &report);
    ASSERT_EQ(products(plan).size(), 1u) << each.name << '\n' << report.explain;
    const matmul_attribute& product = *products(plan)[0];
    EXPECT_EQ(product.paired, each.is_paired) << each.name << '\n' << report.explain;
    EXPECT_EQ(1 + product.further.size(), each.results) << each.name;
    EXPECT_EQ(!product.start.is_empty(), each.has_prologue) << each.name << '\n' << report.explain;
    samples::expect_equal(g, plan, each.name);
  }
}

// Both elements of each pair from one kernel.
TEST(fusion_pair, rotary_embeddings_are_part_of_their_product) {
  for (const named_pair& each : rotary_products()) {
    for (const sizes& size : {sizes{40, 64, 48}, sizes{21, 36, 20}}) {
      graph g;
      each.make(g, size);
      fusion::optimize_report report;
      const graph plan = fusion::optimize(g, options_of_launches(), &report);
      const std::string what = std::string(each.name) + " " + std::to_string(size.columns);
      ASSERT_EQ(products(plan).size(), 1u) << what << '\n' << report.explain;
      EXPECT_NE(products(plan)[0]->half_distance, 0) << what << '\n' << report.explain;
      EXPECT_EQ(!products(plan)[0]->start.is_empty(), each.has_prologue) << what;
      samples::expect_equal(g, plan, what);
    }
  }
}

// Sines and cosines of all layers and heads are two tables of one head.
TEST(fusion_pair, rotary_embeddings_share_tables) {
  graph g;
  node_value x = matmul(f32_input(g, "x", {128, 576}), f32_input(g, "first", {576, 576}));  // beside the tables
  for (int i = 0; i < 12; ++i) {
    const node_value w = f32_input(g, ("w" + std::to_string(i)).c_str(), {576, 576});
    x = reshape(rope(reshape(matmul(x, w), shape{128, 9, 64}), rope_options{}), shape{128, 576});
  }
  g.add_output("y", x);
  fusion::optimize_options options = options_of_launches();
  options.device.launch = fusion::optimize_options().device.launch;
  options.schedule.reset();
  fusion::optimize_report report;
  const graph plan = fusion::optimize(g, options, &report);
  std::size_t tables = 0;
  for (node_id id{0}; id < plan.size(); ++id) {
    if (plan[id].kind != op::region) continue;
    ++tables;
    EXPECT_LE(plan[id].extents.elements(), 128 * 64) << report.explain;
  }
  EXPECT_EQ(tables, 2u) << report.explain;
  EXPECT_EQ(std::ranges::count(products(plan), 0, &matmul_attribute::half_distance), 1) << report.explain;
}

// What reads such a product does not become part of it again, nor what else reads the columns in pairs.
TEST(fusion_pair, behind_and_beside_rotary_embeddings) {
  for (int i = 0; i < 4; ++i) {
    graph g;
    const node_value x = f32_input(g, "x", {40, 64}), w = f32_input(g, "w", {64, 48});
    const node_value q = matmul(x, w);
    node_value y = rope(reshape(q, shape{40, 2, 24}), rope_options{});
    if (i == 0) y = relu(y) * 0.5;
    if (i == 1) g.add_output("q", q);
    if (i == 2) y = matmul(reshape(y, shape{40, 48}), transpose(w));
    if (i == 3) y = y + flip(reshape(q, shape{40, 2, 24}), 2);
    g.add_output("y", y);
    samples::expect_equal(g, fusion::optimize(g, options_of_launches()), std::to_string(i));
  }
}

// Gradients read both products, and what they store is read of one kernel.
TEST(fusion_pair, of_a_training_step) {
  for (const std::int64_t layers : {1, 3}) {
    graph g;
    node_value x = f32_input(g, "x", {40, 64});
    std::vector<node_id> weights;
    const auto weight = [&](const std::string& name, const shape& extents) {
      weights.push_back(g.parameter(name, dtype::f32, extents));
      return node_value(g, weights.back());
    };
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string number = std::to_string(i);
      const node_value w = weight("w" + number, {64, 48}), v = weight("v" + number, {64, 48});
      x = x + matmul(silu(matmul(x, w)) * matmul(x, v), weight("down" + number, {48, 64}));
    }
    const std::vector<node_id> slopes = gradients(g, sum(sum(square(x), 1), 0).id(), weights);
    for (std::size_t i = 0; i < slopes.size(); ++i) g.add_output("d" + std::to_string(i), slopes[i]);
    fusion::optimize_report report;
    const graph plan = fusion::optimize(g, options_of_launches(), &report);
    std::int64_t found = 0;
    for (const matmul_attribute* product : products(plan)) found += product->paired && product->further.size() == 2;
    EXPECT_EQ(found, layers) << report.explain;
    samples::expect_equal(g, plan, std::to_string(layers));
  }
}

// Other left operands, another size, or read in another order.
TEST(fusion_pair, look_alikes_are_not) {
  const std::vector<std::pair<const char*, std::function<node_value(graph&)>>> all{
      {"two left operands",
       [](graph& g) {
         const node_value x = f32_input(g, "x", {48, 64}), other = f32_input(g, "other", {48, 64});
         return silu(matmul(x, f32_input(g, "w", {64, 48}))) * matmul(other, f32_input(g, "v", {64, 48}));
       }},
      {"a column",
       [](graph& g) {
         const node_value x = f32_input(g, "x", {48, 64});
         return silu(matmul(x, f32_input(g, "w", {64, 48}))) * matmul(x, f32_input(g, "v", {64, 1}));
       }},
      {"transposed",
       [](graph& g) {
         const node_value x = f32_input(g, "x", {48, 64});
         return silu(matmul(x, f32_input(g, "w", {64, 48}))) * transpose(matmul(x, f32_input(g, "v", {64, 48})));
       }},
      {"of another layout", [](graph& g) {
         const node_value x = f32_input(g, "x", {48, 64});
         return silu(matmul(x, f32_input(g, "w", {64, 48}))) * matmul(x, transpose(f32_input(g, "v", {48, 64})));
       }}};
  for (const auto& [name, make] : all) {
    graph g;
    g.add_output("y", make(g));
    const graph plan = fusion::optimize(g, options_of_launches());
    for (const matmul_attribute* product : products(plan)) EXPECT_FALSE(product->paired) << name;
    samples::expect_equal(g, plan, name);
  }
}

// The second right operand is no operand of what is done to the sums, not even where that reads it, or reads something
// that lies as it does. Sums are short: else what is stored is not computed twice.
TEST(fusion_pair, what_it_multiplies_is_read_anew) {
  graph alike;
  const node_id left = alike.input("x", dtype::f32, {40, 16});
  const node_id a = alike.input("a", dtype::f32, {48}), b = alike.input("b", dtype::f32, {48});
  const auto rows = [&](node_id of, std::int64_t count) { return alike.expand_axes(of, {count, 48}, 1); };
  const node_id both = alike.multiply(alike.contract(left, rows(a, 16), "ik", "kj", "ij"),
                                      alike.contract(left, rows(b, 16), "ik", "kj", "ij"));
  alike.add_output("both", both);
  alike.add_output("y", alike.add(both, rows(b, 40)));
  alike.add_output("z", alike.add(both, rows(a, 40)));
  graph square;
  const node_id x = square.input("x", dtype::f32, {16, 16});
  const node_id w = square.input("w", dtype::f32, {16, 16}), v = square.input("v", dtype::f32, {16, 16});
  const node_id of_both =
      square.multiply(square.contract(x, w, "ik", "kj", "ij"), square.contract(x, v, "ik", "kj", "ij"));
  square.add_output("both", of_both);
  square.add_output("y", square.add(of_both, v));
  square.add_output("z", square.add(of_both, w));
  for (const graph* each : {&alike, &square}) {
    fusion::optimize_report report;
    const fusion::saturated_graph all = fusion::saturate(*each, options_of_launches(), report);
    std::size_t pairs = 0;
    for (egraph::enode_id id{0}; id < all.graph.node_count(); ++id) {
      const auto* product = std::get_if<matmul_attribute>(&all.graph.attribute_of(id));
      if (product == nullptr || !product->paired) continue;
      ++pairs;
      for (std::size_t i = 1; i < product->finish.accesses.size(); ++i)
        EXPECT_NE(product->finish.accesses[i].source, 2) << to_string(all.graph.attribute_of(id));
    }
    EXPECT_GT(pairs, 1u);
    samples::expect_all_forms_agree(*each, samples::random_leaves(*each, -2, 2), options_of_launches());
    samples::expect_equal(*each, fusion::optimize(*each, options_of_launches()), "read anew");
  }
}

// What was measured of one result says nothing of several, which only matrix units store.
TEST(fusion_pair, tuned_products_of_several_results_stay_on_units) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {512, 512}), w = g.input("w", dtype::f32, {512, 512});
  const node_id sum = g.contract(x, w, "ik", "kj", "ij");
  g.add_output("sum", sum);
  g.add_output("y", g.map(scalar_op::tanh, {sum}));
  fusion::optimize_options options = options_of_launches();
  options.schedule = {};
  auto tuned = std::make_shared<fusion::tuned_products>();
  tuned->set({1, 512, 512, 512}, precision::exact, {});
  for (const bool is_tuned : {false, true}) {
    options.tuned = is_tuned ? tuned : nullptr;
    const graph plan = fusion::optimize(g, options);
    ASSERT_EQ(products(plan).size(), 1u);
    EXPECT_EQ(products(plan)[0]->further.size(), 1u);
    EXPECT_TRUE(products(plan)[0]->schedule.is_on_units()) << to_text(plan);
  }
}

// What is decided by a sum is decided by one kernel: what is kept could be added up by another one.
TEST(fusion_pair, decisions_are_made_once) {
  for (const bool is_kept : {false, true}) {
    graph g;
    const node_value x = f32_input(g, "x", {40, 64});
    const node_value first = matmul(x, f32_input(g, "w", {64, 48})), second = matmul(x, f32_input(g, "v", {64, 48}));
    g.add_output("y", select(less(0.0, first), second, second * 2.0));
    if (is_kept) g.add_output("first", first);
    const graph plan = fusion::optimize(g, options_of_launches());
    for (const matmul_attribute* product : products(plan)) EXPECT_EQ(product->paired, !is_kept);
    samples::expect_equal(g, plan, is_kept ? "kept" : "alone");
  }
}

TEST(fusion_pair, only_where_it_may) {
  graph g;
  pairs()[0].make(g, {40, 64, 48});
  for (int i = 0; i < 4; ++i) {
    fusion::optimize_options options = options_of_launches();
    if (i == 0) options.disabled = {"fusion", "products"};
    if (i == 1) options.matrix_units = false;
    if (i == 2) options.disabled.push_back("matmul_pair");
    if (i == 3) options.region.buffers = 2;
    for (const matmul_attribute* product : products(fusion::optimize(g, options))) EXPECT_FALSE(product->paired) << i;
  }
}

}  // namespace
