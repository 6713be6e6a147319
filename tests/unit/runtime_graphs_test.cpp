// SPDX-License-Identifier: MIT
// Whole graphs through every stage on a device, forward and backward, against the f64 interpreter of the primitives.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/program.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/program_values.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

// Runs `steps` steps on both sides and compares every output of every step. `length` is the longest chain of sums.
void expect_device_agrees(const graph& g, std::int64_t length, std::uint32_t steps = 1, double low = -1,
                          double high = 1) {
  const device& gpu = support::shared_device();
  oracle::tensors<double> leaves = samples::random_leaves(g, low, high);
  parameters weights(gpu, g);
  for (auto& [name, value] : leaves) {
    for (double& element : value.values) element = static_cast<double>(static_cast<float>(element));
    if (!weights.layout().find(name)) continue;
    weights.set(name, std::vector<float>(value.values.begin(), value.values.end()));
  }
  program run(gpu, g, weights, {.checks = checks::none});  // random indices, and NaN on purpose
  oracle::interpreter<double> truth(g, leaves);
  for (std::uint32_t step = 1; step <= steps; ++step) {
    support::set_inputs(run, g, leaves);
    truth.step = {.step = step,
                  .seed_low = 7,
                  .seed_high = 9,
                  .numbers = {0.01f, 0.01f, 0.5f, 0.9f, 0.1f, 0.999f, 0.001f, 1e-3f}};
    truth.clear();
    run.submit(truth.step);
    const auto results = truth.run();
    double scale = 0;  // of the whole step: a gradient that cancels to nothing is judged by it
    for (const auto& [name, expected] : results) {
      for (double value : expected.values) scale = std::max(scale, std::fabs(value));
    }
    for (const auto& [name, expected] : results) {
      const auto bytes = run.output(name);
      std::vector<float> found(bytes.size() / sizeof(float));
      std::memcpy(found.data(), bytes.data(), bytes.size());
      double own = 1e-2 * scale, worst = 0;
      ASSERT_EQ(found.size(), expected.values.size()) << name;
      for (std::size_t i = 0; i < found.size(); ++i) {
        own = std::max(own, std::fabs(expected.values[i]));
        const double difference = std::fabs(static_cast<double>(found[i]) - expected.values[i]);
        worst = difference <= worst ? worst : difference;  // NaN stays
      }
      EXPECT_LT(worst / own, oracle::tolerance(dtype::f32, length)) << name << ", step " << step;
    }
  }
  plan::verify(run.plan());
}

TEST(runtime_graphs, softmax_and_cross_entropy_forward_and_backward) {
  graph g;
  const node_id logits = samples::linear(g, g.input("x", dtype::f32, {13, 9}), "fc", 37);
  g.add_output("p", samples::softmax(g, logits));
  const node_id loss = samples::cross_entropy(g, logits, g.input("y", dtype::i32, {13}));
  g.add_output("loss", loss);
  samples::add_gradients(g, loss);
  expect_device_agrees(g, 1000);
}

// Every output of one step with these inputs and parameters, on the device as built by default.
oracle::tensors<double> device_results(const graph& g, const oracle::tensors<double>& leaves) {
  const device& gpu = support::shared_device();
  parameters weights(gpu, g);
  for (const plan::named_tensor& tensor : weights.layout().tensors) {
    const std::vector<double>& values = leaves.at(tensor.name).values;
    weights.set(tensor.name, std::vector<float>(values.begin(), values.end()));
  }
  program run(gpu, g, weights, {.checks = checks::none});  // random indices, and NaN on purpose
  support::set_inputs(run, g, leaves);
  run.submit({});
  oracle::tensors<double> results;
  for (const graph_output& output : g.outputs()) {
    const auto bytes = run.output(output.name);
    std::vector<float> found(bytes.size() / sizeof(float));
    std::memcpy(found.data(), bytes.data(), bytes.size());
    results[output.name] = {g[output.node].extents, std::vector<double>(found.begin(), found.end())};
  }
  return results;
}

TEST(runtime_graphs, one_nan_pixel_reaches_the_loss_and_every_weight_it_meets) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {3, 8});
  const node_id hidden = samples::linear(g, x, "fc1", 6),
                bounded = g.map(scalar_op::maximum, {hidden, g.full({3, 6}, 0)});
  const node_id logits = samples::linear(g, samples::relu(g, samples::linear(g, bounded, "fc2", 6)), "fc3", 5);
  g.add_output("logits", logits);
  const node_id loss = samples::cross_entropy(g, logits, g.input("label", dtype::i32, {3}));
  g.add_output("loss", loss);
  samples::add_gradients(g, loss);
  oracle::tensors<double> leaves = samples::random_leaves(g);
  leaves.at("x")[11] = NAN;  // of the second row
  const auto expected = oracle::interpreter<double>(g, leaves).run();
  const auto found = device_results(g, leaves);
  for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(std::isnan(expected.at("logits")[i]), i / 5 == 1);
  EXPECT_TRUE(std::isnan(expected.at("loss")[0]));
  for (const auto& [name, want] : expected)
    EXPECT_LT(oracle::relative_error(found.at(name), want), oracle::tolerance(dtype::f32, 1000)) << name;
}

