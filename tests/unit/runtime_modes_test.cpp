// SPDX-License-Identifier: MIT
// Layers that do something else in training: dropout and batch norm, against PyTorch's formulas written out.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>
#include <meganeura/runtime/training.hpp>

#include <oracle/gradient_check.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using values = std::vector<double>;

inline constexpr dim batch = sym<"batch">;
inline constexpr std::int64_t channels = 3, pixels = 4;

struct normed {
  static constexpr auto forward(value auto x) { return batch_norm<"bn">(x); }
};
template <dtype Type>
using net = model<normed, input<"x", Type, dims<batch, channels, 2, 2>>>;

// What torch.nn.BatchNorm2d documents, in double: a module with running statistics.
struct reference {
  static constexpr double epsilon = 1e-5f, momentum = 0.1f;
  values weight, bias, mean = values(channels), variance = values(channels, 1.0);

  values normalised(const values& x, const values& by_mean, const values& by_variance) const {
    values y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t k = i / pixels % channels;
      y[i] = (x[i] - by_mean[k]) / std::sqrt(by_variance[k] + epsilon) * weight[k] + bias[k];
    }
    return y;
  }
  values evaluate(const values& x) const { return normalised(x, mean, variance); }
  values train(const values& x) {
    const auto n = static_cast<double>(x.size() / channels);
    values now(channels), spread(channels);
    for (std::size_t i = 0; i < x.size(); ++i) now[i / pixels % channels] += x[i] / n;
    for (std::size_t i = 0; i < x.size(); ++i)
      spread[i / pixels % channels] += std::pow(x[i] - now[i / pixels % channels], 2) / n;
    for (std::size_t k = 0; k < channels; ++k) {
      mean[k] = (1 - momentum) * mean[k] + momentum * now[k];
      variance[k] = (1 - momentum) * variance[k] + momentum * spread[k] * n / (n - 1);
    }
    return normalised(x, now, spread);
  }
};

values data(std::int64_t images, int seed) {
  values x;
  for (std::int64_t i = 0; i < images * channels * pixels; ++i)
    x.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i * seed)) * 2 +
                                   static_cast<double>(i / pixels % channels)));
  return x;
}

oracle::tensors<double> leaves_of(const reference& now, const values& x, std::int64_t images) {
  const auto row = [](const values& v) { return oracle::tensor<double>{{channels}, v}; };
  return {{"x", {{images, channels, 2, 2}, x}},
          {"bn.weight", row(now.weight)},
          {"bn.bias", row(now.bias)},
          {"bn.running_mean", row(now.mean)},
          {"bn.running_var", row(now.variance)}};
}

// Of sums over 20 values at most, of f32 or better.
void expect_near(const values& found, const values& expected, const char* what) {
  const double off = 4 * oracle::tolerance(dtype::f32, 20);
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], off) << what << ' ' << i;
}

TEST(runtime_modes, batch_norm_is_what_pytorch_documents) {
  reference expected{.weight = {0.5, 1, 2}, .bias = {0, 1, -1}};
  for (int step = 1; step <= 3; ++step) {
    const std::int64_t images = 1 + step;
    const values x = data(images, step);
    const graph training = lower<net<dtype::f32>>({{"batch", images}}, run_mode::training);
    const graph evaluation = lower<net<dtype::f32>>({{"batch", images}});
    oracle::interpreter<double> evaluated(evaluation, leaves_of(expected, x, images));
    expect_near(evaluated.run().at("output").values, expected.evaluate(x), "evaluation");
    expect_near(evaluated.leaves.at("bn.running_mean").values, expected.mean, "kept mean");
    oracle::interpreter<double> trained(training, leaves_of(expected, x, images));
    expect_near(trained.run().at("output").values, expected.train(x), "training");
    expect_near(trained.leaves.at("bn.running_mean").values, expected.mean, "running mean");
    expect_near(trained.leaves.at("bn.running_var").values, expected.variance, "running variance");
  }
}

TEST(runtime_modes, a_trainer_follows_the_statistics_that_a_session_uses) {
  const device& gpu = support::shared_device();
  reference expected{.weight = {1, 1, 1}, .bias = {0, 0, 0}};
  trainer<net<dtype::f32>, mean_squared_error<"y">> run(gpu, sgd{.learning_rate = 0});
  run.parameters().init();
  session<net<dtype::f32>> s(gpu, run.parameters());
  for (int step = 1; step <= 4; ++step) {
    const values x = data(5, step), y = expected.train(x);
    const std::vector<float> input(x.begin(), x.end());
    run.step(bind<"x">(input), bind<"y">(std::vector<float>(y.begin(), y.end())));
    const std::vector<float> found = s.run(bind<"x">(input));
    expect_near({found.begin(), found.end()}, expected.evaluate(x), "session");
  }
  const std::vector<float> mean = run.parameters().get("bn.running_mean"),
                           spread = run.parameters().get("bn.running_var");
  expect_near({mean.begin(), mean.end()}, expected.mean, "mean");
  expect_near({spread.begin(), spread.end()}, expected.variance, "variance");
}

