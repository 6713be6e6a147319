// SPDX-License-Identifier: MIT
// Running means of the weights: kept by steps, saved in checkpoints, evaluated when asked for.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

struct network {
  static constexpr auto forward(value auto x) {
    return linear<"out", 1>(dropout<"drop", 0.25>(batch_norm<"norm">(linear<"hidden", 6>(x))));
  }
};
using model_type = model<network, input<"x", dtype::f32, dims<sym<"batch">, 3>>>;
using trainer_type = trainer<model_type, mean_squared_error<"y">>;
using values = std::map<std::string, std::vector<float>>;

const std::vector<float> x{0.5f, -1, 2, 0.25f, 1, 0.75f, -2, 0, 1, 3, -0.5f, 0.125f}, y{1, -1, 0.5f, 2};

std::unique_ptr<trainer_type> make(const optimizer& chosen, const training_options& options) {
  auto made = std::make_unique<trainer_type>(support::shared_device(), chosen, symbol_extents{}, options);
  made->parameters().init({.seed = 1});
  return made;
}
pending_step step(trainer_type& run) { return run.step(bind<"x">(x), bind<"y">(y)); }

values of(const parameters& weights) {
  values all;
  for (const plan::named_tensor& each : weights.layout().tensors) all.emplace(each.name, weights.get(each.name));
  return all;
}

TEST(runtime_ema, averages_follow_their_definition_and_weights_are_as_without_them) {
  const auto run = make(adam{.learning_rate = 0.1f}, {.frozen = "hidden.bias", .ema = 0.75f});
  const auto plain = make(adam{.learning_rate = 0.1f}, {.frozen = "hidden.bias"});
  EXPECT_EQ(of(run->averages()), of(run->parameters()));  // nothing to average yet
  std::map<std::string, std::vector<double>> expected;
  for (int i = 0; i < 12; ++i) {
    step(*run);
    step(*plain);
    const values now = of(run->parameters());
    EXPECT_EQ(now, of(plain->parameters())) << i;
    for (const auto& [name, weights] : now) {  // AveragedModel with get_ema_multi_avg_fn(0.75); buffers as they are
      std::vector<double>& mean = expected[name];
      const bool copied = i == 0 || name == "hidden.bias" || name.starts_with("norm.running");
      mean.resize(weights.size());
      for (std::size_t k = 0; k < mean.size(); ++k) {
        const auto weight = static_cast<double>(weights[k]);
        mean[k] = copied ? weight : 0.75 * mean[k] + 0.25 * weight;
      }
    }
  }
  const values found = of(run->averages());
  EXPECT_NE(found.at("out.weight"), of(run->parameters()).at("out.weight"));
  for (const auto& [name, mean] : expected)
    EXPECT_LE(oracle::relative_error(found.at(name), mean), oracle::tolerance(dtype::f32, 64)) << name;
}

TEST(runtime_ema, evaluates_them_when_asked_and_disturbs_nothing) {
  const auto run = make(adamw{.learning_rate = 0.1f}, {.ema = 0.9f});
  const auto undisturbed = make(adamw{.learning_rate = 0.1f}, {.ema = 0.9f});
  const auto evaluated = [&] { return run->evaluate(bind<"x">(x), bind<"y">(y)); };
  const auto of_averages = [&] { return run->evaluate_averages(bind<"x">(x), bind<"y">(y)); };
  EXPECT_EQ(of_averages(), evaluated());
  for (int i = 0; i < 4; ++i) {
    step(*run);
    step(*undisturbed);
    const float now = evaluated(), then = of_averages();
    EXPECT_EQ(now == then, i == 0);  // the first mean is the weights
    EXPECT_EQ(evaluated(), now);
    EXPECT_EQ(of_averages(), then);
  }
  EXPECT_EQ(support::everything(*run), support::everything(*undisturbed));
  (void)of_averages();
  const std::vector<float> outputs = run->evaluated();
  const parameters averages = run->averages();
  session<model_type> of_them(support::shared_device(), averages);
  EXPECT_EQ(of_them.run(bind<"x">(x)), outputs);
  (void)evaluated();
  const std::vector<float> others = run->evaluated();
  EXPECT_NE(others, outputs);
  // The same memory when they are asked for again.
  step(*run);
  EXPECT_EQ(of_them.run(bind<"x">(x)), outputs);
  (void)run->averages();
  EXPECT_NE(of_them.run(bind<"x">(x)), outputs);
}

