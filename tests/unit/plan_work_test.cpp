// SPDX-License-Identifier: MIT
// What the steps of a plan have to move and to compute.
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/graph/view_map.hpp>
#include <meganeura/plan/work.hpp>
#include <meganeura/runtime/elementwise_optimizers.hpp>
#include <meganeura/runtime/training_graph.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

using namespace meganeura;

plan::execution_plan planned(const graph& g, fusion::optimize_options options = {}) {
  return plan::make_plan(fusion::optimize(g, options), plan::make_layout(g));
}

// Of the one step of that kind.
plan::work work_of(const plan::execution_plan& p, op kind) {
  plan::work found;
  std::size_t count = 0;
  for (const plan::step& s : p.steps) {
    if (s.kind == plan::step::copy || p.implementation[s.node].kind != kind) continue;
    found = plan::work_of(p, s);
    ++count;
  }
  EXPECT_EQ(count, 1u) << to_text(p);
  return found;
}

double flops_of(const plan::execution_plan& p) {
  double total = 0;
  for (const plan::step& s : p.steps) total += plan::work_of(p, s).flops;
  return total;
}

TEST(plan_work, a_product_counts_what_is_done_to_its_sums) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {16, 8}), w = g.parameter("w", dtype::f32, {8, 17});
  const node_id sums = g.contract(x, w, "mk", "kn", "mn");
  g.add_output("y", g.map(scalar_op::add, {sums, g.input("z", dtype::f32, {16, 17})}));
  const plan::work found = work_of(planned(g), op::matmul);
  EXPECT_EQ(found.flops, 2 * 16 * 17 * 8 + 16 * 17);
  EXPECT_EQ(found.bytes, 4u * (16 * 8 + 8 * 17 + 2 * 16 * 17));
}

TEST(plan_work, a_tensor_that_is_bound_twice_is_read_once) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {16, 16});
  g.add_output("y", g.contract(x, x, "mk", "kn", "mn"));
  EXPECT_EQ(work_of(planned(g), op::matmul).bytes, 4u * 2 * 16 * 16);
}

TEST(plan_work, a_tensor_that_is_read_in_part_counts_as_that_part) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64, 100});
  g.add_output("y", g.map(scalar_op::exp, {g.slice(x, 0, 8, 4)}));
  const plan::work found = work_of(planned(g), op::region);
  EXPECT_EQ(found.bytes, 4u * 2 * 4 * 100);
  EXPECT_EQ(found.flops, 4 * 100);
}

TEST(plan_work, of_a_table_no_more_is_read_than_is_looked_up) {
  graph g;
  const node_id table = g.parameter("table", dtype::f32, {5000, 32}), ids = g.input("ids", dtype::i32, {7});
  g.add_output("y", g.gather(table, ids, 0));
  EXPECT_EQ(work_of(planned(g), op::gather).bytes, 4u * (2 * 7 * 32 + 7));
}

TEST(plan_work, a_convolution_counts_as_the_primitive_does) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3, 8, 8}), w = g.parameter("w", dtype::f32, {5, 3, 3, 3});
  g.add_output("y", g.convolution(x, w, {}, {2, 5, 6, 6}));
  const plan::execution_plan p = planned(g);
  EXPECT_EQ(flops_of(p), 2.0 * 2 * 5 * 6 * 6 * 3 * 9);
  EXPECT_EQ(flops_of(p), g.flops());
}

// Reads and writes parameter and both moments, reads the gradient and 64 bytes of numbers.
TEST(plan_work, an_update_counts_both_ways_of_what_it_overwrites) {
  graph g;
  const node_id w = g.parameter("w", dtype::f32, {64});
  const node_id loss = g.reduce(reduce_kind::sum, g.map(scalar_op::exp, {w}), 1);
  const plan::execution_plan p = planned(make_training_graph(std::move(g), loss, adam{}));
  const auto update = std::ranges::find(p.steps, plan::step::optimizer, &plan::step::kind);
  ASSERT_NE(update, p.steps.end());
  const plan::work found = plan::work_of(p, *update);
  EXPECT_EQ(found.bytes, 4u * 64 * (2 + 2 * 2 + 1) + step_bytes);
  const auto& rule = p.implementation.get<optimizer_attribute>(update->node);
  EXPECT_EQ(found.flops, 64.0 * static_cast<double>(rule.program.operations()));
}

// What is overwritten by rows stays where it is.
TEST(plan_work, rows_written_into_a_state_are_what_moves) {
  graph g;
  const node_id cache = g.state("cache", dtype::f32, {1000, 8}), rows = g.input("rows", dtype::f32, {2, 8});
  const node_id position = g.input("position", dtype::i32, {});
  g.assign(cache, g.apply(op::update_rows, axis_attribute{0}, {cache, rows, position}));
  EXPECT_EQ(work_of(planned(g), op::update_rows).bytes, 4u * 2 * 2 * 8);
}

TEST(plan_work, the_floor_is_the_longer_of_bytes_and_flops_at_the_rates_of_what_computes_them) {
  device_profile rates;
  rates.bandwidth = 1e9, rates.matmul_flops = 8e9, rates.scalar_flops = 1e9, rates.compute_units = 1;
  rates.matrix_flops = 6e9;
  graph g;
  const node_id x = g.input("x", dtype::f32, {64, 512}), w = g.parameter("w", dtype::f32, {512, 64});
  g.add_output("y", g.contract(x, w, "mk", "kn", "mn"));
  const double flops = 2.0 * 64 * 64 * 512, bytes = 4 * (2 * 64 * 512 + 64 * 64);
  const auto floor = [&](bool on_units, precision wanted) {
    fusion::optimize_options options{.precision = wanted};
    options.device.matrix_units = matrix_units::emulated;
    if (on_units) options.schedule = 0;
    const plan::execution_plan p = planned(g, options);
    EXPECT_EQ(p.steps.size(), 1u) << to_text(p);
    return plan::floor_seconds(p, p.steps[0], rates);
  };
  EXPECT_DOUBLE_EQ(floor(false, precision::exact), flops / 8e9);
  EXPECT_DOUBLE_EQ(floor(true, precision::exact), flops / (0.34 * 6e9));
  EXPECT_DOUBLE_EQ(floor(true, precision::fast), flops / 6e9);
  rates.bandwidth = 1e6;
  EXPECT_DOUBLE_EQ(floor(false, precision::exact), bytes / 1e6);
  graph pointwise;
  pointwise.add_output("y", pointwise.map(scalar_op::exp, {pointwise.input("x", dtype::f32, {1000})}));
  rates.bandwidth = 1e12;
  const plan::execution_plan p = planned(pointwise);
  EXPECT_DOUBLE_EQ(plan::floor_seconds(p, p.steps[0], rates), 1000 / 1e9);
}

}  // namespace
