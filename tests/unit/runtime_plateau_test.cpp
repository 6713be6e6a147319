// SPDX-License-Identifier: MIT
// Learning rates that fall when a number no longer gets better, against PyTorch's ReduceLROnPlateau.
#include <meganeura/runtime/training.hpp>

#include <oracle/tolerance.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

// Its `step`, with threshold_mode "rel" and eps 0, from a rate of 1.
struct definition {
  plateau by;
  double rate = 1, best = by.greater_is_better ? -INFINITY : INFINITY;
  std::uint32_t bad = 0, cooling = 0;

  void step(double current) {
    const bool better =
        by.greater_is_better ? current > best * (by.threshold + 1) : current < best * (1 - by.threshold);
    if (better) {
      best = current;
      bad = 0;
    } else {
      ++bad;
    }
    if (cooling > 0) {
      --cooling;
      bad = 0;
    }
    if (bad > by.patience) {
      rate = std::max(rate * by.factor, by.least);
      cooling = by.cooldown;
      bad = 0;
    }
  }
};

training some(const training_options& options) {
  graph g;
  const node_id p = g.parameter("p", dtype::f32, {4});
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(p, p), 1);
  training run(support::shared_device(), std::move(g), loss, sgd{.learning_rate = 1}, options);
  run.parameters().set("p", std::vector<float>{1, 2, 3, 4});
  return run;
}

TEST(runtime_plateau, follows_its_definition) {
  const std::vector<double> falling{5, 4, 4, 3.9999, 4, 4, 3, 3, 3, NAN, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  for (const plateau& by : {plateau{.patience = 2}, plateau{.factor = 0.5, .patience = 0, .cooldown = 2},
                            plateau{.patience = 1, .threshold = 0.1, .least = 0.05},
                            plateau{.factor = 0.5, .patience = 3, .greater_is_better = true}}) {
    definition defined{by};
    training run = some({.plateau = by});
    for (const double each : falling) {
      defined.step(each);
      run.observe(each);
      EXPECT_FLOAT_EQ(run.learning_rate(), static_cast<float>(defined.rate)) << each;
    }
    EXPECT_LT(defined.rate, 1);
  }
}

TEST(runtime_plateau, negative_numbers_are_judged_as_positive_ones_from_the_other_side) {
  const double numbers[] = {5, 4, 4, 3.9999, 4, 4, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 0, 0, 0, -1, -1, -1, -1.01, -1};
  for (const bool greater : {false, true}) {
    const plateau by{.patience = 1, .threshold = 0.02, .greater_is_better = greater};
    plateau mirrored = by;
    mirrored.greater_is_better = !greater;
    plateau_position here, there;
    for (const double each : numbers) {
      here.observe(by, each);
      there.observe(mirrored, -each);
      EXPECT_EQ(here.factor, there.factor) << each;
      EXPECT_EQ(here.waited, there.waited) << each;
    }
  }
  plateau_position constant;
  for (int i = 0; i < 3; ++i) constant.observe({.patience = 1}, -5);
  EXPECT_EQ(constant.factor, 0.1);
}

TEST(runtime_plateau, steps_follow_it_times_the_schedule_and_a_run_goes_on) {
  const support::temporary_folder folder;
  const training_options options{.schedule = step_decay(1, 0.5), .plateau = plateau{.factor = 0.25, .patience = 1}};
  training run = some(options), resumed = some(options);
  for (const double each : {1.0, 1.0}) run.observe(each);
  run.step(std::initializer_list<input_values>{}).wait();
  run.save_checkpoint(folder / "run.safetensors");
  resumed.load_checkpoint(folder / "run.safetensors");
  for (training* each : {&run, &resumed}) {
    each->observe(1);
    EXPECT_FLOAT_EQ(each->learning_rate(), 0.5f * 0.25f);
    each->step(std::initializer_list<input_values>{}).wait();
    EXPECT_EQ(each->parameters().get("p"), (std::vector<float>{-0.75f, -1.5f, -2.25f, -3}));
  }
  run.restart();
  EXPECT_EQ(run.learning_rate(), 1);
}

TEST(runtime_plateau, what_cannot_be_is_a_sentence) {
  EXPECT_EQ(support::sentence_of([] { (void)some({.plateau = plateau{.factor = 2}}); }),
            "plateau: factor is 2; it must be 0 to 1");
  EXPECT_EQ(support::sentence_of([] { some({}).observe(1); }),
            "observe: nothing waits for a number; give the training a plateau: {.plateau = plateau{}}");
}

}  // namespace