TEST(runtime_ema, an_evaluation_has_what_changed_without_a_step_or_up_to_an_equal_one) {
  const auto run = make(sgd{.learning_rate = 0.1f}, {.ema = 0.9f});
  const auto expect_fresh = [&](const char* after) {
    const float now = run->evaluate_averages(bind<"x">(x), bind<"y">(y));
    (void)run->averages();
    EXPECT_EQ(run->evaluate_averages(bind<"x">(x), bind<"y">(y)), now) << after;
  };
  step(*run);
  expect_fresh("a step");
  run->parameters().set("norm.running_mean", std::vector<float>(6, 2.5f));
  expect_fresh("set");
  run->restart();
  step(*run);
  expect_fresh("restart and as many steps");
  // Another one shares the parameters, and its steps move the states.
  trainer_type other(support::shared_device(), sgd{}, {}, {}, run->parameters());
  step(other);
  expect_fresh("another training");
}

TEST(runtime_ema, a_run_goes_on_bit_for_bit_with_every_option) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const training_options options{.seed = 5,
                                 .clip_norm = 0.5f,
                                 .clip_value = 0.25f,
                                 .frozen = "norm.bias",
                                 .no_decay = "*.bias",
                                 .groups = {{.names = "hidden.*", .rate = 0.5f}},
                                 .schedule = warmup_cosine(3, 8),
                                 .ema = 0.75f};
  for (const optimizer& chosen :
       {optimizer(sgd{.momentum = 0.5f, .weight_decay = 0.1f, .nesterov = true}),
        optimizer(adamw{.learning_rate = 0.1f, .amsgrad = true}),
        optimizer(rmsprop{.learning_rate = 0.1f, .weight_decay = 0.1f, .momentum = 0.5f, .centered = true}),
        optimizer(adagrad{.learning_rate = 0.1f, .learning_rate_decay = 0.5f}),
        optimizer(lion{.learning_rate = 0.1f, .weight_decay = 0.1f})}) {
    SCOPED_TRACE(chosen.name());
    const auto whole = make(chosen, options), resumed = make(chosen.with_rate("learning_rate", 3), options);
    for (int i = 0; i < 4; ++i) step(*whole);
    whole->save_checkpoint(path);
    const values then = of(whole->averages());
    for (int i = 0; i < 3; ++i) step(*whole);
    for (int i = 0; i < 4; ++i) step(*resumed);
    const float before = resumed->evaluate_averages(bind<"x">(x), bind<"y">(y));
    resumed->load_checkpoint(path);
    EXPECT_NE(resumed->evaluate_averages(bind<"x">(x), bind<"y">(y)), before);  // of the same step
    EXPECT_EQ(of(resumed->averages()), then);
    for (int i = 0; i < 3; ++i) step(*resumed);
    EXPECT_EQ(support::everything(*resumed), support::everything(*whole));
    EXPECT_EQ(of(resumed->averages()), of(whole->averages()));
  }
}

TEST(runtime_ema, without_it_the_graph_is_the_same_and_a_checkpoint_of_one_is_refused_by_the_other) {
  const auto text = [](const training_options& options) {
    return to_text(make_training_graph<model_type, mean_squared_error<"y">>(adam{}, {{"batch", 4}}, options));
  };
  EXPECT_EQ(text({}).find("ema"), std::string::npos);
  EXPECT_NE(text({.ema = 0.5f}).find("adam with ema"), std::string::npos);
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const auto plain = make(adam{}, {}), other = make(adam{}, {.ema = 0.5f});
  step(*plain);
  plain->save_checkpoint(path);
  EXPECT_NE(support::sentence_of([&] {
              other->load_checkpoint(path);
            }).find("the optimizer: expected adam with ema, found \"adam\""),
            std::string::npos);
}

struct with_many_numbers : sgd {
  static constexpr optimizer_rate<with_many_numbers> rates[] = {{"learning_rate", &with_many_numbers::learning_rate}};
  [[nodiscard]] std::array<float, max_optimizer_numbers> numbers(std::uint32_t) const { return {learning_rate}; }
};

TEST(runtime_ema, what_cannot_be_is_a_sentence) {
  EXPECT_EQ(support::sentence_of([] { (void)make(adam{}, {.ema = 1}); }),
            "adam with ema: ema is 1; it must be at least 0 and less than 1");
  EXPECT_EQ(support::sentence_of([] { (void)make(adam{}, {})->averages(); }),
            "averages: none are kept; give the training a decay: {.ema = 0.999f}");
  EXPECT_EQ(support::sentence_of([] { (void)make(adam{}, {})->evaluate_averages(bind<"x">(x), bind<"y">(y)); }),
            "averages: none are kept; give the training a decay: {.ema = 0.999f}");
  EXPECT_EQ(support::sentence_of([] { (void)optimizer(sgd{}).with_ema(0.5f).with_ema(0.9f); }),
            "sgd with ema keeps a moment \"ema\" already, and another running mean was asked for; ask for one");
  EXPECT_EQ(support::sentence_of([] { (void)optimizer(with_many_numbers{}).with_ema(0.5f); }),
            "sgd has 13 numbers of a step and none is left for a running mean; use fewer");
}

}  // namespace
