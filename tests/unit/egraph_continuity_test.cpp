// SPDX-License-Identifier: MIT
// Values that decide something (comparisons, roundings, choices) are spelled in one way wherever they are computed.
#include <meganeura/egraph/continuity.hpp>
#include <meganeura/egraph/egraph.hpp>

#include <oracle/interpreter.hpp>
#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::samples;
using egraph::class_id;

node_id equal_to(graph& g, node_id a, node_id b) {
  scalar_builder s;
  const scalar_ref same = s.binary(scalar_op::equal, s.argument(0, dtype::f32), s.argument(1, dtype::f32));
  const node_id operands[] = {a, b};
  return g.map(s.finish(s.convert(same, dtype::f32)), operands, dtype::f32);
}

/// Runs source and plan in f32: sums in the same order, so that decided values have to be the same bits.
void expect_same_decisions(const graph& g, const fusion::optimize_options& options = {}) {
  oracle::tensors<float> leaves;
  std::uint64_t seed = 0;
  for (node_id leaf : g.leaves(op::input)) {
    leaves[g.get<leaf_attribute>(leaf).name] =
        oracle::random_tensor<float>(g[leaf].extents, ++seed, -2, 2, g[leaf].type);
  }
  const graph plan = fusion::optimize(g, options);
  const auto expected = oracle::interpreter<float>(g, leaves).run(),
             actual = oracle::interpreter<float>(plan, leaves).run();
  for (const auto& [name, value] : expected)
    EXPECT_EQ(actual.at(name).values, value.values) << name << '\n' << to_text(plan);
}

graph compares_with_its_row_maximum(dtype type) {
  graph g;
  const node_id x = g.input("x", type, {16, 33});
  const node_id moved = g.add(x, g.full_like(x, 64));  // steps of f16 are so large there that elements become equal
  const node_id scaled = g.divide(moved, g.full_like(x, 3));
  const node_id other = g.multiply(moved, g.full_like(x, 0.333));  // another value, near it
  const node_id top = row_value(g, reduce_kind::max, scaled);
  const node_id ties = equal_to(g, scaled, top);
  g.add_output("ties", g.reduce(reduce_kind::sum, ties, 2));
  g.add_output("shares", g.divide(ties, row_value(g, reduce_kind::sum, ties)));
  g.add_output("scaled", scaled);
  g.add_output("other", other);
  return g;
}

// What is hidden lies where nothing is computed, so that no sum decides whether it is.
TEST(egraph_continuity, nothing_decides_by_what_is_far_below) {
  for (const scalar_op kind : {scalar_op::less, scalar_op::less_equal}) {
    for (const double bound : {-1e38, -0x1p64, -0x1p63, 1e38, -std::numeric_limits<double>::infinity()}) {
      scalar_builder s;
      const scalar_ref x = s.argument(0, dtype::f32);
      const scalar_program hidden =
          s.finish(s.select(s.binary(kind, x, s.constant(bound)), s.constant(0), s.argument(1, dtype::f32)));
      const bool is_far = bound == -1e38 || bound == -0x1p64, unstable[] = {true, true};
      EXPECT_EQ(egraph::deciding_arguments(hidden)[0], !is_far) << bound;
      EXPECT_EQ(egraph::trace_unstable(hidden, unstable).decision, !is_far) << bound;
      EXPECT_TRUE(egraph::trace_unstable(hidden, unstable).result);
    }
  }
}

TEST(egraph_continuity, a_value_compared_with_its_own_maximum_has_one_spelling) {
  expect_same_decisions(compares_with_its_row_maximum(dtype::f32));
  const graph g = compares_with_its_row_maximum(dtype::f32);
  fusion::optimize_report report;
  (void)fusion::optimize(g, {}, &report);
  EXPECT_EQ(applied(report, "divide_by_constant"), 0u);
}

TEST(egraph_continuity, a_compared_value_of_f16_is_rounded_wherever_it_is_computed) {
  expect_same_decisions(compares_with_its_row_maximum(dtype::f16));
}

TEST(egraph_continuity, what_decides_nothing_is_rewritten_still) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {8, 8}), y = g.input("y", dtype::f32, {8, 8});
  g.add_output("floor", g.map(scalar_op::floor, {g.map(scalar_op::exp, {g.divide(x, g.full_like(x, 3))})}));
  g.add_output("free", g.map(scalar_op::exp, {g.divide(y, g.full_like(y, 3))}));
  fusion::optimize_report report;
  (void)fusion::optimize(g, {}, &report);
  EXPECT_EQ(applied(report, "divide_by_constant"), 1u);
  expect_same_decisions([] {
    graph one;
    const node_id z = one.input("z", dtype::f32, {64, 64});
    one.add_output("y",
                   one.map(scalar_op::floor, {one.multiply(one.divide(z, one.full_like(z, 3)), one.full_like(z, 3))}));
    return one;
  }());
}

