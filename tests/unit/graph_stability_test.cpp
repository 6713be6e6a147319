// SPDX-License-Identifier: MIT
// What hangs on an error that a device may make is left out by the tests of random graphs.
#include <oracle/tolerance.hpp>
#include <support/random_program.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

namespace {

using namespace meganeura;

TEST(graph_stability, what_hangs_on_the_rounding_of_a_quotient_is_left_out) {
  const shape extents{4};
  graph g;
  const node_id x = g.input("x", dtype::f32, extents);
  scalar_builder b;
  const scalar_ref a = b.argument(0, dtype::f32), quotient = b.binary(scalar_op::divide, a, a);
  g.add_output("y", g.map(b.finish(b.unary(scalar_op::log, quotient)), std::span(&x, 1), dtype::f32));
  const oracle::tensors<double> leaves{{"x", {extents, {3, 5, 7, 11}}}};
  const kernels::step_values step;
  const support::stable_run truth(g, leaves, true, step);
  support::verdict v;
  truth.expect_output("y", {{"y", {extents, {0, 2.5 * 0x1p-23, -2.5 * 0x1p-23, 0}}}}, v, oracle::tolerance(dtype::f32));
  EXPECT_FALSE(v.failed()) << v.text;
  EXPECT_EQ(v.unstable, 1u);
}

// Of a graph with one output that is found as it should be.
support::verdict verdict_of(graph& g, node_id value, const oracle::tensors<double>& leaves) {
  g.add_output("y", value);
  const support::stable_run truth(g, leaves, true, {});
  support::verdict v;
  truth.expect_output("y", truth.outputs(), v);
  return v;
}

TEST(graph_stability, what_is_nothing_but_rounding_is_left_out) {
  const shape extents{3};
  const oracle::tensors<double> leaves{{"x", {extents, {3, 5, 7}}}};
  const auto left_out = [&](auto&& build) {
    graph g;
    const node_id x = g.input("x", dtype::f32, extents);
    return verdict_of(g, build(g, x), leaves).unstable == 1;
  };
  const auto third = [](graph& g, node_id x) { return g.divide(x, g.full_like(x, 3)); };
  EXPECT_TRUE(left_out([](graph& g, node_id x) { return g.map(scalar_op::floor, {g.divide(x, x)}); }));
  EXPECT_TRUE(left_out([&](graph& g, node_id x) {  // 3 thirds less the whole: a zero of f32, noise of f64
    const node_id third_of_x = third(g, x);
    const node_id rest = g.subtract(g.add(third_of_x, g.add(third_of_x, third_of_x)), x);
    return g.divide(rest, rest);
  }));
  EXPECT_TRUE(left_out([](graph& g, node_id x) {  // either zero is the greater
    const node_id zero = g.multiply(x, g.full_like(x, 0));
    return g.map(scalar_op::reciprocal, {g.map(scalar_op::maximum, {zero, g.map(scalar_op::negate, {zero})})});
  }));
  EXPECT_FALSE(left_out([&](graph& g, node_id x) { return third(g, x); }));
  EXPECT_FALSE(left_out([](graph& g, node_id x) { return g.map(scalar_op::floor, {g.add(x, x)}); }));
  EXPECT_FALSE(left_out([](graph& g, node_id x) { return g.map(scalar_op::floor, {g.multiply(x, x)}); }));
}

TEST(graph_stability, a_sum_moves_by_the_rounding_of_its_terms) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {3});
  g.add_output("y", g.reduce(reduce_kind::sum, x, 1));
  const double small = 0.1f, large = 1.7f;
  const oracle::tensors<double> leaves{{"x", {shape{3}, {large, small, -large}}}};
  const support::stable_run truth(g, leaves, true, {});
  for (double off : {0x1p-20, 0x1p-10}) {
    support::verdict v;
    truth.expect_output("y", {{"y", {{}, {truth.outputs().at("y")[0] + off}}}}, v);
    EXPECT_EQ(v.failed(), off == 0x1p-10) << v.text;
  }
}

TEST(graph_stability, a_tap_outside_of_the_image_beside_an_infinite_factor_is_left_out) {
  for (double factor : {1.0, std::numeric_limits<double>::infinity()}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {1, 1, 3}), w = g.input("w", dtype::f32, {1, 1, 3});
    convolution_attribute c;
    c.spatial = 1, c.pad_low[0] = c.pad_high[0] = 1;
    const node_id y = g.convolution(x, w, c, {1, 1, 3});
    const oracle::tensors<double> leaves{{"x", {shape{1, 1, 3}, {1, 2, 3}}}, {"w", {shape{1, 1, 3}, {factor, 1, 1}}}};
    EXPECT_EQ(verdict_of(g, y, leaves).unstable, std::isinf(factor) ? 1u : 0u);
  }
}

}  // namespace
