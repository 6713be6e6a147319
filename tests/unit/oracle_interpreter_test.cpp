// SPDX-License-Identifier: MIT
// The oracle against definitions written out by hand: it is the truth of every other test.
#include <meganeura/kernels/philox.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::oracle;

// Known answers published with Random123 1.09 (kat_vectors, philox4x32 10).
static_assert(kernels::philox({0, 0, 0, 0}, {0, 0}) ==
              kernels::philox_words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(kernels::philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
              kernels::philox_words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(kernels::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              kernels::philox_words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
static_assert(kernels::stream_hash("") == 0x811C9DC5u && kernels::stream_hash("a") == 0xE40C292Cu);

TEST(oracle_interpreter, uniform_numbers_follow_the_philox_layout) {
  graph g;
  g.add_output("u", g.random("dropout", distribution::uniform, {7}));
  interpreter<double> run(g, {}, {.step = 3, .seed_low = 11, .seed_high = 12});
  const auto values = run.run().at("u").values;
  for (std::size_t i = 0; i < 7; ++i) {
    const auto words =
        kernels::philox({static_cast<std::uint32_t>(i / 4), 0, kernels::stream_hash("dropout"), 3}, {11, 12});
    EXPECT_EQ(values[i], (words[i % 4] >> 8) / 16777216.0);
  }
}

TEST(oracle_interpreter, normal_numbers_have_mean_zero_and_deviation_one) {
  graph g;
  constexpr std::int64_t count = 20001;
  g.add_output("n", g.random("noise", distribution::normal, {count}));
  interpreter<double> run(g, {}, {.step = 1, .seed_low = 5});
  double sum = 0, squares = 0;
  const auto outputs = run.run();
  for (double value : outputs.at("n").values) sum += value, squares += value * value;
  EXPECT_LT(std::fabs(sum / count), 4 / std::sqrt(double(count)));  // four standard errors
  EXPECT_LT(std::fabs(squares / count - 1), 4 * std::sqrt(2.0 / count));
}

TEST(oracle_interpreter, random_streams_differ_by_name_and_step) {
  graph g;
  g.add_output("a", g.random("a", distribution::uniform, {4}));
  g.add_output("b", g.random("b", distribution::uniform, {4}));
  interpreter<double> run(g);
  const auto first = run.run();
  run.step.step = 1;
  const auto second = run.run();
  EXPECT_NE(first.at("a").values, first.at("b").values);
  EXPECT_NE(first.at("a").values, second.at("a").values);
}

TEST(oracle_interpreter, f16_tensors_round_to_the_nearest_even) {
  EXPECT_EQ(round_to_half(1 + 0x1p-11), 1.0);
  EXPECT_EQ(round_to_half(1 + 3 * 0x1p-11), 1 + 0x1p-9);
  EXPECT_EQ(round_to_half(65519), 65504);
  EXPECT_TRUE(std::isinf(round_to_half(65520)));
  EXPECT_EQ(round_to_half(0x1p-25), 0);  // half of the smallest subnormal, tie to even
  EXPECT_EQ(round_to_half(0x1.8p-25), 0x1p-24);
}

TEST(oracle_interpreter, integers_that_are_scattered_wrap) {
  graph g;
  const node_id x = g.input("x", dtype::i32, {1}), at = g.input("at", dtype::i32, {2}),
                y = g.input("y", dtype::i32, {2});
  const node_id operands[] = {x, at, y};
  g.add_output("added", g.add_node(op::index_add, dtype::i32, {1}, axis_attribute{0}, operands));
  g.add_output("scattered", g.scatter_add(at, y, 0, {1}));
  interpreter<double> run(g, {{"x", {{1}, {1}}}, {"at", {{2}, {0, 0}}}, {"y", {{2}, {0x7fffffff, 2}}}});
  const auto found = run.run();
  EXPECT_EQ(found.at("added")[0], -0x7ffffffe);
  EXPECT_EQ(found.at("scattered")[0], -0x7fffffff);
}

TEST(oracle_interpreter, the_prime_field_is_a_field) {
  const prime_field third = prime_field(3.0).inverse();
  EXPECT_EQ((third * prime_field(3.0)).integer(), 1);
  EXPECT_EQ((prime_field(-2.75) * prime_field(4.0)).integer(), -11);
  EXPECT_EQ((prime_field(0x1p61)).integer(), 1);
  EXPECT_EQ(
      (prime_field::from_residue(prime_field::prime - 1) * prime_field::from_residue(prime_field::prime - 1)).integer(),
      1);
  EXPECT_EQ((prime_field(123456789.0) * prime_field(987654321.0)).integer(), 121932631112635269);
}

TEST(oracle_interpreter, a_contraction_is_the_sum_over_all_missing_labels) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {2, 3, 4, 5}), b = g.input("b", dtype::f32, {5, 4, 2, 6});
  g.add_output("c", g.contract(a, b, "bihd", "dhbj", "jbi"));
  const auto left = random_tensor<prime_field>({2, 3, 4, 5}, 1), right = random_tensor<prime_field>({5, 4, 2, 6}, 2);
  interpreter<prime_field> run(g, {{"a", left}, {"b", right}});
  const auto found = run.run().at("c");
  for (std::int64_t j = 0; j < 6; ++j) {
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t i = 0; i < 3; ++i) {
        prime_field sum;
        for (std::int64_t h = 0; h < 4; ++h) {
          for (std::int64_t d = 0; d < 5; ++d)
            sum += left[((n * 3 + i) * 4 + h) * 5 + d] * right[((d * 4 + h) * 2 + n) * 6 + j];
        }
        ASSERT_EQ(found[(j * 2 + n) * 3 + i], sum);
      }
    }
  }
}

