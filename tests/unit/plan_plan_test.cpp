// SPDX-License-Identifier: MIT
// Plans of hand-made implementation graphs: groups, lifetimes, in-place results, gradients at their parameter's offset.
#include <meganeura/core/error.hpp>
#include <meganeura/plan/plan.hpp>

#include <gtest/gtest.h>

#include <random>

namespace {

using namespace meganeura;

index_map dense(const shape& extents, int source) {
  const view_attribute map = dense_view(extents);
  index_map a{.source = source, .offset = 0, .strides = {}, .bounded = 0, .low = {}, .high = {}, .fill = 0};
  std::copy(map.strides, map.strides + max_rank, a.strides);
  return a;
}

// A pointwise region adding its operands.
node_id sum(graph& g, std::vector<node_id> operands) {
  const shape extents = g[operands[0]].extents;
  scalar_builder builder;
  scalar_ref total = builder.argument(0, dtype::f32);
  region_attribute region{
      .space = extents, .row_axes = 0, .per_row = false, .program = {}, .accesses = {}, .output = dense(extents, 0)};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    region.accesses.push_back(dense(extents, static_cast<int>(i)));
    if (i) total = builder.binary(scalar_op::add, total, builder.argument(static_cast<int>(i), dtype::f32));
  }
  // A lone operand is doubled, so that every node computes something.
  if (operands.size() == 1) total = builder.binary(scalar_op::add, total, total);
  region.program = builder.finish(total);
  return g.add_node(op::region, dtype::f32, extents, region, operands);
}

TEST(plan_plan, independent_nodes_share_a_barrier_group) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64});
  const node_id a = sum(g, {x}), b = sum(g, {x, a}), c = sum(g, {a});
  g.add_output("y", sum(g, {b, c}));
  const auto p = plan::make_plan(std::move(g), {});
  plan::verify(p);
  EXPECT_EQ(p.steps.size(), 4u);
  EXPECT_EQ(p.groups, 3u);
}

TEST(plan_plan, a_chain_needs_the_memory_of_one_tensor_in_place_and_two_otherwise) {
  graph g;
  node_id x = g.input("x", dtype::f32, {1000});
  for (int i = 0; i < 6; ++i) x = sum(g, {x});
  g.add_output("y", x);
  const auto arena = [&](const plan::plan_options& options) {
    const auto p = plan::make_plan(g, {}, options);
    plan::verify(p);
    return p.area_bytes[static_cast<int>(plan::area::arena)];
  };
  EXPECT_EQ(arena({}), 4096u);
  EXPECT_EQ(arena({.share_memory = true, .late_scheduling = true, .in_place = false}), 2 * 4096u);
  EXPECT_EQ(arena({.share_memory = false, .late_scheduling = true, .in_place = false}), 6 * 4096u);
}

TEST(plan_plan, gradients_lie_at_their_parameters_offset_and_one_dispatch_updates_all) {
  graph g;
  std::vector<node_id> pairs;
  const node_id x = g.input("x", dtype::f32, {10});
  for (const char* name : {"a", "b", "c"}) {
    const node_id parameter = g.parameter(name, dtype::f32, {10});
    pairs.insert(pairs.end(), {parameter, sum(g, {x, parameter})});
  }
  g.add_output("loss", sum(g, {pairs[0], pairs[2]}));
  g.optimizer_step({.kind = optimizer_kind::adam, .momentum = false}, pairs);
  const auto parameters = plan::make_layout(g, op::parameter);
  const auto p = plan::make_plan(std::move(g), parameters);
  plan::verify(p);
  EXPECT_EQ(std::count_if(p.steps.begin(), p.steps.end(),
                          [](const plan::step& s) { return s.kind == plan::step::optimizer; }),
            1);
  const plan::step& last = p.steps.back();
  ASSERT_EQ(last.kind, plan::step::optimizer);
  EXPECT_EQ(last.bindings.size(), 5u);
  EXPECT_EQ(last.bindings[0].where.bytes, 512u + 40u);
  EXPECT_EQ(p.groups, 2u) << plan::to_text(p);  // "loss" reads parameters, so the update waits for it too
}

TEST(plan_plan, a_state_is_overwritten_directly_only_when_nobody_reads_the_old_value_later) {
  for (const bool read_later : {false, true}) {
    graph g;
    const node_id s = g.state("s", dtype::f32, {8}), x = g.input("x", dtype::f32, {8});
    const node_id value = sum(g, {sum(g, {s}), x});
    if (read_later) g.add_output("old", sum(g, {value, s}));
    g.assign(s, value);
    const auto p = plan::make_plan(std::move(g), {});
    plan::verify(p);
    const auto copies =
        std::count_if(p.steps.begin(), p.steps.end(), [](const plan::step& t) { return t.kind == plan::step::copy; });
    EXPECT_EQ(copies, read_later ? 1 : 0) << plan::to_text(p);
  }
}

TEST(plan_plan, random_graphs_verify_and_never_need_more_than_without_sharing) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    graph g;
    std::vector<node_id> pool = {g.input("x", dtype::f32, {64}), g.input("y", dtype::f32, {64})};
    for (int i = 0; i < 40; ++i) {
      std::vector<node_id> operands;
      for (std::size_t k = 0; k < 1 + random() % 3; ++k)
        operands.push_back(pool[pool.size() - 1 - random() % std::min<std::size_t>(pool.size(), 9)]);
      std::sort(operands.begin(), operands.end());
      operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
      pool.push_back(sum(g, operands));
    }
    g.add_output("z", pool.back());
    g.add_output("w", pool[pool.size() / 2]);
    const auto p = plan::make_plan(pruned(g), {});
    plan::verify(p);
    EXPECT_LE(p.area_bytes[static_cast<int>(plan::area::arena)], p.unaliased_arena_bytes);
  }
}

TEST(plan_plan, a_primitive_without_an_implementation_is_refused_by_name) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4, 4});
  g.add_output("y", g.reduce(reduce_kind::sum, x, 1));
  try {
    (void)plan::make_plan(std::move(g), {});
    FAIL();
  } catch (const error& e) {
    EXPECT_NE(std::string(e.what()).find("is a reduce, which no kernel implements"), std::string::npos) << e.what();
  }
}

TEST(plan_plan, a_tensor_past_32_bit_indices_is_refused) {
  graph g;
  g.add_output("y", sum(g, {g.input("x", dtype::f32, {1 << 20, 1 << 13})}));
  EXPECT_THROW((void)plan::make_plan(std::move(g), {}), error);
}

TEST(plan_plan, a_parameter_of_another_shape_is_refused) {
  graph g, other;
  g.add_output("y", sum(g, {g.parameter("w", dtype::f32, {4})}));
  (void)other.parameter("w", dtype::f32, {5});
  EXPECT_THROW((void)plan::make_plan(std::move(g), plan::make_layout(other, op::parameter)), error);
}

}  // namespace
