// SPDX-License-Identifier: MIT
// An optimiser that the library does not know: defined here, trained, written to checkpoints and read back.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <concepts>

namespace {

using namespace meganeura;

// source: Kingma and Ba 2015, algorithm 2; torch.optim.Adamax.
struct adamax {
  float learning_rate = 2e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;

  static constexpr optimizer_rate<adamax> rates[] = {{"learning_rate", &adamax::learning_rate},
                                                     {"beta1", &adamax::beta1, true},
                                                     {"beta2", &adamax::beta2, true},
                                                     {"epsilon", &adamax::epsilon}};
  [[nodiscard]] std::string name() const { return "adamax"; }
  [[nodiscard]] std::vector<std::string> moments() const { return {"m", "u"}; }
  [[nodiscard]] std::array<float, 5> numbers(std::uint32_t step) const {
    const double corrected = learning_rate / (1 - std::pow(static_cast<double>(beta1), step));
    return {static_cast<float>(corrected), beta1, 1 - beta1, beta2, epsilon};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    const auto &g = e.gradient, &now = e.numbers[0];
    const auto m = e.numbers[1] * e.moments[0] + e.numbers[2] * g;
    const auto u = apply(scalar_op::maximum, e.numbers[3] * e.moments[1], apply(scalar_op::abs, g) + e.numbers[4]);
    return {e.parameter - now * (m / u), m, u};
  }
};
static_assert(std::convertible_to<adamax, optimizer>);

struct without_learning_rate : adamax {
  static constexpr optimizer_rate<adamax> rates[] = {{"beta1", &adamax::beta1, true}};
};
struct without_update : adamax {
  void update() const;
};
struct with_too_many_numbers : adamax {
  [[nodiscard]] std::array<float, 14> numbers(std::uint32_t) const;
};
static_assert(!optimizer_definition<without_learning_rate>);
static_assert(!optimizer_definition<without_update>);
static_assert(!optimizer_definition<with_too_many_numbers>);

struct offset_layer {
  static constexpr auto forward(value auto x) { return x + parameter<"p", dims<6>>; }
};
using offset = model<offset_layer, input<"x", dtype::f32, dims<6>>>;
using offset_trainer = trainer<offset, mean_squared_error<"y">>;

TEST(runtime_optimizer, one_defined_by_its_user_follows_its_published_rule) {
  const adamax chosen{.learning_rate = 0.03f, .beta1 = 0.8f, .beta2 = 0.95f};
  offset_trainer run(support::shared_device(), chosen, {});
  const std::vector<float> x(6, 0), y{-1, 0.5f, 2, 0.25f, 0, -3};
  std::vector<double> p{0, 0.125, -0.5, 1, 4, 2}, m(6, 0.0), u(6, 0.0);
  run.parameters().set("p", std::vector<float>(p.begin(), p.end()));
  for (int step = 0; step < 5; ++step) {
    run.step(bind<"x">(x), bind<"y">(y)).wait();
    for (std::size_t i = 0; i < p.size(); ++i) {  // the gradient written out
      const double g = 2 * (p[i] - static_cast<double>(y[i])) / 6;
      m[i] = 0.8 * m[i] + 0.2 * g;
      u[i] = std::max(0.95 * u[i], std::fabs(g) + 1e-8);
      p[i] -= 0.03 / (1 - std::pow(0.8, step + 1)) * m[i] / u[i];
    }
  }
  EXPECT_LT(oracle::relative_error(run.parameters().get("p"), p), oracle::tolerance(dtype::f32, 16));
}

TEST(runtime_optimizer, one_defined_by_its_user_follows_the_oracle_and_learns) {
  using mlp = support::mlp<23>;
  const optimizer chosen = adamax{.learning_rate = 0.01f};
  const symbol_extent symbols[] = {{"batch", 16}};
  const graph g = make_training_graph<mlp, cross_entropy<"label">>(chosen, symbols);
  trainer<mlp, cross_entropy<"label">> run(support::shared_device(), chosen, {{"batch", 16}});
  run.parameters().init({.seed = 3});
  oracle::tensors<double> leaves = support::leaves_of(run.parameters());
  const auto x = support::uniform(16 * 23, 1);
  const auto labels = support::classes(16, 2);
  leaves["x"] = oracle::tensor<double>({16, 23}, std::vector<double>(x.begin(), x.end()));
  leaves["label"] = oracle::tensor<double>({16}, std::vector<double>(labels.begin(), labels.end()), dtype::i32);
  oracle::interpreter<double> truth(g, leaves);
  std::vector<float> losses;
  for (std::uint32_t step = 1; step <= 6; ++step) {
    truth.step = chosen.step_values(step, 0);
    const double expected = truth.run()["loss"].values[0];
    losses.push_back(run.step(bind<"x">(x), bind<"label">(labels)).loss());
    EXPECT_NEAR(losses.back(), expected, 10 * oracle::tolerance(dtype::f32, 1024) * expected) << "step " << step;
  }
  EXPECT_LT(losses.back(), 0.9 * static_cast<double>(losses.front()));
}

TEST(runtime_optimizer, one_defined_by_its_user_goes_on_from_a_checkpoint) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const auto make = [](const optimizer& chosen) {
    return std::make_unique<offset_trainer>(support::shared_device(), chosen, std::initializer_list<symbol_extent>{});
  };
  const std::vector<float> x(6, 0), y{-1, 0.5f, 2, 0.25f, 0, -3};
  const auto train = [&](offset_trainer& run) {
    for (int step = 0; step < 3; ++step) run.step(bind<"x">(x), bind<"y">(y)).wait();
    return run.parameters().get("p");
  };
  const auto whole = make(adamax{.learning_rate = 0.02f, .beta2 = 0.5f}), resumed = make(adamax{});
  whole->parameters().init();
  train(*whole);
  whole->save_checkpoint(path);
  resumed->load_checkpoint(path);
  EXPECT_EQ(train(*resumed), train(*whole));
  EXPECT_EQ(support::sentence_of([&] { make(sgd{.momentum = 0.5f})->load_checkpoint(path); }),
            path +
                " is of another training run and nothing was loaded; the optimizer: expected sgd with momentum, found "
                "\"adamax\"");
  EXPECT_EQ(support::sentence_of([&] { make(adamax{.beta2 = 1}); }),
            "adamax: beta2 is 1; it must be at least 0 and less than 1");
}

TEST(runtime_optimizer, rates_are_changed_by_name) {
  const optimizer before = adam{.beta1 = 0.5f}, after = before.with_rate("beta1", 0.25f);
  std::string seen;
  after.each_rate([&](std::string_view name, float value) { seen += fmt::format("{} {} ", name, value); });
  EXPECT_EQ(seen, "learning_rate 0.001 weight_decay 0 beta1 0.25 beta2 0.999 epsilon 1e-08 ");
  EXPECT_EQ(before.step_values(1, 0).numbers[3], 0.5f);
  EXPECT_EQ(
      support::sentence_of([&] { (void)before.with_rate("beta", 0); }),
      "adam has no rate \"beta\"; it has learning_rate, weight_decay, beta1, beta2, epsilon; did you mean \"beta1\"?");
}

}  // namespace