TEST(oracle_interpreter, all_forms_of_convolution_are_the_same_trilinear_sum) {
  convolution_attribute c{.spatial = 2, .groups = 2};
  c.stride[0] = 2, c.pad_low[0] = 1, c.pad_low[1] = 2, c.pad_high[1] = 1, c.dilation[1] = 2;
  const shape x_size = {2, 4, 5, 6}, w_size = {6, 2, 3, 2}, y_size = {2, 6, 2, 7};
  const auto x = random_tensor<prime_field>(x_size, 1), w = random_tensor<prime_field>(w_size, 2);
  const auto y = random_tensor<prime_field>(y_size, 3);
  prime_field total;  // sum of x w y over all (n, o, c, out, k)
  for_each_index(y_size, [&](const index_vector& at) {
    const std::int64_t n = at[0], o = at[1], i = at[2], j = at[3];
    for_each_index({2, 3, 2}, [&](const index_vector& k) {
      const std::int64_t row = i * 2 + k[1] - 1, column = j + k[2] * 2 - 2, channel = o / 3 * 2 + k[0];
      if (row < 0 || row >= 5 || column < 0 || column >= 6) return;
      total += x[((n * 4 + channel) * 5 + row) * 6 + column] * w[((o * 2 + k[0]) * 3 + k[1]) * 2 + k[2]] *
               y[((n * 6 + o) * 2 + i) * 7 + j];
    });
  });
  graph g;
  const node_id nodes[] = {g.input("x", dtype::f32, x_size), g.input("w", dtype::f32, w_size),
                           g.input("y", dtype::f32, y_size)};
  interpreter<prime_field> run(g, {{"x", x}, {"w", w}, {"y", y}});
  using form = convolution_attribute;
  const auto inner_product = [&](form::form_kind kind, node_id a, node_id b, node_id third) {
    c.form = kind;
    const node_id product = g.multiply(g.convolution(a, b, c, g[third].extents), third);
    return run.value(g.reduce(reduce_kind::sum, product, 15))[0];
  };
  EXPECT_EQ(inner_product(form::output, nodes[0], nodes[1], nodes[2]), total);
  EXPECT_EQ(inner_product(form::input, nodes[2], nodes[1], nodes[0]), total);
  EXPECT_EQ(inner_product(form::filter, nodes[0], nodes[2], nodes[1]), total);
}

TEST(oracle_interpreter, pooling_and_its_scatter_match_hand_values) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {5}), y = g.input("y", dtype::f32, {3}), both[] = {x, y};
  window_attribute w{.kind = reduce_kind::max, .spatial = 1};
  w.window[0] = 3, w.stride[0] = 2, w.pad_low[0] = w.pad_high[0] = 1;
  g.add_output("max", g.window_reduce(x, w));
  g.add_output("to_max", g.window_scatter(both, w, {5}));
  w.kind = reduce_kind::sum;
  g.add_output("sum", g.window_reduce(x, w));
  g.add_output("to_all", g.window_scatter(std::span(both).last(1), w, {5}));
  interpreter<double> run(g, {{"x", {{5}, {-4, -2, 7, 7, -1}}}, {"y", {{3}, {1, 10, 100}}}});
  const auto found = run.run();
  EXPECT_EQ(found.at("max").values, (std::vector<double>{-2, 7, 7}));
  EXPECT_EQ(found.at("sum").values, (std::vector<double>{-6, 12, 6}));
  EXPECT_EQ(found.at("to_max").values, (std::vector<double>{0, 1, 10, 100, 0}));
  EXPECT_EQ(found.at("to_all").values, (std::vector<double>{1, 11, 10, 110, 100}));
}

