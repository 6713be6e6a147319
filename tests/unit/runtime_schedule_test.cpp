// SPDX-License-Identifier: MIT
// Schedules of the learning rate: their values as PyTorch has them, and steps that follow them.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

// The recursive forms of torch.optim.lr_scheduler, or its closed ones where it has no others; `t` steps are done.
double cosine(double t, double all, double last) {
  return last + (1 - last) * (1 + std::cos(std::numbers::pi * t / all)) / 2;
}
double repeated(double factor, std::uint32_t times) {
  double all = 1;
  while (times-- > 0) all *= factor;
  return all;
}
// OneCycleLR: pct_start 0.3, div_factor 25, final_div_factor 1e4, total_steps 20.
double one_cycle_of_20(std::uint32_t t) {
  const double peak = 0.3 * 20 - 1, initial = 1.0 / 25, lowest = initial / 1e4;
  const auto anneal = [](double start, double end, double part) {
    return end + (start - end) / 2 * (std::cos(std::numbers::pi * part) + 1);
  };
  return t <= peak ? anneal(initial, 1, t / peak) : anneal(1, lowest, (t - peak) / (19 - peak));
}

TEST(runtime_schedule, each_follows_its_definition) {
  struct row {
    const char* name;
    learning_rate_schedule schedule;
    std::function<double(std::uint32_t)> defined;
    std::uint32_t steps = 30;
  };
  const std::vector<row> rows{
      {"constant", {}, [](auto) { return 1.0; }},
      {"linear", linear_decay(8), [](auto t) { return t < 8 ? 1 - t / 8.0 : 0; }},
      {"linear to a quarter", linear_decay(8, 0.25), [](auto t) { return t < 8 ? 1 - 0.75 * t / 8 : 0.25; }},
      {"cosine", cosine_decay(10), [](auto t) { return t < 10 ? cosine(t, 10, 0) : 0; }},
      {"cosine to a tenth", cosine_decay(10, 0.1), [](auto t) { return t < 10 ? cosine(t, 10, 0.1) : 0.1; }},
      {"steps", step_decay(7), [](auto t) { return repeated(0.1, t / 7); }},
      {"exponential", exponential_decay(0.875), [](auto t) { return repeated(0.875, t); }},
      {"one cycle", one_cycle(20), one_cycle_of_20, 20},
      {"warm-up", warmup(4), [](auto t) { return t < 4 ? (t + 1) / 4.0 : 1; }},
      {"warm-up of steps", warmup(4, step_decay(7, 0.5)),
       [](auto t) { return t < 4 ? (t + 1) / 4.0 : repeated(0.5, (t - 4) / 7); }},
      {"warm-up and line", warmup_linear(4, 14, 0.5),
       [](auto t) { return t < 4    ? (t + 1) / 4.0
                           : t < 14 ? 1 - 0.5 * (t - 4.0) / 10
                                    : 0.5; }},
      {"warm-up and cosine", warmup_cosine(4, 14),
       [](auto t) { return t < 4    ? (t + 1) / 4.0
                           : t < 14 ? cosine(t - 4.0, 10, 0)
                                    : 0; }},
      {"a function", [](std::uint32_t done) { return done == 3 ? 2 : 1; }, [](auto t) { return t == 3 ? 2.0 : 1.0; }},
  };
  for (const row& each : rows) {
    for (std::uint32_t t = 0; t < each.steps; ++t)
      EXPECT_NEAR(each.schedule.factor(t), each.defined(t), oracle::tolerance_f64(64)) << each.name << " after " << t;
  }
  EXPECT_EQ(one_cycle(20).factor(1000), one_cycle(20).factor(19));
}

struct offset_layer {
  static constexpr auto forward(value auto x) { return x * parameter<"p", dims<6>> + parameter<"q", dims<6>>; }
};
using offset = model<offset_layer, input<"x", dtype::f32, dims<6>>>;
using offset_trainer = trainer<offset, mean_squared_error<"y">>;
const std::vector<float> x{1, 2, -1, 0.5f, 3, 0.25f}, y{-1, 0.5f, 2, 0.25f, 0, -3};

std::unique_ptr<offset_trainer> make(const optimizer& chosen, const training_options& options) {
  auto made = std::make_unique<offset_trainer>(support::shared_device(), chosen, symbol_extents{}, options);
  made->parameters().init({.seed = 1});
  return made;
}
pending_step step(offset_trainer& run) { return run.step(bind<"x">(x), bind<"y">(y)); }

