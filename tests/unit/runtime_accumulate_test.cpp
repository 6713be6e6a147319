// SPDX-License-Identifier: MIT
// Gradients of several batches that make one update.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

constexpr std::size_t count = 37;

// sum(p * c), so that the gradient is what is bound.
training linear_in(const optimizer& chosen, const training_options& options) {
  graph g;
  const node_id p = g.parameter("p", dtype::f32, {count}), c = g.input("c", dtype::f32, {count});
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(p, c), 1);
  training run(support::shared_device(), std::move(g), loss, chosen, options);
  plan::verify(run.program().plan());
  run.parameters().set("p", support::uniform(count, 1));
  return run;
}

std::vector<float> slopes(unsigned number) { return support::uniform(count, 100 + number); }

// Of so many batches from `first` on, in the order of the steps.
std::vector<float> mean_of(unsigned first, std::uint32_t batches) {
  std::vector<float> sum = slopes(first);
  for (unsigned k = 1; k < batches; ++k) {
    const std::vector<float> more = slopes(first + k);
    for (std::size_t i = 0; i < count; ++i) sum[i] += more[i];
  }
  for (float& each : sum) each /= static_cast<float>(batches);
  return sum;
}

TEST(runtime_accumulate, an_update_has_the_mean_of_the_gradients_bit_for_bit) {
  const std::pair<optimizer, training_options> kinds[] = {
      {sgd{.learning_rate = 1}, {}},
      {adam{}, {.clip_norm = 0.5f, .clip_value = 0.4f, .ema = 0.9f}},
      {adamw{.amsgrad = true}, {.schedule = step_decay(2)}},
      {lamb{}, {.clip_norm = 0.5f}},
      {adafactor{}, {}},
  };
  for (const auto& [chosen, options] : kinds) {
    SCOPED_TRACE(chosen.name());
    training_options four = options;
    four.accumulate = 4;
    training run = linear_in(chosen, four), mean = linear_in(chosen, options);
    for (unsigned update = 0; update < 3; ++update) {
      for (unsigned k = 0; k < 4; ++k) {
        EXPECT_EQ(run.parameters().get("p"), mean.parameters().get("p")) << k;
        EXPECT_EQ(run.steps(), update);
        EXPECT_EQ(run.batches(), 4 * update + k);
        EXPECT_EQ(run.learning_rate(), mean.learning_rate());
        run.step({{"c", slopes(4 * update + k)}}).wait();
      }
      mean.step({{"c", mean_of(4 * update, 4)}}).wait();
      EXPECT_EQ(run.parameters().get("p"), mean.parameters().get("p"));
      for (const plan::named_range& each : mean.moments().list()) {
        const auto own = std::ranges::find(run.moments().list(), each.name, &plan::named_range::name);
        ASSERT_NE(own, run.moments().list().end());
        EXPECT_EQ(run.moments().read(*own), mean.moments().read(each)) << each.name;
      }
    }
  }
}

TEST(runtime_accumulate, any_number_of_batches_and_what_was_not_finite_is_forgotten) {
  training run = linear_in(sgd{.learning_rate = 1}, {.program = {.checks = checks::none}, .accumulate = 3});
  run.step({{"c", std::vector<float>(count, INFINITY)}}).wait();
  run.restart();
  EXPECT_EQ(run.batches(), 0u);
  const std::vector<float> start = run.parameters().get("p");
  for (unsigned k = 0; k < 3; ++k) run.step({{"c", slopes(k)}}).wait();
  std::vector<double> expected(start.begin(), start.end());
  for (std::size_t i = 0; i < count; ++i) expected[i] -= static_cast<double>(mean_of(0, 3)[i]);
  EXPECT_LE(oracle::relative_error(run.parameters().get("p"), expected), oracle::tolerance(dtype::f32));
}

struct dropped {
  static constexpr auto forward(value auto x) {
    return linear<"fc2", 5>(dropout<"drop", 0.5>(relu(linear<"fc1", 17>(x))));
  }
};
using model_of = model<dropped, input<"x", dtype::f32, dims<support::batch, 23>>>;
using dropped_trainer = trainer<model_of, cross_entropy<"label">>;