index_map dense_map(int source, const shape& space, std::uint32_t dropped = 0) {
  index_map map;
  map.source = source;
  std::int64_t stride = 1;
  for (int i = space.rank(); i-- > 0;) {
    if (dropped >> i & 1) continue;
    map.strides[i] = stride;
    stride *= space[i];
  }
  return map;
}

TEST(oracle_interpreter, extrema_of_a_nan_are_nan_and_pooling_routes_to_the_first) {
  for (reduce_kind kind : {reduce_kind::max, reduce_kind::min}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {3, 3});
    interpreter<double> run(g, {{"x", {{3, 3}, {NAN, 1, 2, 1, NAN, INFINITY, 1, -INFINITY, NAN}}}});
    const node_id largest = g.reduce(kind, x, 2);
    for (double value : run.value(largest).values) EXPECT_TRUE(std::isnan(value));
  }
  for (scalar_op kind : {scalar_op::maximum, scalar_op::minimum}) {
    EXPECT_TRUE(std::isnan(evaluate(kind, NAN, 1, 0, dtype::f32)));
    EXPECT_TRUE(std::isnan(evaluate(kind, 1, NAN, 0, dtype::f32)));
    EXPECT_EQ(evaluate(kind, 3, 3, 0, dtype::f32), 3);
  }
  EXPECT_EQ(evaluate(scalar_op::maximum, -INFINITY, 1, 0, dtype::f32), 1);
  EXPECT_EQ(evaluate(scalar_op::minimum, 1, -INFINITY, 0, dtype::f32), -INFINITY);
  graph g;
  const window_attribute w{.kind = reduce_kind::max, .spatial = 1, .window = {3}, .stride = {3}};
  const node_id operands[] = {g.input("x", dtype::f32, {6}), g.input("y", dtype::f32, {2})};
  const node_id pooled = g.window_reduce(operands[0], w), routed = g.window_scatter(operands, w, {6});
  interpreter<double> run(g, {{"x", {{6}, {INFINITY, NAN, NAN, 1, 5, 5}}}, {"y", {{2}, {7, 8}}}});
  EXPECT_TRUE(std::isnan(run.value(pooled)[0]));
  EXPECT_EQ(run.value(pooled)[1], 5);
  EXPECT_EQ(run.value(routed).values, (std::vector<double>{0, 7, 0, 0, 8, 0}));
}

TEST(oracle_interpreter, a_region_with_row_reductions_is_softmax) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32);
  const scalar_ref e = b.unary(scalar_op::exp, b.binary(scalar_op::subtract, x, b.unary(scalar_op::row_max, x)));
  region_attribute softmax;
  softmax.space = {3, 4};
  softmax.row_axes = 1;
  softmax.program = b.finish(b.binary(scalar_op::divide, e, b.unary(scalar_op::row_sum, e)));
  softmax.accesses = {dense_map(0, softmax.space)};
  softmax.output = dense_map(0, softmax.space);
  graph g;
  const node_id operands[] = {g.input("x", dtype::f32, {3, 4})};
  g.add_output("y", g.add_node(op::region, dtype::f32, {3, 4}, softmax, operands));
  const tensor<double> at = random_tensor({3, 4}, 4, -5, 5);
  interpreter<double> run(g, {{"x", at}});
  const auto found = run.run().at("y");
  for (std::int64_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < 4; ++i) sum += std::exp(at[row * 4 + i]);
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(found[row * 4 + i], std::exp(at[row * 4 + i]) / sum, tolerance_f64(4));
    }
  }
}