TEST(egraph_continuity, exact_rules_still_reach_what_decides) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {8, 8});
  const node_id twice = g.map(scalar_op::subtract, {x, g.map(scalar_op::negate, {x})});
  g.add_output("y", g.map(scalar_op::floor, {g.divide(twice, g.full_like(x, 4))}));
  fusion::optimize_report report;
  (void)fusion::optimize(g, {}, &report);
  EXPECT_EQ(applied(report, "subtract_negate"), 1u);
  EXPECT_EQ(applied(report, "divide_by_power_of_two"), 1u);
  expect_same_decisions(g);
}

int row_sums(const graph& plan) {
  int total = 0;
  for (node_id id : plan.leaves(op::region)) {
    for (const scalar_node& node : plan.get<region_attribute>(id).program.nodes) total += node.op == scalar_op::row_sum;
  }
  return total;
}

// Both readers of a sum decide by it: added up in two kernels of different shapes, it would be two numbers.
TEST(egraph_continuity, a_sum_that_two_kernels_decide_by_is_computed_once) {
  const auto sums = [](bool decide) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {64, 40});
    const node_id s = g.reduce(reduce_kind::sum, x, 2);
    const scalar_op kind = decide ? scalar_op::floor : scalar_op::exp;
    g.add_output("rows", g.map(kind, {s}));
    g.add_output("elements", g.map(kind, {g.multiply(x, g.expand_axes(s, {64, 40}, 2))}));
    expect_plan_agrees(g, random_leaves(g));
    return row_sums(fusion::optimize(g, {.disabled = {"merge_regions"}}));  // side by side it is one sum anyway
  };
  EXPECT_EQ(sums(true), 1);
  EXPECT_EQ(sums(false), 2);
}

TEST(egraph_continuity, a_decision_by_a_sum_is_made_in_one_kernel) {
  const auto sums = [](auto decide) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {64, 40});
    const node_id mask = decide(g, g.reduce(reduce_kind::sum, x, 2));
    g.add_output("rows", exp(g, mask));
    g.add_output("elements", g.multiply(x, g.expand_axes(mask, {64, 40}, 2)));
    expect_plan_agrees(g, random_leaves(g));
    return row_sums(fusion::optimize(g, {.disabled = {"merge_regions"}}));  // side by side it is one sum anyway
  };
  for (scalar_op kind : {scalar_op::floor, scalar_op::ceil, scalar_op::round, scalar_op::sign})
    EXPECT_EQ(sums([&](graph& g, node_id s) { return g.map(kind, {s}); }), 1) << info(kind).name;
  EXPECT_EQ(sums([](graph& g, node_id s) { return g.cast(g.cast(s, dtype::i32), dtype::f32); }), 1) << "conversion";
  EXPECT_EQ(sums([](graph& g, node_id s) { return equal_to(g, s, g.full_like(s, 3)); }), 1) << "comparison";
  EXPECT_EQ(sums([](graph& g, node_id s) { return g.map(scalar_op::tanh, {s}); }), 2);
}

TEST(egraph_continuity, a_short_product_two_kernels_decide_by_is_computed_once) {
  const auto products = [](scalar_op kind) {
    graph g;
    const node_id y =
        g.contract(g.input("a", dtype::f32, {64, 4}), g.input("b", dtype::f32, {4, 64}), "ik", "kj", "ij");
    g.add_output("first", g.map(kind, {y}));
    g.add_output("second", g.map(kind, {g.add(y, y)}));
    expect_plan_agrees(g, random_leaves(g));
    fusion::optimize_options options;
    options.device.product_once = 0;  // twice is cheap
    return count(fusion::optimize(g, options), op::matmul);
  };
  EXPECT_EQ(products(scalar_op::floor), 1);
  EXPECT_EQ(products(scalar_op::exp), 2);
}

TEST(egraph_continuity, a_sum_compared_with_itself_is_added_up_once_for_both_sides) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {6, 4, 2, 4, 2}), b = g.input("b", dtype::f32, {2, 4, 6});
  const node_id product = g.contract(a, b, "cdbae", "edc", "ab"), y = g.add(product, g.full_like(product, 3));
  g.add_output("same", equal_to(g, y, y));
  g.add_output("flipped", g.flip(y, 0));
  EXPECT_GT(expect_all_forms_agree(g, random_leaves(g)), 0u);
  expect_plan_agrees(g, random_leaves(g));
}