TEST(runtime_modes, gradients_of_batch_norm_go_through_the_batch_and_of_dropout_past_what_is_dropped) {
  for (const run_mode mode : {run_mode::training, run_mode::evaluation}) {
    graph g(mode);
    const node_id x = g.input("x", dtype::f32, {4, channels, 2, 2});
    const node_id y = dropout("drop", batch_norm("bn", node_value(g, x)), 0.3);
    auto leaves = samples::random_leaves(g, 0.5, 1.5);
    EXPECT_LT(oracle::gradient_error(g, y, {x, g.find_leaf("bn.weight"), g.find_leaf("bn.bias")}, leaves),
              oracle::gradient_tolerance);
  }
}

struct dropped {
  static constexpr auto forward(value auto x) { return dropout<"drop", 0.25>(x); }
};
using masked = model<dropped, input<"x", dtype::f32, dims<batch>>>;

TEST(runtime_modes, dropout_drops_its_share_in_training_and_nothing_in_evaluation) {
  const device& gpu = support::shared_device();
  std::vector<float> x(4000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3.5f;
  session<masked> evaluating(gpu);
  EXPECT_EQ(evaluating.run(bind<"x">(x)), x);
  inference training(gpu, lower<masked>({{"batch", 4000}}, run_mode::training), {.seed = 5});
  const std::vector<float> first = training.run({{"x", x}}), second = training.run({{"x", x}});
  EXPECT_NE(first, second);
  for (const auto* y : {&first, &second}) {
    int kept = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if ((*y)[i] == 0) continue;
      ++kept;
      EXPECT_FLOAT_EQ((*y)[i], x[i] / 0.75f);
    }
    EXPECT_NEAR(kept, 3000, 4 * std::sqrt(4000 * 0.25 * 0.75));
  }
}

TEST(runtime_modes, a_half_precision_batch_norm_keeps_its_statistics_in_f32) {
  EXPECT_EQ(net<dtype::f16>::output_type, dtype::f16);
  const graph g = lower<net<dtype::f16>>({{"batch", 4}}, run_mode::training);
  EXPECT_EQ(g[g.find_leaf("bn.running_var")].type, dtype::f32);
  EXPECT_EQ(g[g.find_leaf("bn.weight")].type, dtype::f16);
}

TEST(runtime_modes, layers_of_run_time_are_the_typed_ones) {
  for (const run_mode mode : {run_mode::training, run_mode::evaluation}) {
    graph plain(mode);
    plain.add_output("output", batch_norm("bn", node_value(plain, plain.input("x", dtype::f32, {4, channels, 2, 2}))));
    const graph typed = lower<net<dtype::f32>>({{"batch", 4}}, mode);
    const auto leaves = samples::random_leaves(typed, 0.5, 1.5);
    oracle::interpreter<double> one(typed, leaves), other(plain, leaves);
    EXPECT_EQ(one.run().at("output").values, other.run().at("output").values);
    EXPECT_EQ(one.leaves.at("bn.running_var").values, other.leaves.at("bn.running_var").values);
  }
}

// dropout and batch norm before a product; the mean square of its results is the loss.
graph_with_loss regression(std::int64_t images, run_mode mode) {
  graph g(mode);
  const node_value x(g, g.input("x", dtype::f32, {images, channels, 2, 2}));
  const node_value h = dropout("drop", batch_norm("bn", x), 0.5);
  const node_value y = linear("fc", flatten(h, 1, -1), 2);
  const node_id loss = mean(y * y);
  if (mode == run_mode::evaluation) g.add_output("y", y);
  return {std::move(g), loss};
}