TEST(oracle_interpreter, a_region_stores_one_value_a_row_reads_boxes_and_positions) {
  scalar_builder b;
  const scalar_ref sum =
      b.binary(scalar_op::add, b.argument(0, dtype::f32), b.convert(b.argument(1, dtype::i32), dtype::f32));
  region_attribute region;
  region.space = {2, 4};
  region.row_axes = 1;
  region.per_row = true;
  region.program = b.finish(b.unary(scalar_op::row_sum, sum));
  index_map boxed = dense_map(0, {2, 2}), position;  // x [2, 2] with a border of 5 left and right
  boxed.offset = -1, boxed.bounded = 2, boxed.low[1] = 1, boxed.high[1] = 3, boxed.fill = 5;
  position.source = index_map::index_source, position.strides[1] = 1;
  region.accesses = {boxed, position};
  region.output = dense_map(0, region.space, 2);
  graph g;
  const node_id operands[] = {g.input("x", dtype::f32, {2, 2})};
  g.add_output("y", g.add_node(op::region, dtype::f32, {2}, region, operands));
  interpreter<double> run(g, {{"x", {{2, 2}, {1, 2, 3, 4}}}});
  EXPECT_EQ(run.run().at("y").values, (std::vector<double>{1 + 2 + 10 + 6, 3 + 4 + 10 + 6}));
}

TEST(oracle_interpreter, reading_outside_of_an_operand_is_an_error) {
  region_attribute region;
  region.space = {4};
  region.program = single_op_program(scalar_op::negate, std::array{dtype::f32});
  region.accesses = {dense_map(0, region.space)};
  region.output = dense_map(0, region.space);
  graph g;
  const node_id operands[] = {g.input("x", dtype::f32, {3})};
  const node_id y = g.add_node(op::region, dtype::f32, {4}, region, operands);
  interpreter<double> run(g, {{"x", random_tensor({3}, 1)}});
  EXPECT_THROW(static_cast<void>(run.value(y)), error);
}

TEST(oracle_interpreter, a_matmul_with_epilogue_equals_its_primitives) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3, 4}), w = g.input("w", dtype::f32, {5, 4}),
                bias = g.input("bias", dtype::f32, {5});
  const node_id product = g.contract(x, w, "bmk", "nk", "bnm");  // stored transposed
  const node_id expected = g.map(scalar_op::tanh, {g.add(product, g.expand_axes(bias, {2, 5, 3}, 5))});
  matmul_attribute m;
  m.space = {2, 3, 5, 4};
  m.batch_axes = m.m_axes = m.n_axes = m.k_axes = 1;
  m.a = dense_map(0, m.space, 4), m.b = dense_map(1, m.space, 3);
  m.output.strides[0] = 15, m.output.strides[1] = 1, m.output.strides[2] = 3;
  scalar_builder b;
  m.finish.program = b.finish(
      b.unary(scalar_op::tanh, b.binary(scalar_op::add, b.argument(0, dtype::f32), b.argument(1, dtype::f32))));
  m.finish.accesses = {dense_map(2, m.space, 11)};
  const node_id operands[] = {x, w, bias};
  const node_id fused = g.add_node(op::matmul, dtype::f32, {2, 5, 3}, m, operands);
  interpreter<double> run(
      g, {{"x", random_tensor({2, 3, 4}, 1)}, {"w", random_tensor({5, 4}, 2)}, {"bias", random_tensor({5}, 3)}});
  EXPECT_LT(relative_error(run.value(fused), run.value(expected)), tolerance_f64(4));
}

TEST(oracle_interpreter, a_convolve_with_epilogue_equals_its_primitives) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {1, 2, 4}), w = g.input("w", dtype::f32, {3, 2, 2}),
                bias = g.input("bias", dtype::f32, {3});
  convolve_attribute c;
  c.primitive.spatial = 1;
  const shape size = {1, 3, 3};
  const node_id expected = g.add(g.convolution(x, w, c.primitive, size), g.expand_axes(bias, size, 5));
  c.finish.program = single_op_program(scalar_op::add, std::array{dtype::f32, dtype::f32});
  c.space = size;
  c.output = dense_map(0, size);
  c.finish.accesses = {dense_map(2, size, 5)};
  const node_id operands[] = {x, w, bias};
  const node_id fused = g.add_node(op::convolve, dtype::f32, size, c, operands);
  interpreter<double> run(
      g, {{"x", random_tensor({1, 2, 4}, 1)}, {"w", random_tensor({3, 2, 2}, 2)}, {"bias", random_tensor({3}, 3)}});
  EXPECT_LT(relative_error(run.value(fused), run.value(expected)), tolerance_f64(4));
}

