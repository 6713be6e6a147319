// SPDX-License-Identifier: MIT
// Ten thousand layers: building, differentiating and planning take time in proportion, and no stack.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>

namespace {

using namespace meganeura;

// h = max(h w + b, 0), a state that follows each b, an output of every layer, and one optimizer step over all.
graph trained(int layers) {
  graph g;
  const shape size{2, 4};
  node_id h = g.input("x", dtype::f32, size);
  std::vector<node_id> parameters;
  for (int i = 0; i < layers; ++i) {
    const std::string name = std::to_string(i);
    const node_id w = g.parameter("w" + name, dtype::f32, {4, 4}), b = g.parameter("b" + name, dtype::f32, {4});
    parameters.insert(parameters.end(), {w, b});
    const node_id sum = g.add(g.contract(h, w, "ik", "kj", "ij"), g.expand_axes(b, size, 1));
    h = g.map(scalar_op::maximum, {sum, g.full(size, 0)});
    g.assign(g.state("s" + name, dtype::f32, {4}), b);
    g.add_output(name, h);
  }
  const node_id loss = g.reduce(reduce_kind::sum, h, 3);
  const std::vector<node_id> found = gradients(g, loss, parameters);
  std::vector<node_id> pairs;
  for (std::size_t i = 0; i < found.size(); ++i) pairs.insert(pairs.end(), {parameters[i], found[i]});
  g.optimizer_step(optimizer(sgd{}).rule(), pairs);
  return pruned(g);
}

// A pointwise region that adds what it reads.
node_id region_of(graph& g, std::vector<node_id> operands) {
  const shape size = g[operands[0]].extents;
  index_map dense;
  dense.strides[0] = 1;
  scalar_builder b;
  scalar_ref sum = b.constant(0.5);
  region_attribute region{
      .space = size, .row_axes = 0, .per_row = false, .program = {}, .accesses = {}, .output = dense};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    dense.source = static_cast<int>(i);
    region.accesses.push_back(dense);
    sum = b.binary(scalar_op::add, sum, b.argument(static_cast<int>(i), dtype::f32));
  }
  region.program = b.finish(sum);
  return g.add_node(op::region, dtype::f32, size, region, operands);
}

// The same as implementation nodes: activations of all sizes live until the way back needs them.
graph implemented(int layers) {
  graph g;
  std::vector<node_id> activations, pairs;
  node_id h = g.input("x", dtype::f32, {64});
  for (int i = 0; i < layers; ++i) {
    const std::string name = std::to_string(i);
    pairs.insert(pairs.end(), {g.parameter("w" + name, dtype::f32, {64}), no_id});
    activations.push_back(h = region_of(g, {h, pairs[pairs.size() - 2]}));
    g.assign(g.state("s" + name, dtype::f32, {64}), pairs[pairs.size() - 2]);
  }
  node_id back = region_of(g, {h});
  for (auto i = static_cast<std::size_t>(layers); i-- > 0;) {
    pairs[2 * i + 1] = region_of(g, {back, activations[i]});
    back = region_of(g, {back, pairs[2 * i]});
  }
  g.optimizer_step(optimizer(adam{}).rule(), pairs);
  g.add_output("y", back);
  return g;
}

// Processor time, the best of three: the machine may be busy with other things.
template <class Work>
double seconds(Work&& work) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    work();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

constexpr int few = 2500, many = 10000;
constexpr double allowed = 9;  // four times the layers: 4 in proportion, 16 by the square

TEST(plan_scaling, graphs_and_gradients_grow_in_proportion_to_layers) {
  // As much memory either way, whose pages come from the system or are at hand.
  const double small = seconds([] {
    std::vector<graph> all;
    for (int i = 0; i < many / few; ++i) all.push_back(trained(few));
  });
  const double large = seconds([] { (void)trained(many); });
  EXPECT_LT(large / small, 3) << small << " s, " << large << " s";  // 1 in proportion, 4 by the square
}

TEST(plan_scaling, plans_grow_in_proportion_to_layers) {
  const auto planned = [](const graph& g) {
    const plan::layout parameters = plan::make_layout(g);
    return seconds([&] { (void)plan::make_plan(g, parameters); });
  };
  const graph large_graph = implemented(many);
  const double small = planned(implemented(few)), large = planned(large_graph);
  EXPECT_LT(large / small, allowed) << small << " s, " << large << " s";
  const plan::execution_plan p = plan::make_plan(large_graph, plan::make_layout(large_graph));
  EXPECT_LE(p.groups, 3u * many);
}

TEST(plan_scaling, plans_are_verified_in_time_in_proportion_to_layers) {
  const auto verified = [](int layers) {
    const graph g = implemented(layers);
    const plan::execution_plan p = plan::make_plan(g, plan::make_layout(g));
    return seconds([&] { plan::verify(p); });
  };
  const double small = verified(few), large = verified(many);
  EXPECT_LT(large / small, allowed) << small << " s, " << large << " s";
}

TEST(plan_scaling, names_are_found_in_time_in_proportion_to_their_number) {
  const auto found = [](int names) {
    graph g;
    for (int i = 0; i < names; ++i) (void)g.parameter("layers." + std::to_string(i), dtype::f32, {1});
    const plan::layout parameters = plan::make_layout(g);
    return seconds([&] {
      const plan::layout read = plan::paged(parameters, 1 << 20);
      for (const plan::named_tensor& tensor : read.tensors) ASSERT_EQ(read.find(tensor.name), &tensor);
      ASSERT_EQ(read.find("layers"), nullptr);
    });
  };
  const double small = found(5000), large = found(20000);
  EXPECT_LT(large / small, allowed) << small << " s, " << large << " s";
}

TEST(plan_scaling, a_program_of_many_operations_needs_no_stack) {
  scalar_builder b;
  scalar_ref x = b.argument(0, dtype::f32);
  for (int i = 0; i < 60000; ++i) x = b.unary(i % 2 ? scalar_op::tanh : scalar_op::sin, x);
  const scalar_program program = b.finish(x);
  EXPECT_EQ(program.nodes.size(), 60001u);
  EXPECT_GT(to_string(program).size(), 60001u);
}

}  // namespace