// The rows PyTorch 2 gives for softmax, log_softmax and cross_entropy of such logits.
TEST(runtime_graphs, softmax_and_cross_entropy_of_logits_that_are_not_finite) {
  graph g;
  const shape size{5, 3};
  const node_id z = g.parameter("z", dtype::f32, size), label = g.input("label", dtype::i32, {5});
  g.add_output("p", samples::softmax(g, z));
  g.add_output("log p", samples::log_softmax(g, z));
  const node_id picked = g.map(scalar_op::exp, {samples::log_softmax(g, z)});
  g.add_output("exp log p", picked);
  const node_id finite = g.slice(z, 0, 3, 2);  // the rows whose loss is finite
  const node_id loss = samples::cross_entropy(g, finite, g.slice(label, 0, 3, 2));
  g.add_output("loss", loss);
  samples::add_gradients(g, loss);
  const double inf = INFINITY, nan = NAN, e = std::exp(-1.0), p = 1 / (1 + e);
  const oracle::tensors<double> leaves{{"z", {size, {0, nan, 1, inf, 0, 1, -inf, -inf, -inf, -inf, 0, 1, 1, -inf, 0}}},
                                       {"label", {{5}, {0, 0, 0, 2, 2}, dtype::i32}}};
  const std::vector<double> rows = {nan, nan, nan, nan, nan, nan, nan, nan, nan, 0, 1 - p, p, p, 0, 1 - p};
  oracle::tensors<double> expected{{"p", {size, rows}}, {"exp log p", {size, rows}}, {"log p", {size, rows}}};
  for (double& value : expected.at("log p").values) value = std::log(value);
  expected["loss"] = {shape{}, {(-std::log(p) - std::log(1 - p)) / 2}};
  const double zero = 0, half = 0.5;
  expected["d z"] = {size,
                     {0, 0, 0, 0, 0, 0, 0, 0, 0, zero, half * (1 - p), half * (p - 1), half * p, zero, -half * p}};
  const auto interpreted = oracle::interpreter<double>(g, leaves).run();
  const auto found = device_results(g, leaves);
  for (const auto& [name, want] : expected) {
    EXPECT_LT(oracle::relative_error(interpreted.at(name), want), oracle::tolerance(dtype::f32, 3)) << name;
    EXPECT_LT(oracle::relative_error(found.at(name), want), oracle::tolerance(dtype::f32, 3)) << name;
  }
}

// Every sum over the batch is longer than lavapipe lets a loop be: rows, columns, products, embedding gradients.
TEST(runtime_graphs, a_batch_of_a_hundred_thousand_forward_and_backward) {
  graph g;
  const node_id tokens = g.input("tokens", dtype::i32, {100'000});
  const node_id rows = g.gather(g.parameter("table", dtype::f32, {3, 2}), tokens, 0);
  const node_id y = samples::linear(g, rows, "fc", 2);
  const node_id loss = samples::mean(g, g.multiply(y, y), 3);
  g.add_output("loss", loss);
  samples::add_gradients(g, loss);
  expect_device_agrees(g, 100'000);
}

TEST(runtime_graphs, a_transformer_forward_and_backward) {
  graph g;
  const node_id y = samples::transformer(g, g.input("x", dtype::f32, {2, 7, 12}), 2, 3, 20);
  const node_id loss = samples::total(g, y);
  g.add_output("y", y);
  samples::add_gradients(g, loss);
  expect_device_agrees(g, 20000);
}

TEST(runtime_graphs, a_product_of_twelve_labels_that_do_not_merge) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {2, 3, 2, 2, 3, 2, 2, 2});
  const node_id b = g.parameter("b", dtype::f32, {2, 2, 2, 2, 2, 2, 3, 3});
  const node_id y = g.contract(a, b, "akblcmdn", "nemflgkh", "haebgfcd");
  g.add_output("y", samples::relu(g, y));
  samples::add_gradients(g, samples::total(g, y));
  expect_device_agrees(g, 20000);
}

// In place, by kernels that reduce rows, columns and long rows and read the old value beside.
TEST(runtime_graphs, running_statistics_over_three_steps) {
  for (const shape& size : {shape{6, 5, 4, 3}, shape{33, 64, 1, 1}, shape{2, 3, 40, 25}}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, size);
    const shape channels{size[1]};
    const double count = static_cast<double>(size.elements() / size[1]);
    const auto mean = [&](node_id of) {
      return g.multiply(g.reduce(reduce_kind::sum, of, 0b1101), g.full(channels, 1 / count));
    };
    const node_id average = mean(x), centred = g.subtract(x, g.expand_axes(average, size, 0b1101));
    const node_id variance = mean(g.multiply(centred, centred));
    for (const auto& [name, value] : {std::pair("mean", average), std::pair("variance", variance)}) {
      const node_id running = g.state(name, dtype::f32, channels);
      const node_id next = g.add(g.multiply(running, g.full(channels, 0.9)), g.multiply(value, g.full(channels, 0.1)));
      g.assign(running, next);
      g.add_output(std::string("new ") + name, next);
    }
    expect_device_agrees(g, 1000, 3);
  }
}