// Sizes are open: the accumulated gradients wait for the first program.
TEST(runtime_accumulate, a_run_goes_on_in_the_middle_of_an_update) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  for (const optimizer& chosen : {optimizer(adam{}), optimizer(lamb{}), optimizer(adafactor{})}) {
    SCOPED_TRACE(chosen.name());
    const training_options options{.clip_norm = 1, .ema = 0.5f, .accumulate = 4};
    const auto train = [](dropped_trainer& run, unsigned batches) {
      std::vector<float> losses;
      for (unsigned k = 0; k < batches; ++k) {
        const auto number = static_cast<unsigned>(run.batches());
        losses.push_back(
            run.step(bind<"x">(support::uniform(16 * 23, number)), bind<"label">(support::classes(16, number))).loss());
      }
      return losses;
    };
    dropped_trainer whole(support::shared_device(), chosen, {}, options),
        resumed(support::shared_device(), chosen, {}, options);
    whole.parameters().init({.seed = 3});
    train(whole, 6);
    whole.save_checkpoint(path);
    const std::vector<float> losses = train(whole, 7);
    EXPECT_NE(losses[0], losses[1]);
    resumed.load_checkpoint(path);
    EXPECT_EQ(resumed.batches(), 6u);
    EXPECT_EQ(resumed.steps(), 1u);
    EXPECT_EQ(train(resumed, 7), losses);
    EXPECT_EQ(support::everything(resumed), support::everything(whole));

    dropped_trainer fewer(support::shared_device(), chosen, {}, {.clip_norm = 1, .ema = 0.5f, .accumulate = 2});
    EXPECT_NE(support::sentence_of([&] {
                fewer.load_checkpoint(path);
              }).find("has accumulated the gradients of 2 batches and an update of this training takes 2"),
              std::string::npos);
  }
}

// Data goes on behind what was seen, however many batches an update takes from there on.
TEST(runtime_accumulate, batches_are_counted_on_where_an_update_takes_another_number_of_them) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const std::pair<std::uint32_t, std::uint32_t> kinds[] = {{8, 2}, {7, 8}};  // batches, then of an update
  for (const auto& [batches, accumulate] : kinds) {
    training run = linear_in(sgd{}, {.accumulate = 4});
    for (unsigned k = 0; k < batches; ++k) run.step({{"c", slopes(k)}}).wait();
    run.save_checkpoint(path);
    training other = linear_in(sgd{}, {.accumulate = accumulate});
    other.load_checkpoint(path);
    EXPECT_EQ(other.batches(), batches);
    other.step({{"c", slopes(batches)}}).wait();
    EXPECT_EQ(other.batches(), batches + 1);
  }
}

// An update under way takes as many batches as the training that ends it says, and is the mean of all of them.
TEST(runtime_accumulate, an_update_that_was_begun_with_fewer_batches_is_the_mean_of_all) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  training run = linear_in(sgd{.learning_rate = 1}, {.accumulate = 2});
  run.step({{"c", slopes(0)}}).wait();
  run.save_checkpoint(path);
  training other = linear_in(sgd{.learning_rate = 1}, {.accumulate = 5});
  other.load_checkpoint(path);
  for (unsigned k = 1; k < 5; ++k) {
    EXPECT_EQ(other.steps(), 0u);
    other.step({{"c", slopes(k)}}).wait();
  }
  EXPECT_EQ(other.steps(), 1u);
  training mean = linear_in(sgd{.learning_rate = 1}, {});
  mean.step({{"c", mean_of(0, 5)}}).wait();
  const std::vector<float> found = other.parameters().get("p"), wanted = mean.parameters().get("p");
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6f);
}

// A dropout of its own in each batch.
TEST(runtime_accumulate, each_batch_draws_other_numbers) {
  dropped_trainer run(support::shared_device(), sgd{}, {}, {.accumulate = 2});
  run.parameters().init({.seed = 3});
  const auto x = support::uniform(16 * 23, 1);
  const auto labels = support::classes(16, 1);
  const float first = run.step(bind<"x">(x), bind<"label">(labels)).loss();
  EXPECT_NE(run.step(bind<"x">(x), bind<"label">(labels)).loss(), first);
}

struct greedy {
  float learning_rate = 1;
  static constexpr optimizer_rate<greedy> rates[] = {{"learning_rate", &greedy::learning_rate}};
  [[nodiscard]] std::string name() const { return "greedy"; }
  [[nodiscard]] std::vector<std::string> moments() const { return {}; }
  [[nodiscard]] std::array<float, max_optimizer_numbers> numbers(std::uint32_t) const { return {}; }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const { return {e.parameter}; }
};

TEST(runtime_accumulate, what_cannot_be_is_a_sentence) {
  EXPECT_EQ(support::sentence_of([] { (void)linear_in(sgd{}, {.accumulate = 0}); }),
            "accumulate is 0; it counts the batches of an update, and must be at least 1");
  EXPECT_EQ(
      support::sentence_of([] { (void)linear_in(greedy{}, {.accumulate = 2}); }),
      "greedy has 13 numbers of a step and none is left to say whether it waits for further gradients; use fewer");
}

}  // namespace
