// SPDX-License-Identifier: MIT
// What hangs on an error that a device may make is left out by the tests of random graphs.
#include <oracle/tolerance.hpp>
#include <support/random_program.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

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

// Whether no other scalar than `build(graph, x)` would be called wrong.
bool is_left_out(const std::vector<double>& x, const std::function<node_id(graph&, node_id)>& build) {
  const shape extents{static_cast<std::int64_t>(x.size())};
  graph g;
  g.add_output("y", build(g, g.input("x", dtype::f32, extents)));
  const oracle::tensors<double> leaves{{"x", {extents, x}}};
  const support::stable_run truth(g, leaves, true, {});
  support::verdict v;
  truth.expect_output("y", {{"y", {{}, {std::isnan(truth.outputs().at("y")[0]) ? 1.0 : NAN}}}}, v);
  return !v.failed();
}

node_id sum(graph& g, node_id x) { return g.reduce(reduce_kind::sum, x, 1); }

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(graph_stability, what_hangs_on_the_order_of_a_sum_is_left_out) {
  const auto is_zero = [](graph& g, node_id x) {
    const node_id total = sum(g, x);
    return g.divide(total, total);
  };
  EXPECT_FALSE(is_left_out({1, 3, -1, -3}, is_zero));  // exact
  EXPECT_TRUE(is_left_out({0.1f, 0.3f, -0.1f, -0.3f}, is_zero));
  const auto is_last = [](graph& g, node_id x) {
    scalar_builder b;
    const scalar_ref is = b.binary(scalar_op::equal, b.argument(0, dtype::f32), b.constant(0.75, dtype::f32));
    const node_id total = sum(g, x);
    return g.map(b.finish(b.convert(is, dtype::f32)), std::span(&total, 1), dtype::f32);
  };
  EXPECT_FALSE(is_left_out({3e4, -3e4, 40938.5, 0.75}, is_last));
  EXPECT_TRUE(is_left_out({3e30, -3e30, 40938.5, 0.75}, is_last));
  EXPECT_FALSE(is_left_out({3e30, -3e30}, sum));
  EXPECT_TRUE(is_left_out({3e38, -3e38, 3e38, -3e38}, sum));  // infinite on the way
}

TEST(graph_stability, the_sign_of_a_nan_or_of_a_zero_sum_is_left_out) {
  const auto sign = [](graph& g, node_id x) {
    const node_id total = sum(g, x);
    return g.map(scalar_op::copysign, {g.full_like(total, 1), total});
  };
  EXPECT_FALSE(is_left_out({infinity, 1}, sign));
  EXPECT_TRUE(is_left_out({infinity, -infinity}, sign));
  const auto twice = [](graph& g, node_id x) {  // positive if both uses see the same zero
    const node_id total = sum(g, x);
    return g.divide(g.divide(g.full_like(total, 1), total), total);
  };
  EXPECT_FALSE(is_left_out({1, 1}, twice));
  EXPECT_TRUE(is_left_out({0, 0}, twice));
}

TEST(graph_stability, a_product_that_leaves_the_range_on_its_way_is_left_out) {
  const auto product = [](graph& g, node_id x) { return g.reduce(reduce_kind::product, x, 1); };
  EXPECT_FALSE(is_left_out({3, 0, 2}, product));
  EXPECT_FALSE(is_left_out({1e30, 1e-30, 2}, product));
  EXPECT_FALSE(is_left_out({infinity, 0, 2}, product));
  EXPECT_TRUE(is_left_out({1e30, 0, 1e30}, product));
  EXPECT_TRUE(is_left_out({1e30, 1e-30, 1e30, 1e-30}, product));
  EXPECT_TRUE(is_left_out({3e38, 3e38, 3e38, 3e38, 3e38, 0}, [&](graph& g, node_id x) {  // beyond f64 as well
    return product(g, g.multiply(x, x));
  }));
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
