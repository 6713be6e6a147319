// SPDX-License-Identifier: MIT
// Sums of hundreds of thousands of terms and more, every family: complete where a driver stops long loops, and exact to
// the logarithm of their length.
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/kernels/generate.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/device_fixture.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

using namespace meganeura;

namespace {

index_map strided(std::initializer_list<std::int64_t> strides, int source = 0) {
  index_map map;
  map.source = source;
  std::copy(strides.begin(), strides.end(), map.strides);
  return map;
}

// All near 0.1: roundings of a running total then mostly go the same way, the worst that happens in practice.
oracle::tensor<double> near_a_tenth(const shape& extents, dtype type = dtype::f32) {
  return oracle::random_tensor<double>(extents, 11, 0.0999, 0.1001, type);
}

// `expected` by plain f64 arithmetic: the oracle takes too long over millions of elements.
void expect_sums(const graph& g, const oracle::tensors<double>& leaves, const std::vector<double>& expected,
                 std::int64_t length, std::vector<device_profile> targets = support::all_targets()) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto found = support::device_graph(g, targets[i]).run(leaves).at("y");
    EXPECT_LE(oracle::relative_error(found.values, expected), oracle::tolerance(dtype::f32, length)) << "target " << i;
  }
}

// The last axis of [rows, length] or the first of [length, columns].
void expect_reduction(const shape& extents, bool along_last, scalar_op kind, std::vector<device_profile> targets) {
  const std::int64_t rows = along_last ? extents[0] : extents[1], length = along_last ? extents[1] : extents[0];
  const std::int64_t row_stride = along_last ? length : 1, stride = along_last ? 1 : rows;
  graph g;
  const node_id x = g.input("x", dtype::f32, extents);
  const region_attribute region{.space = {rows, length},
                                .row_axes = 1,
                                .per_row = true,
                                .program = single_op_program(kind, std::array{dtype::f32}),
                                .accesses = {strided({row_stride, stride})},
                                .output = strided({1, 0})};
  g.add_output("y", g.add_node(op::region, dtype::f32, {rows}, region, std::span(&x, 1)));
  oracle::tensor<double> values = near_a_tenth(extents);
  values.values.back() = 0.2;  // the maximum of one row stands at its end
  std::vector<double> expected(static_cast<std::size_t>(rows), 0.0);
  for (std::size_t i = 0; i < values.values.size(); ++i) {
    double& total = expected[i % static_cast<std::size_t>(length * rows) / static_cast<std::size_t>(row_stride) %
                             static_cast<std::size_t>(rows)];
    const double value = static_cast<double>(static_cast<float>(values.values[i]));
    total = kind == scalar_op::row_sum ? total + value : std::max(total, value);
  }
  expect_sums(g, {{"x", values}}, expected, kind == scalar_op::row_sum ? length : 1, std::move(targets));
}

TEST(kernels_long_sums, rows_of_sixteen_million) {
  expect_reduction({1, 16'800'000}, true, scalar_op::row_sum, {support::shared_profile()});
  expect_reduction({1, 2'499'999}, true, scalar_op::row_max, {support::shared_profile()});
}

TEST(kernels_long_sums, rows_of_a_million) {
  expect_reduction({1, 1'000'003}, true, scalar_op::row_sum, support::all_targets());
  expect_reduction({2, 1'000'000}, true, scalar_op::row_sum, support::all_targets());
}

