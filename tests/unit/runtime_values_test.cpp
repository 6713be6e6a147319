// SPDX-License-Identifier: MIT
// Graphs written with the functions of models, sizes known at run time only, on a device.
#include <gtest/gtest.h>

#include <meganeura/expr/value.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/shared_device.hpp>
#include <support/small_models.hpp>

#include <cmath>

namespace {

using namespace meganeura;

struct layered {
  static constexpr auto forward(value auto x) { return relu(linear<"layers.1", 5>(relu(linear<"layers.0", 9>(x)))); }
};
struct distance {
  static constexpr auto forward(value auto y) { return mean(abs(y - constant<2.0f>)); }
};
using typed = model<layered, input<"x", dtype::f32, dims<support::batch, 6>>>;

}  // namespace

TEST(runtime_values, a_graph_of_run_time_sizes_trains_bit_for_bit_as_the_typed_model) {
  const device& gpu = support::shared_device();
  const std::int64_t batch = 4, widths[] = {9, 5};
  graph g;
  node_value x(g, g.input("x", dtype::f32, {batch, 6}));
  for (int i = 0; i < 2; ++i) x = relu(linear("layers." + std::to_string(i), x, widths[i]));
  const node_value label(g, g.input("label", dtype::i32, {batch}));
  const node_id loss = cross_entropy_loss(x, label);
  training built(gpu, std::move(g), loss, adam{.learning_rate = 1e-2f});
  trainer<typed, cross_entropy<"label">> written(gpu, adam{.learning_rate = 1e-2f}, {{"batch", batch}});
  built.parameters().init({.seed = 3});
  written.parameters().init({.seed = 3});
  const auto values = support::uniform(24, 1);
  const auto labels = support::classes(4, 2);
  float before = 0;
  for (int step = 0; step < 20; ++step) {
    const float found = built.step({{"x", values}, {"label", labels}}).loss();
    EXPECT_EQ(found, written.step(bind<"x">(values), bind<"label">(labels)).loss());
    if (step == 0) before = found;
    if (step == 19) {
      EXPECT_LT(found, 0.9f * before);
    }
  }
}

TEST(runtime_values, a_loss_of_ones_own_is_written_like_a_model) {
  trainer<typed, loss<distance>> run(support::shared_device(), sgd{.learning_rate = 0.1f}, {{"batch", 4}});
  run.parameters().init({.seed = 3});
  const auto values = support::uniform(24, 1);
  const float first = run.step(bind<"x">(values)).loss();
  EXPECT_TRUE(std::isfinite(first));
  EXPECT_LT(run.step(bind<"x">(values)).loss(), first);
}