TEST(runtime_graphs, layer_norm_over_a_row_longer_than_a_workgroup) {
  graph g;
  const node_id y = samples::layer_norm(g, g.input("x", dtype::f32, {3, 1500}), "norm");
  g.add_output("y", y);
  samples::add_gradients(g, samples::total(g, y));
  expect_device_agrees(g, 20000);
}

TEST(runtime_graphs, strided_grouped_convolutions_and_pools_forward_and_backward) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 4, 9, 11}), w = g.parameter("w", dtype::f32, {6, 2, 3, 2});
  const convolution_attribute c{.form = convolution_attribute::output,
                                .spatial = 2,
                                .stride = {2, 1, 1},
                                .pad_low = {1, 0, 0},
                                .pad_high = {1, 1, 0},
                                .dilation = {1, 2, 1},
                                .groups = 2};
  const node_id y = g.convolution(x, w, c, {2, 6, 5, 10});
  const node_id bias = g.expand(g.reshape(g.parameter("b", dtype::f32, {6}), {6, 1, 1}), {2, 6, 5, 10});
  const window_attribute pool{.kind = reduce_kind::max,
                              .spatial = 2,
                              .window = {3, 2, 1},
                              .stride = {2, 2, 1},
                              .pad_low = {1, 0, 0},
                              .pad_high = {1, 0, 0}};
  const node_id pooled = g.window_reduce(g.add(y, bias), pool);
  g.add_output("y", pooled);
  samples::add_gradients(g, samples::total(g, pooled));
  expect_device_agrees(g, 2000);
}

TEST(runtime_graphs, tables_slices_flips_and_concatenations) {
  graph g;
  const node_id table = g.parameter("table", dtype::f32, {5, 6}), index = g.input("index", dtype::i32, {4, 3});
  const node_id rows = g.gather(table, index, 0);  // [4, 3, 6]
  const node_id parts[] = {g.slice(rows, 2, 1, 3), g.flip(g.slice(rows, 2, 0, 2, 3), 2)};
  const node_id joined = g.concat(parts, 2);
  const int order[] = {2, 0, 1};
  const node_id y = g.map(scalar_op::tanh, {g.permute(joined, order)});
  g.add_output("y", y);
  samples::add_gradients(g, samples::total(g, y));
  expect_device_agrees(g, 1000);
}

TEST(runtime_graphs, the_first_half_of_a_gathered_f16_tensor_becomes_f32) {
  graph g;
  const node_id rows = g.gather(g.parameter("table", dtype::f16, {8, 128}), g.input("at", dtype::i32, {16}), 0);
  g.add_output("half", g.cast(g.slice(rows, 0, 0, 8), dtype::f32));
  expect_device_agrees(g, 1);
}

TEST(runtime_graphs, states_carry_over_and_random_streams_move_on) {
  graph g;
  const node_id s = g.state("s", dtype::f32, {33}), x = g.input("x", dtype::f32, {33});
  const node_id noise = g.random("noise", distribution::normal, {33});
  const node_id next = g.add(g.multiply(s, g.full_like(s, 0.5)), g.add(x, noise));
  g.assign(s, next);
  g.add_output("sum", g.reduce(reduce_kind::sum, g.add(s, next), 1));
  g.add_output("noise", noise);
  expect_device_agrees(g, 1000, 3);
}