// The largest of them hangs on every bit, as a comparison does.
TEST(egraph_continuity, the_place_of_an_extremum_is_a_decision) {
  for (const reduce_kind kind : {reduce_kind::arg_max, reduce_kind::arg_min}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {64, 40});
    const node_id s = g.reduce(reduce_kind::sum, x, 2);
    g.add_output("place", g.reduce(kind, g.reshape(s, {8, 8}), 2));
    g.add_output("elements", g.map(scalar_op::floor, {g.multiply(x, g.expand_axes(s, {64, 40}, 2))}));
    expect_plan_agrees(g, random_leaves(g));
    EXPECT_EQ(row_sums(fusion::optimize(g)), 1);
  }
  const auto rewritten = [](dtype type, reduce_kind kind) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {16, 33});
    const node_id third = g.divide(x, g.full_like(x, 3));
    g.add_output("y", g.reduce(kind, g.cast(third, type), 2));
    fusion::optimize_report report;
    (void)fusion::optimize(g, {}, &report);
    return applied(report, "divide_by_constant");
  };
  EXPECT_EQ(rewritten(dtype::f32, reduce_kind::arg_max), 0u);
  EXPECT_EQ(rewritten(dtype::f16, reduce_kind::arg_min), 0u);
  EXPECT_EQ(rewritten(dtype::f32, reduce_kind::max), 1u);

  egraph::engine g;  // integers are exact
  const class_id whole = g.add(op::input, dtype::i32, {4}, leaf_attribute{"x"}, {});
  (void)g.add(op::reduce, dtype::i32, {}, reduce_attribute{reduce_kind::arg_max, 1}, {&whole, 1});
  EXPECT_FALSE(g[whole].decides);
}

// Decisions of the next step: equal(s, x / 3) is true everywhere when x is the same again.
TEST(egraph_continuity, what_a_state_carries_into_a_decision_has_one_spelling) {
  const auto carried = [](scalar_op reader, bool chained) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {8, 8}), kept = g.state("kept", dtype::f32, {8, 8});
    const node_id later = chained ? g.state("later", dtype::f32, {8, 8}) : kept;
    g.assign(kept, g.divide(x, g.full_like(x, 3)));
    if (chained) g.assign(later, kept);
    g.add_output("y", g.map(reader, {later}));
    fusion::optimize_report report;
    (void)fusion::optimize(g, {}, &report);
    return applied(report, "divide_by_constant");
  };
  for (const bool chained : {false, true}) {
    EXPECT_EQ(carried(scalar_op::floor, chained), 0u);
    EXPECT_EQ(carried(scalar_op::exp, chained), 1u);
  }

  graph g;
  const node_id x = g.input("x", dtype::f32, {16, 33}), kept = g.state("kept", dtype::f32, {16, 33});
  const node_id third = g.divide(x, g.full_like(x, 3));
  g.assign(kept, third);
  g.add_output("same", equal_to(g, kept, third));
  oracle::tensors<float> leaves{{"x", oracle::random_tensor<float>({16, 33}, 1, -2, 2, dtype::f32)},
                                {"kept", oracle::tensor<float>({16, 33})}};
  const graph plan = fusion::optimize(g);
  oracle::interpreter<float> run(plan, leaves);
  (void)run.run();
  run.clear();
  const auto second = run.run();
  for (const float same : second.at("same").values) EXPECT_EQ(same, 1);
}

TEST(egraph_continuity, programs_know_what_decides) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32), y = b.argument(1, dtype::f32), z = b.argument(2, dtype::f32);
  const scalar_ref below = b.binary(scalar_op::less, x, y);
  using list = program_flags;
  EXPECT_EQ(egraph::deciding_arguments(b.finish(b.select(below, z, x))), (list{true, true, false}));
  EXPECT_EQ(egraph::deciding_arguments(b.finish(b.select(below, y, x))), (list{false, false}));  // a maximum
  EXPECT_EQ(egraph::deciding_arguments(b.finish(b.binary(scalar_op::add, x, b.unary(scalar_op::floor, y)))),
            (list{false, true}));
  const scalar_ref i = b.argument(3, dtype::i32), j = b.argument(4, dtype::i32);
  EXPECT_EQ(egraph::deciding_arguments(b.finish(b.select(b.binary(scalar_op::equal, i, j), x, y))),
            (list{false, false, false, false, false}));  // integers are exact
  EXPECT_EQ(egraph::deciding_arguments(b.finish(b.convert(x, dtype::i32))), (list{true}));
}

TEST(egraph_continuity, a_class_decides_for_all_it_is_computed_from_and_merged_with) {
  egraph::engine g;
  const dtype types[] = {dtype::f32, dtype::f32};
  const auto map = [&](scalar_op kind, class_id a) {
    const class_id operand[] = {a};
    return g.add(op::map, dtype::f32, {4}, map_attribute{single_op_program(kind, {types, 1})}, operand);
  };
  const class_id x = g.add(op::input, dtype::f32, {4}, leaf_attribute{"x"}, {});
  const class_id y = g.add(op::input, dtype::f32, {4}, leaf_attribute{"y"}, {});
  const class_id a = map(scalar_op::exp, x), b = map(scalar_op::tanh, y), floor = map(scalar_op::floor, a);
  EXPECT_TRUE(g[a].decides && g[x].decides);
  EXPECT_FALSE(g[floor].decides || g[b].decides || g[y].decides);
  g.merge(a, b);
  g.rebuild();
  EXPECT_TRUE(g[g.find(y)].decides);
}

}  // namespace