TEST(kernels_long_sums, columns_of_six_hundred_thousand) {
  expect_reduction({600'000, 2}, false, scalar_op::row_sum, support::all_targets());
  expect_reduction({600'001, 3}, false, scalar_op::row_max, support::all_targets());
  expect_reduction({270'000, 12}, false, scalar_op::row_sum, support::all_targets());
}

// Parts of the sum side by side, then their sum, as extraction has it for a device of many units.
TEST(kernels_long_sums, split_products) {
  for (const auto& [rows, columns, length] : {std::tuple{24, 40, 65536}, std::tuple{9, 130, 30030}}) {
    graph g;
    const node_id a = g.input("a", dtype::f32, {rows, length}), b = g.input("b", dtype::f32, {columns, length});
    g.add_output("y", g.contract(a, b, "ik", "jk", "ij"));
    const graph plan = fusion::optimize(g);
    EXPECT_EQ(plan.size(), 4u) << to_text(plan);
    const oracle::tensors<double> leaves{{"a", near_a_tenth({rows, length})}, {"b", near_a_tenth({columns, length})}};
    const std::vector<double> expected = oracle::interpreter<double>(g, leaves).run().at("y").values;
    for (const device_profile& on : support::all_targets()) {
      const auto found = support::device_graph(plan, on).run(leaves).at("y");
      EXPECT_LE(oracle::relative_error(found.values, expected), oracle::tolerance(dtype::f32, length));
    }
  }
}

// Three passes over a row, one of them to store it.
TEST(kernels_long_sums, softmax_of_three_million) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32);
  const scalar_ref e = b.unary(scalar_op::exp, b.binary(scalar_op::subtract, x, b.unary(scalar_op::row_max, x)));
  const region_attribute region{.space = {1, 3'200'000},
                                .row_axes = 1,
                                .program = b.finish(b.binary(scalar_op::divide, e, b.unary(scalar_op::row_sum, e))),
                                .accesses = {strided({0, 1})},
                                .output = strided({0, 1})};
  graph g;
  const node_id in = g.input("x", dtype::f32, {1, 3'200'000});
  g.add_output("y", g.add_node(op::region, dtype::f32, {1, 3'200'000}, region, std::span(&in, 1)));
  const oracle::tensors<double> leaves{{"x", oracle::random_tensor<double>({1, 3'200'000}, 3, -2, 2)}};
  std::vector<double> expected = leaves.at("x").values;
  for (double& value : expected) value = std::exp(value);
  const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
  for (double& value : expected) value /= total;
  expect_sums(g, leaves, expected, 3'200'000, {support::shared_profile()});
}

// Embedding gradients: all updates of a few rows.
void expect_scatter(std::int64_t rows, std::int64_t width, std::int64_t count, dtype type,
                    std::vector<device_profile> targets) {
  graph g;
  const node_id indices = g.input("indices", dtype::i32, {count}), updates = g.input("updates", type, {count, width});
  g.add_output("y", g.scatter_add(indices, updates, 0, {rows, width}));
  oracle::tensors<double> leaves{
      {"indices", oracle::random_tensor<double>({count}, 5, 0, static_cast<double>(rows), dtype::i32)},
      {"updates", type == dtype::f32 ? near_a_tenth({count, width})
                                     : oracle::random_tensor<double>({count, width}, 5, 0, 9, type)}};
  std::vector<double> expected(static_cast<std::size_t>(rows * width));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count * width); ++i) {
    const auto at = i / static_cast<std::size_t>(width), column = i % static_cast<std::size_t>(width);
    const auto row = static_cast<std::size_t>(leaves.at("indices").values[at]);
    expected[row * static_cast<std::size_t>(width) + column] += leaves.at("updates").values[i];
  }
  expect_sums(g, leaves, expected, count, std::move(targets));
}

TEST(kernels_long_sums, scatter_add_of_a_million_updates) {
  expect_scatter(3, 1, 1'000'003, dtype::f32, {support::shared_profile()});
  expect_scatter(3, 1, 300'003, dtype::f32, support::all_targets());
  expect_scatter(1, 4, 300'000, dtype::f32, {support::shared_profile()});
  expect_scatter(700, 1, 100'000, dtype::i32, {support::shared_profile()});  // several workgroups
}

/// One axis in, one filter as long as needed: an output of [n, m, positions] and its two gradients.
struct line_convolution {
  std::int64_t batch, in_channels, out_channels, length, window, groups = 1;
};

void expect_convolution(const line_convolution& c, convolution_attribute::form_kind form, std::int64_t terms,
                        std::vector<device_profile> targets) {
  const std::int64_t positions = c.length - c.window + 1;
  const shape x{c.batch, c.in_channels, c.length}, y{c.batch, c.out_channels, positions};
  const shape w{c.out_channels, c.in_channels / c.groups, c.window};
  const bool by_input = form == convolution_attribute::input, by_filter = form == convolution_attribute::filter;
  const shape first = by_input ? y : x, second = by_filter ? y : w, result = by_filter ? w : by_input ? x : y;
  scalar_builder b;
  const convolve_attribute attribute{{.form = form, .spatial = 1, .groups = c.groups},
                                     result,
                                     strided({result.stride(0), result.stride(1), 1}),
                                     {b.finish(b.argument(0, dtype::f32)), {}}};
  graph g;
  const node_id operands[] = {g.input("a", dtype::f32, first), g.input("b", dtype::f32, second)};
  g.add_output("y", g.add_node(op::convolve, dtype::f32, result, attribute, operands));
  const oracle::tensors<double> leaves{{"a", near_a_tenth(first)}, {"b", near_a_tenth(second)}};
  expect_sums(g, leaves, oracle::interpreter<double>(g, leaves).run().at("y").values, terms, std::move(targets));
}

TEST(kernels_long_sums, convolutions_of_many_taps_and_channels) {
  expect_convolution({1, 3, 2, 100'010, 100'000}, convolution_attribute::output, 300'000, support::all_targets());
  expect_convolution({1, 70'000, 9, 4, 3}, convolution_attribute::output, 210'000, support::all_targets());
  expect_convolution({1, 2, 70'000, 4, 3}, convolution_attribute::input, 210'000, {support::shared_profile()});
}

// Tiny images, a large batch: the slow part of k is the long one.
TEST(kernels_long_sums, filter_gradients_over_a_large_batch) {
  expect_convolution({70'000, 1, 2, 4, 3}, convolution_attribute::filter, 140'000, support::all_targets());
  expect_convolution({2, 2, 9, 150'002, 3}, convolution_attribute::filter, 300'000, support::all_targets());
}

// [batch, m, k] x [batch, k, n], either operand stored the other way round.
void expect_product(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b,
                    std::vector<device_profile> targets, std::int64_t batch = 1) {
  SCOPED_TRACE(fmt::format("{}x{}x{}", m, n, k));
  scalar_builder b;
  matmul_attribute node;
  node.space = {batch, m, n, k};
  node.batch_axes = node.m_axes = node.n_axes = node.k_axes = 1;
  node.a = strided({m * k, transpose_a ? 1 : k, 0, transpose_a ? m : 1});
  node.b = strided({n * k, 0, transpose_b ? k : 1, transpose_b ? 1 : n}, 1);
  node.output = strided({m * n, n, 1, 0});
  node.finish.program = b.finish(b.argument(0, dtype::f32));
  const shape left{batch, transpose_a ? k : m, transpose_a ? m : k}, right{batch, k, n};
  graph g;
  const node_id operands[] = {g.input("a", dtype::f32, left), g.input("b", dtype::f32, right)};
  g.add_output("y", g.add_node(op::matmul, dtype::f32, {batch, m, n}, node, operands));
  const oracle::tensors<double> leaves{{"a", near_a_tenth(left)}, {"b", near_a_tenth(right)}};
  const auto &a = leaves.at("a").values, &c = leaves.at("b").values;
  std::vector<double> expected;
  for (std::int64_t i = 0; i < batch * m * n; ++i) {
    const std::int64_t a0 = i / (m * n) * node.a.strides[0] + i / n % m * node.a.strides[1];
    const std::int64_t b0 = i / (m * n) * node.b.strides[0] + i % n * node.b.strides[2];
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      sum += a[static_cast<std::size_t>(a0 + j * node.a.strides[3])] *
             c[static_cast<std::size_t>(b0 + j * node.b.strides[3])];
    }
    expected.push_back(sum);
  }
  expect_sums(g, leaves, expected, k, std::move(targets));
}

TEST(kernels_long_sums, products_of_every_form) {
  const std::vector<device_profile> own{support::shared_profile()};
  expect_product(4, 4, 300'000, false, false, support::all_targets());
  expect_product(1, 3, 300'001, false, true, own);
  expect_product(3, 1, 270'002, true, false, own);
  expect_product(4, 4, 300'000, true, true, own);
  expect_product(1, 1, 1'000'000, false, true, own);
  expect_product(2, 4, 280'000, false, true, own, 2);
}

window_attribute line_window(reduce_kind kind, std::int64_t window, std::int64_t stride, std::int64_t pad = 0) {
  return {.kind = kind, .spatial = 1, .window = {window}, .stride = {stride}, .pad_low = {pad}, .pad_high = {pad}};
}

TEST(kernels_long_sums, windows_of_a_hundred_thousand) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 200'000});
  const node_id y = g.window_reduce(x, line_window(reduce_kind::sum, 100'000, 99'000, 7));
  g.add_output("y", y);
  const oracle::tensors<double> leaves{{"x", near_a_tenth({2, 200'000})}};
  expect_sums(g, leaves, oracle::interpreter<double>(g, leaves).run().at("y").values, 100'000);
}

// Each element lies in 70,000 windows.
TEST(kernels_long_sums, windows_that_overlap_a_hundred_thousand_times) {
  graph g;
  const node_id dy = g.input("dy", dtype::f32, {1, 70'003});
  g.add_output("y", g.window_scatter(std::span(&dy, 1), line_window(reduce_kind::sum, 70'000, 1, 69'998), {1, 6}));
  const oracle::tensors<double> leaves{{"dy", near_a_tenth({1, 70'003})}};
  const auto& values = leaves.at("dy").values;
  std::vector<double> expected;
  for (std::ptrdiff_t i = 0; i < 6; ++i) {
    const auto end = values.begin() + std::min<std::ptrdiff_t>(69'999 + i, 70'003);
    expected.push_back(std::accumulate(values.begin() + std::max<std::ptrdiff_t>(i - 1, 0), end, 0.0));
  }
  expect_sums(g, leaves, expected, 70'000);
}

// Every element meets all others of its window.
TEST(kernels_long_sums, the_first_maximum_of_a_wide_window) {
  graph g;
  const node_id operands[] = {g.input("x", dtype::f32, {1, 400}), g.input("dy", dtype::f32, {1, 201})};
  g.add_output("y", g.window_scatter(operands, line_window(reduce_kind::max, 400, 1, 100), {1, 400}));
  oracle::tensors<double> leaves{{"x", oracle::random_tensor({1, 400}, 1)}, {"dy", near_a_tenth({1, 201})}};
  for (double& value : leaves.at("x").values) value = std::floor(8 * value);  // ties
  expect_sums(g, leaves, oracle::interpreter<double>(g, leaves).run().at("y").values, 200, {support::shared_profile()});
}

// A device of few invocations cannot share out what its driver stops: that is said before anything runs.
TEST(kernels_long_sums, what_no_workgroup_finishes_is_refused) {
  device_profile small = support::shared_profile();
  small.max_loop_iterations = 100;
  small.max_invocations = 128;
  small.subgroup_size = 8;
  EXPECT_THROW(expect_reduction({1, 1'000'003}, true, scalar_op::row_sum, {small}), error);
  EXPECT_THROW(expect_reduction({600'000, 2}, false, scalar_op::row_sum, {small}), error);
}

}  // namespace
