// SPDX-License-Identifier: MIT
// Sessions: random numbers, what may be read when, and checks of what is bound.
#include <meganeura/core/error.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

namespace {

using namespace meganeura;

inline constexpr dim batch = sym<"batch">;

struct noisy_module {
  static constexpr auto forward(value auto x) { return x + meganeura::random<"noise", dims<batch, 4>>; }
};
using noisy = model<noisy_module, input<"x", dtype::f32, dims<batch, 4>>>;

template <class Numbers>
std::vector<float> copy(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST(runtime_session, every_run_draws_new_numbers_and_a_seed_repeats_them) {
  const device& gpu = support::shared_device();
  session<noisy> one(gpu, {{"batch", 3}}, {.seed = 5}), same(gpu, {{"batch", 3}}, {.seed = 5}),
      other(gpu, {{"batch", 3}}, {.seed = 6});
  const std::vector<float> x(12), wrong(3);
  const auto first = copy(one.run(bind<"x">(x)));
  EXPECT_THROW(one.run(bind<"x">(wrong)), error);  // draws nothing
  const auto second = copy(one.run(bind<"x">(x)));
  EXPECT_NE(first, second);
  EXPECT_EQ(copy(same.run(bind<"x">(x))), first);
  EXPECT_EQ(copy(same.run(bind<"x">(x))), second);
  EXPECT_NE(copy(other.run(bind<"x">(x))), first);
}

}  // namespace