TEST(oracle_interpreter, assign_happens_after_every_read) {
  graph g;
  const node_id s = g.state("s", dtype::f32, {}), x = g.input("x", dtype::f32, {});
  g.assign(s, g.add(s, x));
  g.add_output("old", g.add(s, g.constant(0)));
  interpreter<double> run(g, {{"s", {{}, {10}}}, {"x", {{}, {1}}}});
  EXPECT_EQ(run.run().at("old")[0], 10);
  EXPECT_EQ(run.run().at("old")[0], 11);
  EXPECT_EQ(run.leaves.at("s")[0], 12);
}

// Two steps from p = 1 with gradient p: values worked out from the update rules in PyTorch's documentation.
double after_two_steps(const optimizer& chosen) {
  graph g;
  const node_id p = g.parameter("p", dtype::f32, {}), operands[] = {p, p};
  g.optimizer_step(chosen.rule(), operands);
  interpreter<double> run(g, {{"p", {{}, {1}}}});
  for (std::uint32_t step = 1; step <= 2; ++step) {
    run.step = chosen.step_values(step, 0);
    run.run();
  }
  return run.leaves.at("p")[0];
}

TEST(oracle_interpreter, optimizers_follow_their_published_rules) {
  // Rates are powers of two, so that most f32 step values are exact.
  EXPECT_EQ(after_two_steps(sgd{.learning_rate = 0.25f}), 0.75 * 0.75);
  // with momentum 0.5: m1 = 1, p1 = 0.75; m2 = 0.5 + 0.75, p2 = 0.75 - 0.25 * 1.25
  EXPECT_EQ(after_two_steps(sgd{.learning_rate = 0.25f, .momentum = 0.5f}), 0.75 - 0.3125);
  // coupled decay 0.5: g = 1.5 p
  EXPECT_EQ(after_two_steps(sgd{.learning_rate = 0.25f, .weight_decay = 0.5f}), 0.625 * 0.625);
  // adam, betas 0.5 and 0.75: step 1 moves by the rate exactly (m^ = g, v^ = g^2)
  const double p1 = 0.75, m2 = 0.5 * 0.5 + 0.5 * p1, v2 = 0.75 * 0.25 + 0.25 * p1 * p1;
  const double p2 = p1 - 0.25 * (m2 / 0.75) / std::sqrt(v2 / (1 - 0.5625));
  const adam rates{.learning_rate = 0.25f, .beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 0};
  EXPECT_NEAR(after_two_steps(rates), p2, tolerance(dtype::f32));
  // adamw, decay 0.5: each step first scales p by 1 - 0.25 * 0.5; the gradient is that of before
  const adamw decayed{.learning_rate = 0.25f, .beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 0, .weight_decay = 0.5f};
  const double q1 = 1 - 0.125 - 0.25, n2 = 0.5 * 0.5 + 0.5 * q1, w2 = 0.75 * 0.25 + 0.25 * q1 * q1;
  const double q2 = q1 * 0.875 - 0.25 * (n2 / 0.75) / std::sqrt(w2 / (1 - 0.5625));
  EXPECT_NEAR(after_two_steps(decayed), q2, tolerance(dtype::f32));
}

TEST(oracle_interpreter, float_stays_within_the_tolerance_of_double) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {16, 200}), b = g.input("b", dtype::f32, {200, 16});
  g.add_output("y", g.map(scalar_op::tanh, {g.contract(a, b, "ik", "kj", "ij")}));
  const auto left = random_tensor({16, 200}, 1), right = random_tensor({200, 16}, 2);
  interpreter<double> exact(g, {{"a", left}, {"b", right}});
  interpreter<float> rounded(g, {{"a", converted<float>(left)}, {"b", converted<float>(right)}});
  const double found = relative_error(rounded.run().at("y"), exact.run().at("y"));
  EXPECT_GT(found, 0);
  EXPECT_LT(found, tolerance(dtype::f32, 200));
}

TEST(oracle_interpreter, missing_or_misshapen_leaves_are_refused) {
  graph g;
  g.add_output("x", g.input("x", dtype::f32, {3}));
  EXPECT_THROW(static_cast<void>(interpreter<double>(g).run()), error);
  EXPECT_THROW(static_cast<void>(interpreter<double>(g, {{"x", random_tensor({4}, 1)}}).run()), error);
}

}  // namespace