// Bit for bit: those of a run that is told the rate before each step. Groups have their share of it.
TEST(runtime_schedule, steps_have_the_scheduled_rate_and_nothing_is_built_again) {
  const std::vector<parameter_group> groups{{.names = "q", .rate = 0.5f}};
  const adamw chosen{.learning_rate = 0.25f, .weight_decay = 0.1f};
  const auto scheduled = make(chosen, {.groups = groups, .schedule = warmup_cosine(3, 8)});
  const auto told = make(chosen, {.groups = groups});
  const program* first = &scheduled->program();
  for (std::uint32_t i = 0; i < 10; ++i) {
    const auto rate = static_cast<float>(0.25 * warmup_cosine(3, 8).factor(i));
    told->set_learning_rate(rate);
    EXPECT_EQ(scheduled->learning_rate(), rate);
    step(*told);
    step(*scheduled);
    EXPECT_EQ(support::everything(*scheduled), support::everything(*told)) << i;
  }
  EXPECT_EQ(&scheduled->program(), first);
  EXPECT_EQ(step(*scheduled).loss(), step(*scheduled).loss());  // a rate of 0 by now
}

TEST(runtime_schedule, the_rate_that_is_set_is_multiplied) {
  const auto run = make(sgd{.learning_rate = 0.5f}, {.schedule = step_decay(1, 0.5)});
  step(*run);
  EXPECT_EQ(run->learning_rate(), 0.25f);
  run->set_learning_rate(8);
  EXPECT_EQ(run->learning_rate(), 4);
  run->restart();
  EXPECT_EQ(run->learning_rate(), 8);
}

TEST(runtime_schedule, a_run_goes_on_bit_for_bit_from_a_checkpoint) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const training_options options{.clip_norm = 0.5f, .schedule = warmup(4, exponential_decay(0.75))};
  const auto whole = make(adam{.learning_rate = 0.1f}, options), resumed = make(adam{}, options);
  for (int i = 0; i < 3; ++i) step(*whole);
  whole->save_checkpoint(path);
  for (int i = 0; i < 5; ++i) step(*whole);
  resumed->load_checkpoint(path);
  EXPECT_EQ(resumed->learning_rate(), 0.1f);
  for (int i = 0; i < 5; ++i) step(*resumed);
  EXPECT_EQ(support::everything(*resumed), support::everything(*whole));
}

TEST(runtime_schedule, what_is_none_is_a_sentence) {
  const std::pair<std::function<void()>, std::string> wrong[] = {
      {[] { (void)linear_decay(0); }, "linear_decay over 0 steps; there must be at least 1"},
      {[] { (void)cosine_decay(-3); }, "cosine_decay over -3 steps; there must be at least 1"},
      {[] { (void)step_decay(0); }, "step_decay over 0 steps; there must be at least 1"},
      {[] { (void)warmup(0); }, "warmup over 0 steps; there must be at least 1"},
      {[] { (void)cosine_decay(3, -1); }, "cosine_decay: last is -1; it must be finite and at least 0"},
      {[] { (void)linear_decay(3, NAN); }, "linear_decay: last is nan; it must be finite and at least 0"},
      {[] { (void)exponential_decay(INFINITY); }, "exponential_decay: factor is inf; it must be finite and at least 0"},
      {[] { (void)step_decay(3, -0.5); }, "step_decay: factor is -0.5; it must be finite and at least 0"},
      {[] { (void)one_cycle(3); },
       "one_cycle: 0.3 of 3 steps rise; there must be more than 1 step that rises and 1 that falls"},
      {[] { (void)warmup_cosine(100, 100); },
       "warmup_cosine: 100 of 100 steps are warm-up; there must be more, which it is part of"},
      {[] { (void)warmup_linear(0, 100); }, "warmup_linear over 0 steps; there must be at least 1"},
  };
  for (const auto& [make_one, sentence] : wrong) EXPECT_EQ(support::sentence_of(make_one), sentence);
}

// The step has then not happened.
TEST(runtime_schedule, a_factor_that_is_none_is_a_sentence_of_the_step) {
  const auto run = make(sgd{}, {.schedule = [](std::uint32_t done) { return 1 - 1.0 * done; }});
  step(*run);
  step(*run);
  const auto before = support::everything(*run);
  EXPECT_EQ(support::sentence_of([&] { step(*run); }),
            "schedule: the factor of the learning rate is -1 after 2 steps; it must be finite and at least 0");
  EXPECT_EQ(run->steps(), 2u);
  EXPECT_EQ(support::everything(*run), before);
}

}  // namespace