// The extremum is reduced from x / 3, which the optimiser may also spell x * (1 / 3), of a value that other kernels
// compute again: routed by comparing the two, a row would get its gradient never, or 0 / 0 of it.
TEST(runtime_graphs, gradients_of_row_extrema_reach_one_element_of_every_row) {
  for (reduce_kind kind : {reduce_kind::max, reduce_kind::min}) {
    for (const shape& size : {shape{40, 7}, shape{9, 130}, shape{3, 5000}}) {
      graph g;
      const node_id w = g.parameter("w", dtype::f32, size), x = g.input("x", dtype::f32, size), three = g.full(size, 3);
      const bool twice = size[0] == 9;
      const node_id y = twice ? g.divide(g.divide(w, three), three)
                              : g.divide(g.add(g.multiply(w, x), g.map(scalar_op::tanh, {x})), three);
      const node_id top = g.reduce(kind, y, 2);
      g.add_output(twice ? "top" : "y", twice ? top : y);
      g.add_output(
          "place",
          g.cast(g.reduce(kind == reduce_kind::max ? reduce_kind::arg_max : reduce_kind::arg_min, y, 2), dtype::f32));
      const node_id loss = g.reduce(reduce_kind::sum, top, 1);
      const node_id d = gradients(g, loss, std::span(&w, 1))[0];
      const node_id hits = g.map(scalar_op::abs, {g.map(scalar_op::sign, {d})});
      g.add_output("hits", g.reduce(reduce_kind::sum, hits, 2));
      g.add_output("d", d);
      oracle::tensors<double> leaves = samples::random_leaves(g);
      for (double& value : leaves.at("x").values) value = value < 0 ? value - 0.5 : value + 0.5;  // no gradient is 0
      for (auto& [name, tensor] : leaves) {
        for (double& value : tensor.values) value = static_cast<double>(static_cast<float>(value));
      }
      const auto expected = oracle::interpreter<double>(g, leaves).run();
      const auto found = device_results(g, leaves);
      for (double count : found.at("hits").values) ASSERT_EQ(count, 1) << to_string(size);
      EXPECT_EQ(found.at("place").values, expected.at("place").values) << to_string(size);
      EXPECT_LT(oracle::relative_error(found.at("d"), expected.at("d")), oracle::tolerance(dtype::f32, 3));
    }
  }
}

TEST(runtime_graphs, places_of_extrema_with_nans_infinities_and_ties) {
  for (const shape& size : {shape{5, 1}, shape{20, 33}, shape{20, 700}}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, size);
    for (reduce_kind kind : {reduce_kind::arg_max, reduce_kind::arg_min}) {
      for (std::uint32_t axes : {1u, 2u, 3u}) {
        g.add_output(fmt::format("{} {}", static_cast<int>(kind), axes), g.cast(g.reduce(kind, x, axes), dtype::f32));
      }
    }
    oracle::tensors<double> leaves = samples::random_leaves(g, -3, 3);
    std::vector<double>& values = leaves.at("x").values;
    for (double& value : values) value = std::round(value);
    for (std::size_t i = 0; i < values.size(); i += 41)
      values[i] = std::array<double, 4>{NAN, INFINITY, -INFINITY, -0.0}[i / 41 % 4];
    const auto expected = oracle::interpreter<double>(g, leaves).run();
    for (const auto& [name, found] : device_results(g, leaves))
      EXPECT_EQ(found.values, expected.at(name).values) << name << ' ' << to_string(size);
  }
}

TEST(runtime_graphs, states_and_parameters_are_read_as_they_were_before_the_step) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {5}), w = g.parameter("w", dtype::f32, {5});
  std::vector<node_id> s;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    s.push_back(g.state(name, dtype::f32, {5}));
    g.add_output(name, s.back());  // each is an output too
  }
  g.assign(s[0], g.add(x, s[3]));
  g.assign(s[1], s[0]);  // a delay line
  g.assign(s[2], s[3]);  // and a swap, with what came along it
  g.assign(s[3], g.add(s[2], s[1]));
  g.assign(s[4], w);  // the parameter of the step before
  g.add_output("w", w);
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(w, g.add(w, x)), 1);
  const node_id pair[] = {w, gradients(g, loss, std::span(&w, 1))[0]};
  g.optimizer_step(optimizer(sgd{}).rule(), pair);
  expect_device_agrees(g, 10, 5);
}

TEST(runtime_graphs, an_output_may_be_a_leaf_a_constant_or_another_output) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {6}), y = g.map(scalar_op::exp, {x});
  g.add_output("x", x);
  g.add_output("two", g.full({3, 2}, 2));
  g.add_output("y", y);
  g.add_output("y again", y);
  g.add_output("z", g.reshape(y, {2, 3}));
  expect_device_agrees(g, 10);
}

TEST(runtime_graphs, every_gradient_of_an_mlp_and_its_update) {
  expect_device_agrees(samples::mlp_training(6, 23, 17, 3), 2000, 2);
}

}  // namespace