TEST(runtime_modes, evaluating_a_training_updates_nothing_and_makes_no_second_weights) {
  const device& gpu = support::shared_device();
  const auto make = [](const symbol_extents& at, run_mode mode) { return regression(at["batch"], mode); };
  training run(gpu, {open_sizes({{"x", dims<batch, channels, 2, 2>}}), make}, adam{.learning_rate = 0.1f});
  run.prepare({{"batch", 4}});
  run.parameters().init({.seed = 3});
  EXPECT_EQ(support::sentence_of([&] { (void)run.evaluation(); }), "nothing was evaluated yet; evaluate first");
  for (int step = 1; step <= 3; ++step) {
    const values x = data(4, step), seen = data(2, step + 5);
    const std::vector<float> batch_of_4(x.begin(), x.end()), batch_of_2(seen.begin(), seen.end());
    run.step({{"x", batch_of_4}});
    const auto before = support::everything(run);
    const float loss = run.evaluate({{"x", batch_of_2}});
    EXPECT_EQ(run.evaluate({{"x", batch_of_2}}), loss);  // nothing is dropped
    EXPECT_EQ(support::everything(run), before);
    EXPECT_EQ(run.steps(), static_cast<std::uint32_t>(step));

    oracle::tensors<double> leaves{{"x", {{2, channels, 2, 2}, seen}}};
    for (const plan::named_tensor& each : run.parameters().layout().tensors) {
      const std::vector<float> held = run.parameters().get(each.name);
      leaves[each.name] = {each.extents, {held.begin(), held.end()}};
    }
    graph_with_loss model = regression(2, run_mode::evaluation);
    model.forward.add_output("loss", model.loss);
    const auto expected = oracle::interpreter<double>(model.forward, leaves).run();
    expect_near({loss}, expected.at("loss").values, "loss");
    const std::vector<float> y = run.evaluation().read("y");
    expect_near({y.begin(), y.end()}, expected.at("y").values, "y");
  }
}

struct two_heads {
  static constexpr auto forward(value auto x) {
    auto h = dropout<"drop", 0.5>(batch_norm<"bn">(x));
    return results<"mean", "sum">(mean<1, 2, 3>(h), sum<1, 2, 3>(h));
  }
};
struct first_squared {
  static constexpr auto forward(value auto mean, value auto, value auto y) { return mean_squared_error_loss(mean, y); }
};
using heads = model<two_heads, input<"x", dtype::f32, dims<batch, channels, 2, 2>>>;

TEST(runtime_modes, a_trainer_evaluates_what_a_session_runs) {
  const device& gpu = support::shared_device();
  trainer<heads, loss<first_squared, target<"y">>> run(gpu, sgd{.learning_rate = 0.01f});
  run.parameters().init();
  session<heads> s(gpu, run.parameters());
  for (int step = 1; step <= 2; ++step) {
    const values x = data(3, step);
    const std::vector<float> input(x.begin(), x.end()), y{1, 2, 3};
    run.step(bind<"x">(input), bind<"y">(y));
    const float loss = run.evaluate(bind<"x">(input), bind<"y">(y));
    const auto [mean, sum] = run.evaluated();
    const auto [expected_mean, expected_sum] = s.run(bind<"x">(input));
    EXPECT_EQ(mean, expected_mean);
    EXPECT_EQ(sum, expected_sum);
    double squares = 0;
    for (std::size_t i = 0; i < y.size(); ++i) squares += std::pow(static_cast<double>(mean[i] - y[i]), 2) / 3;
    expect_near({loss}, {squares}, "loss");
  }
}

TEST(runtime_modes, a_graph_is_evaluated_as_it_is_unless_it_was_built_for_training) {
  const device& gpu = support::shared_device();
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {2})), w(g, g.parameter("w", dtype::f32, {2}));
  const node_id plain = sum(x * w);
  training run(gpu, std::move(g), plain, sgd{});
  run.parameters().set("w", std::vector<float>{2, 3});
  EXPECT_EQ(run.evaluate({{"x", std::vector<float>{1, 10}}}), 32);

  graph_with_loss made = regression(4, run_mode::training);
  training only(gpu, std::move(made.forward), made.loss, sgd{});
  only.parameters().init();
  EXPECT_NE(support::sentence_of([&] {
              (void)only.evaluate({{"x", std::vector<float>(4 * channels * pixels)}});
            }).find("was built for it alone; give the training what makes the graph for either"),
            std::string::npos);
}

TEST(runtime_modes, what_the_layers_refuse) {
  graph g;
  const node_value x(g, g.input("x", dtype::f32, {4})), i(g, g.input("i", dtype::i32, {4, 4}));
  EXPECT_EQ(support::sentence_of([&] { (void)dropout("drop", x, 1.5); }),
            "dropout<name, p>(x): p must be from 0 to 1; found f32 [4] in \"drop\"");
  EXPECT_EQ(support::sentence_of([&] { (void)dropout("drop", i, 0.5); }),
            "dropout<name, p>(x): x must be floats; cast it; found i32 [4, 4] in \"drop\"");
  EXPECT_EQ(support::sentence_of([&] { (void)batch_norm("bn", x); }),
            "batch_norm<name>(x): x must be [n, c, ..] with c a number, not a symbol; found f32 [4] in \"bn\"");
}

}  // namespace
