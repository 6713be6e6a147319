// SPDX-License-Identifier: MIT
// Training within a memory budget: states and random streams as without one, and what is said where it cannot be had.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

inline constexpr conv2d_options around{.kernel = 3, .padding = 1};
struct block {
  static constexpr auto forward(value auto x) {
    return dropout<"drop", 0.25>(relu(batch_norm<"norm">(conv2d<"conv", 8, around>(x)))) + x;
  }
};
struct images {
  static constexpr auto forward(value auto x) {
    return linear<"head", 4>(mean<2, 3>(repeat<"blocks", 6, block>(conv2d<"first", 8, around>(x))));
  }
};
using net = model<images, input<"x", dtype::f32, dims<4, 3, 12, 12>>>;
using image_trainer = trainer<net, cross_entropy<"label">>;

std::vector<float> trained(image_trainer& run) {
  run.parameters().init({.seed = 3});
  std::vector<float> x(4 * 3 * 12 * 12);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  std::vector<float> found;
  for (int i = 0; i < 3; ++i)
    found.push_back(run.step(bind<"x">(x), bind<"label">(std::vector<std::int32_t>{0, 1, 2, 3})).loss());
  for (const char* name : {"blocks.5.norm.running_mean", "blocks.0.norm.running_var", "blocks.3.conv.weight"}) {
    const std::vector<float> values = run.parameters().get(name);
    found.insert(found.end(), values.begin(), values.end());
  }
  return found;
}

TEST(runtime_memory, steps_are_the_same_bit_by_bit_in_less_memory) {
  const device gpu = support::shared_device();
  image_trainer whole(gpu, adam{});
  const std::uint64_t bytes = whole.program().plan().peak_bytes(), budget = bytes * 8 / 10;
  image_trainer less(gpu, adam{}, {}, {.program = {.plan = {.memory_budget = budget}}});
  EXPECT_LE(less.program().plan().peak_bytes(), budget);
  EXPECT_GT(less.program().plan().computed_again(), 0u);
  plan::verify(less.program().plan());
  EXPECT_EQ(trained(less), trained(whole));
}

// What a program takes besides is part of the plan.
TEST(runtime_memory, sessions_stay_within_a_budget_too) {
  const device gpu = support::shared_device();
  const session<net> whole(gpu);
  const std::uint64_t bytes = whole.program().plan().peak_bytes();
  const session<net> same(gpu, {}, {.program = {.plan = {.memory_budget = bytes}}});
  EXPECT_EQ(same.program().plan().peak_bytes(), bytes);
  try {
    const session<net> less(gpu, {}, {.program = {.plan = {.memory_budget = bytes - 1}}});
    EXPECT_LT(less.program().plan().peak_bytes(), bytes);
  } catch (const error& refused) {
    EXPECT_EQ(refused.category(), error_category::out_of_memory);
    EXPECT_EQ(std::string(refused.what()).find("gradients"), std::string::npos) << refused.what();
  }
}

TEST(runtime_memory, what_cannot_be_had_is_a_sentence_with_what_can) {
  const auto build = [] {
    const image_trainer run(support::shared_device(), adam{}, {}, {.program = {.plan = {.memory_budget = 1000}}});
  };
  EXPECT_THAT(support::sentence_of(build),
              testing::AllOf(testing::HasSubstr("memory_budget is 1000 bytes"), testing::HasSubstr("are needed")));
}

}  // namespace
