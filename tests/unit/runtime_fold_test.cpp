// SPDX-License-Identifier: MIT
// What is folded follows the parameters: whoever writes them, whenever.
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/inference.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace meganeura;

// y = x * exp(w) * s, with exp(w) * s of parameters alone.
graph scaled_by_a_table() {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64, 256}), w = g.parameter("w", dtype::f32, {256}),
                s = g.state("s", dtype::f32, {256});
  const node_id table = g.multiply(g.map(scalar_op::exp, {w}), s);
  g.add_output("y", g.multiply(x, g.expand(table, {64, 256})));
  return g;
}
std::vector<float> counting(std::size_t count, float from) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = from + static_cast<float>(i % 256) / 256;
  return made;
}
const std::vector<float> ones(64 * 256, 1);

void expect_table(const std::vector<float>& found, const std::vector<float>& w, float s) {
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], std::exp(w[i % 256]) * s, 1e-5f * std::exp(w[i % 256]) * std::fabs(s)) << i;
}

TEST(runtime_fold, a_run_has_the_parameters_as_they_are) {
  const device gpu = support::shared_device();
  inference run(gpu, scaled_by_a_table()), without(gpu, scaled_by_a_table(), {.program = {.plan = {.fold = false}}});
  EXPECT_EQ(run.program().plan().folded.size(), 1u) << to_text(run.program().plan());
  EXPECT_TRUE(without.program().plan().folded.empty());
  plan::verify(run.program().plan());
  for (const float from : {0.5f, -1.0f}) {
    for (const float s : {1.0f, 3.0f}) {
      run.parameters().set("w", counting(256, from));
      run.parameters().set("s", std::vector<float>(256, s));
      for (int again = 0; again < 2; ++again) expect_table(run.run({{"x", ones}}), counting(256, from), s);
    }
  }
  run.parameters().reset_states();
  expect_table(run.run({{"x", ones}}), counting(256, -1), 0);
  run.parameters().set("s", std::vector<float>(256, 1));
  const support::temporary_folder folder;
  run.parameters().set("w", counting(256, 2));
  run.parameters().save((folder.path() / "weights.safetensors").string());
  run.parameters().set("w", counting(256, 1));
  expect_table(run.run({{"x", ones}}), counting(256, 1), 1);
  run.parameters().load((folder.path() / "weights.safetensors").string());
  expect_table(run.run({{"x", ones}}), counting(256, 2), 1);
}

// What was submitted before has what it was submitted with.
TEST(runtime_fold, writing_between_runs_under_way_is_in_order) {
  const device gpu = support::shared_device();
  inference run(gpu, scaled_by_a_table());
  run.parameters().set("s", std::vector<float>(256, 1));
  for (int i = 0; i < 6; ++i) {
    run.parameters().set("w", counting(256, static_cast<float>(i)));
    run.start({{"x", ones}});
    run.start({{"x", ones}});
    expect_table(run.read("y"), counting(256, static_cast<float>(i)), 1);
  }
}

TEST(runtime_fold, another_program_assigns_the_state) {
  const device gpu = support::shared_device();
  graph counter;
  const node_id s = counter.state("s", dtype::f32, {256}), x = counter.input("by", dtype::f32, {256});
  const node_id next = counter.add(s, x);
  counter.assign(s, next);
  counter.add_output("s_now", next);
  inference run(gpu, scaled_by_a_table());
  inference count(gpu, counter, {}, run.parameters());
  run.parameters().set("w", counting(256, 0));
  run.parameters().reset_states();
  const std::vector<float> by(256, 1);
  for (int i = 1; i <= 5; ++i) {
    count.start({{"by", by}});
    expect_table(run.run({{"x", ones}}), counting(256, 0), static_cast<float>(i));
  }
}

TEST(runtime_fold, a_program_without_a_step_of_its_own_runs) {
  const device gpu = support::shared_device();
  graph g;
  const node_id w = g.parameter("w", dtype::f32, {256});
  g.add_output("y", g.map(scalar_op::exp, {w}));
  inference run(gpu, g, {.program = {.profile = profiling::dispatches, .duration = true}});
  EXPECT_TRUE(run.program().plan().steps.empty());
  for (const float from : {0.0f, 1.0f}) {
    run.parameters().set("w", counting(256, from));
    expect_table(run.run({}), counting(256, from), 1);
    EXPECT_EQ(run.program().profile().size(), 0u);
  }
}

