// SPDX-License-Identifier: MIT
// Where what is not finite comes from.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace meganeura;

// Behind the first layer a log, which numbers below 0 have none of.
struct logarithm {
  static constexpr auto forward(value auto x) { return log(x + x); }
};
struct network {
  static constexpr auto forward(value auto x) {
    return linear<"out", 5>(dropout<"drop", 0.5>(call<"inside", logarithm>(relu(linear<"fc", 7>(x)) + constant<1.0f>)));
  }
};
using net = model<network, input<"x", dtype::f32, dims<support::batch, 3>>>;

// Layers with a backward of their own, which no step computes as it stands.
struct normalised {
  static constexpr auto forward(value auto x) { return linear<"head", 3>(batch_norm<"norm">(linear<"fc", 16>(x))); }
};

TEST(runtime_not_finite, beside_gradients_of_ones_own) {
  trainer<model<normalised, input<"x", dtype::f32, dims<5, 8>>>, mean_squared_error<"y">> fit(support::shared_device(),
                                                                                              adam{});
  fit.parameters().init({.seed = 1});
  std::vector<float> x(40), y(15, 0.1f);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  fit.step(bind<"x">(x), bind<"y">(y));
  EXPECT_EQ(fit.first_not_finite(bind<"x">(x), bind<"y">(y)), "");
  x[3] = std::numeric_limits<float>::infinity();
  EXPECT_NE(fit.first_not_finite(bind<"x">(x), bind<"y">(y)).find("the first infinity is"), std::string::npos);
}

TEST(runtime_not_finite, the_first_operation_is_named_and_nothing_is_changed) {
  const program_options quiet{.checks = checks::none};
  for (const training_options& options :
       {training_options{.program = quiet, .clip_norm = 1}, training_options{.program = quiet, .accumulate = 2}}) {
    trainer<net, cross_entropy<"label">> fit(support::shared_device(), adam{}, {}, options);
    fit.parameters().init({.seed = 1});
    std::vector<float> x = support::uniform(4 * 3, 1);
    const auto labels = support::classes(4, 2);
    fit.step(bind<"x">(x), bind<"label">(labels)).wait();
    const auto before = support::everything(fit);
    const std::uint64_t batches = fit.batches();
    EXPECT_EQ(fit.first_not_finite(bind<"x">(x), bind<"label">(labels)), "");

    auto bias = fit.parameters().get("fc.bias");
    const auto whole = bias;
    bias[2] = INFINITY;
    fit.parameters().set("fc.bias", bias);
    std::string said = fit.first_not_finite(bind<"x">(x), bind<"label">(labels));
    EXPECT_NE(said.find("the first infinity is %"), std::string::npos) << said;
    EXPECT_NE(said.find(", parameter \"fc.bias\", [2]"), std::string::npos) << said;
    fit.parameters().set("fc.bias", whole);

    x[3] = NAN;
    said = fit.first_not_finite(bind<"x">(x), bind<"label">(labels));
    EXPECT_EQ(said.substr(0, 17), "the first NaN is ") << said;
    EXPECT_NE(said.find(", input \"x\", [1, 0]"), std::string::npos) << said;
    EXPECT_EQ(support::everything(fit), before);
    EXPECT_EQ(fit.batches(), batches);
  }
}

// Without a name inside a module it is the module's; gradients have "backward" in theirs.
TEST(runtime_not_finite, modules_and_gradients_have_their_paths) {
  graph g;
  const node_id w = g.parameter("w", dtype::f32, {4});
  node_id root = no_id;
  {
    const graph::scope in(g, "layers.3");
    root = g.map(scalar_op::sqrt, {g.map(scalar_op::abs, {w})});
  }
  const node_id loss = g.reduce(reduce_kind::sum, root, 1);
  training run(support::shared_device(), std::move(g), loss, sgd{});
  run.parameters().set("w", std::vector<float>{1, 2, 0, 3});
  std::string said = run.first_not_finite(std::initializer_list<input_values>{});
  EXPECT_NE(said.find("of layers.3 backward, [2]"), std::string::npos) << said;
  run.parameters().set("w", std::vector<float>{1, 2, 1, 3});
  EXPECT_EQ(run.first_not_finite(std::initializer_list<input_values>{}), "");
}

TEST(runtime_not_finite, what_gradients_were_accumulated_to_is_looked_at) {
  graph g;
  const node_id p = g.parameter("p", dtype::f32, {3}), c = g.input("c", dtype::f32, {3});
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(p, c), 1);
  training run(support::shared_device(), std::move(g), loss, sgd{},
               {.program = {.checks = checks::none}, .accumulate = 2});
  run.parameters().set("p", std::vector<float>{1, 2, 3});
  const std::vector<float> finite{1, 1, 1};
  run.step({{"c", std::vector<float>{1, INFINITY, 1}}}).wait();
  const std::string said = run.first_not_finite({{"c", finite}});
  EXPECT_NE(said.find(", state \"optimizer.accumulated.p\", [1]"), std::string::npos) << said;
  run.restart();
  EXPECT_EQ(run.first_not_finite({{"c", finite}}), "");
}

}  // namespace
