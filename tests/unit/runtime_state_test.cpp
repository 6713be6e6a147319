// SPDX-License-Identifier: MIT
// States: beside the parameters, shared by the programs of a model, saved and loaded.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/gradient.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

// total += x, whose old value is the result.
graph sums(std::int64_t extent) {
  graph g;
  const node_id total = g.state("total", dtype::f32, {extent}), x = g.input("x", dtype::f32, {extent});
  g.assign(total, g.add(total, g.multiply(x, g.parameter("w", dtype::f32, {extent}))));
  g.add_output("total", total);
  return g;
}

TEST(runtime_state, programs_that_share_parameters_share_states) {
  const device& gpu = support::shared_device();
  inference first(gpu, sums(2));
  first.parameters().init();
  first.parameters().set("w", std::vector<float>{1, 10});
  inference second(gpu, sums(2), {}, first.parameters());
  using values = std::vector<float>;
  const values one{1, 1}, two{2, 2};
  EXPECT_EQ(first.run({{"x", one}}), (values{0, 0}));
  EXPECT_EQ(second.run({{"x", two}}), (values{1, 10}));
  EXPECT_EQ(first.run({{"x", one}}), (values{3, 30}));
  EXPECT_EQ(second.parameters().get("total"), (values{4, 40}));
  second.parameters().set("total", values{7, 8});
  EXPECT_EQ(first.run({{"x", one}}), (values{7, 8}));
  first.parameters().reset_states();
  EXPECT_EQ(second.run({{"x", two}}), (values{0, 0}));
  EXPECT_EQ(second.parameters().get("w"), (values{1, 10}));
  EXPECT_EQ(second.parameters().count(), 2u);
}

TEST(runtime_state, outputs_are_those_of_the_run_whatever_is_written_later) {
  const device& gpu = support::shared_device();
  graph g, h;
  const node_id s = g.state("s", dtype::f32, {1}), x = g.input("x", dtype::f32, {1}), sum = g.add(s, x);
  const node_id t = g.state("t", dtype::f32, {1}), w = g.parameter("w", dtype::f32, {1});
  g.add_output("before", s), g.add_output("after", sum), g.add_output("t", t), g.add_output("w", w);
  g.assign(s, sum);
  for (const char* name : {"s", "t"}) h.assign(h.state(name, dtype::f32, {1}), h.full({1}, 100));
  inference first(gpu, g), second(gpu, h, {}, first.parameters());
  using values = std::vector<float>;
  first.parameters().set("s", values{1}), first.parameters().set("t", values{5}),
      first.parameters().set("w", values{7});
  const values two{2};
  first.start({{"x", two}});
  second.start({});
  first.parameters().set("w", values{8});
  EXPECT_EQ(first.read("before"), values{1});
  EXPECT_EQ(first.read("after"), values{3});
  EXPECT_EQ(first.read("t"), values{5});
  EXPECT_EQ(first.read("w"), values{7});
  EXPECT_EQ(first.parameters().get("s"), values{100});
}

TEST(runtime_state, states_are_saved_and_loaded_with_parameters) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  const std::string path = folder / "weights.safetensors";
  inference run(gpu, sums(2));
  run.parameters().init();
  run.parameters().set("total", std::vector<float>{3, 4});
  run.parameters().save(path);
  inference other(gpu, sums(2));
  other.parameters().load(path);
  EXPECT_EQ(other.parameters().get("total"), (std::vector<float>{3, 4}));
  other.parameters().init();
  EXPECT_EQ(other.parameters().get("total"), (std::vector<float>{0, 0}));
}

TEST(runtime_state, a_state_that_the_shared_parameters_lack_or_have_otherwise_is_refused) {
  const device& gpu = support::shared_device();
  inference run(gpu, sums(2));
  const auto refusal = [&](const graph& g) {
    return support::sentence_of([&] { inference(gpu, g, {}, run.parameters()); });
  };
  EXPECT_EQ(refusal(sums(3)), "state \"total\" f32 [3] is stored as a state f32[2]; build both from one model");
  graph g;
  g.add_output("seen", g.state("seen", dtype::f32, {2}));
  EXPECT_EQ(refusal(g), "state \"seen\" f32 [2] is not among the parameters; build both from one model");
  graph h;
  h.add_output("w", h.state("w", dtype::f32, {2}));
  EXPECT_EQ(refusal(h), "state \"w\" f32 [2] is stored as a parameter f32[2]; build both from one model");
}

// What it saw so far, in either mode.
struct counter {
  static constexpr auto forward(value auto x) {
    auto total = state<"total", dims<2>>;
    auto next = total + constant<1.0f>;
    return sum<1>(x * next * parameter<"w", dims<2>>) | assign(total, next);
  }
};
using counted = model<counter, input<"x", dtype::f32, dims<sym<"batch">, 2>>>;

TEST(runtime_state, evaluating_and_differentiating_assign_nothing_and_a_session_does) {
  const device& gpu = support::shared_device();
  using values = std::vector<float>;
  trainer<counted, mean_squared_error<"y">> fit(gpu, sgd{.learning_rate = 0});
  parameters weights = fit.parameters();
  weights.set("w", values{1, 10});
  const values x{1, 1}, y(1);
  fit.step(bind<"x">(x), bind<"y">(y));
  EXPECT_EQ(weights.get("total"), (values{1, 1}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(fit.evaluate(bind<"x">(x), bind<"y">(y)), 22 * 22);  // inside it the value is the new one
    EXPECT_EQ(fit.evaluated(), values{22});
    EXPECT_EQ(weights.get("total"), (values{1, 1}));
  }
  gradient<counted, of<"output">, wrt<"x">> slope(gpu, weights);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(slope.run(bind<"x">(x)), (values{2, 20}));
    EXPECT_EQ(weights.get("total"), (values{1, 1}));
  }
  session<counted> s(gpu, weights);
  EXPECT_EQ(s.run(bind<"x">(x)), values{22});
  EXPECT_EQ(weights.get("total"), (values{2, 2}));

  graph g = sums(2);
  const node_id loss = g.reduce(reduce_kind::sum, g.find_leaf("w"), 1);
  training plain(gpu, std::move(g), loss, sgd{});
  plain.parameters().set("w", values{1, 1});
  plain.evaluate({{"x", values{5, 6}}});
  EXPECT_EQ(plain.parameters().get("total"), (values{0, 0}));
}

TEST(runtime_state, restarting_a_training_resets_states) {
  graph g = sums(2);
  const node_id loss = g.reduce(reduce_kind::sum, g.parameter("w", dtype::f32, {2}), 1);
  training run(support::shared_device(), std::move(g), loss, sgd{.learning_rate = 0});
  run.parameters().set("w", std::vector<float>{1, 1});
  run.step({{"x", std::vector<float>{5, 6}}}).wait();
  EXPECT_EQ(run.parameters().get("total"), (std::vector<float>{5, 6}));
  run.restart();
  EXPECT_EQ(run.parameters().get("total"), (std::vector<float>{0, 0}));
  EXPECT_EQ(run.parameters().get("w"), (std::vector<float>{1, 1}));
}

}  // namespace