// What is kept for good is not, where there is no memory for it.
TEST(runtime_fold, a_budget_comes_first) {
  const device gpu = support::shared_device();
  graph g;
  node_id h = g.input("x", dtype::f32, {8, 64});
  for (int i = 0; i < 12; ++i) {
    const std::string number = std::to_string(i);
    const node_id up = g.parameter("up" + number, dtype::f32, {64, 64}),
                  down = g.parameter("down" + number, dtype::f32, {64, 64});
    h = g.contract(h, g.contract(up, down, "mk", "kn", "mn"), "mk", "kn", "mn");
  }
  g.add_output("y", h);
  const std::vector<float> x = counting(8 * 64, 0);
  inference whole(gpu, g);
  whole.parameters().init({.seed = 2});
  const std::vector<float> expected = whole.run({{"x", x}});
  EXPECT_EQ(whole.program().plan().folded.size(), 12u);
  const std::uint64_t bytes = whole.program().plan().peak_bytes();
  for (const std::uint64_t budget : {bytes, bytes - 4 * 64 * 64}) {
    inference run(gpu, g, {.program = {.plan = {.memory_budget = budget}}}, whole.parameters());
    EXPECT_EQ(run.program().plan().folded.size(), budget == bytes ? 12u : 0u);
    EXPECT_LE(run.program().plan().peak_bytes(), budget);
    EXPECT_EQ(run.run({{"x", x}}), expected);
  }
}

struct gated {
  static constexpr auto forward(value auto x) {
    auto h = relu(linear<"body", 16>(x));
    return weight_norm_linear<"head", 4>(h * sigmoid(parameter<"gate", dims<16>>));
  }
};
using net = model<gated, input<"x", dtype::f32, dims<8, 12>>>;

// A session beside a training sees each step's weights.
TEST(runtime_fold, sessions_follow_a_training) {
  const device gpu = support::shared_device();
  trainer<net, cross_entropy<"label">> fit(gpu, sgd{.learning_rate = 0.1f});
  fit.parameters().init({.seed = 5});
  session<net> folded(gpu, fit.parameters()),
      without(gpu, fit.parameters(), {}, {.program = {.plan = {.fold = false}}});
  EXPECT_FALSE(folded.program().plan().folded.empty());
  const std::vector<float> x = counting(8 * 12, 0.25f);
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 0, 1, 2, 3};
  for (int i = 0; i < 4; ++i) {
    fit.step(bind<"x">(x), bind<"label">(labels));
    const std::vector<float> found = folded.run(bind<"x">(x)), expected = without.run(bind<"x">(x));
    for (std::size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], expected[k], 1e-5f);
  }
}

// s and what is folded of it are of one time.
TEST(runtime_fold, a_run_beside_a_writer_sees_one_set_of_weights) {
  const device gpu = support::shared_device();
  graph g, writer;
  {
    const node_id x = g.input("x", dtype::f32, {64, 256}), s = g.state("s", dtype::f32, {256});
    const node_id same = g.map(scalar_op::round, {g.map(scalar_op::exp2, {g.map(scalar_op::log2, {s})})});
    g.add_output("y", g.subtract(g.multiply(x, g.expand(s, {64, 256})), g.expand(same, {64, 256})));
    const node_id t = writer.state("s", dtype::f32, {256}), by = writer.input("by", dtype::f32, {256});
    writer.assign(t, writer.add(t, by));
    writer.add_output("z", by);
  }
  inference run(gpu, g);
  ASSERT_EQ(run.program().plan().folded.size(), 1u) << to_text(run.program().plan());
  inference write(gpu, writer, {}, run.parameters());
  run.parameters().set("s", std::vector<float>(256, 1));
  const std::vector<float> by(256, 1);
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) write.start({{"by", by}});
  });
  for (int i = 0; i < 100; ++i) {
    for (const float each : run.run({{"x", ones}})) ASSERT_EQ(each, 0) << i;
  }
  stop = true;
  other.join();
}

}  // namespace
