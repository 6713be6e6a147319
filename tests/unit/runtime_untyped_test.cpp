// SPDX-License-Identifier: MIT
// Graphs whose sizes and names are known when the program runs: trained, run, saved; symbols from any list of pairs.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/inference.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/training.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "vulkan_support.hpp"

namespace {

using namespace meganeura;

struct net {
  graph forward;
  node_id logits;
};

// Layers of the sizes given, relu between them.
net perceptron(std::int64_t batch, const std::vector<std::int64_t>& sizes) {
  graph g;
  node_id h = g.input("x", dtype::f32, {batch, sizes[0]});
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const std::string name = "layers." + std::to_string(i);
    const node_id weight = g.parameter(name + ".weight", dtype::f32, {sizes[i], sizes[i - 1]});
    const node_id bias = g.parameter(name + ".bias", dtype::f32, {sizes[i]});
    h = g.add(g.contract(h, weight, "bi", "oi", "bo"), g.expand_axes(bias, shape{batch, sizes[i]}, 1));
    if (i + 1 < sizes.size()) h = g.map(scalar_op::maximum, {h, g.full(shape{batch, sizes[i]}, 0)});
  }
  return {std::move(g), h};
}

node_id cross_entropy(net& made, std::int64_t batch) {
  const node_value label(made.forward, made.forward.input("label", dtype::i32, {batch}));
  return cross_entropy_loss(node_value(made.forward, made.logits), label);
}

struct data {
  std::vector<float> x;
  std::vector<std::int32_t> label;
};

data samples(std::size_t batch, std::size_t features) {
  data made{support::uniform(batch * features, 1), std::vector<std::int32_t>(batch)};
  for (std::size_t i = 0; i < batch; ++i) made.label[i] = made.x[i * features] < 0 ? 0 : 1;
  return made;
}

TEST(runtime_untyped, rules_are_left_out_by_the_environment) {
  const auto kernels = [] {
    net made = perceptron(4, {3, 8, 2});
    made.forward.add_output("y", made.logits);
    const inference run(support::shared_device(), made.forward, {.seed = 1});
    return run.program().report().explain + std::to_string(run.program().plan().steps.size());
  };
  const std::string all = kernels();
  {
    const test::scoped_environment disabled("MEGANEURA_DISABLE", "epilogues,fuse_pointwise");
    EXPECT_NE(kernels(), all);
  }
  {
    const test::scoped_environment disabled("MEGANEURA_DISABLE", ",");
    EXPECT_EQ(kernels(), all);
  }
  const test::scoped_environment disabled("MEGANEURA_DISABLE", "epilogue");
  EXPECT_EQ(
      support::refusal(kernels),
      "there is no rule or family of rules \"epilogue\" to leave out, as optimize_options::disabled or "
      "MEGANEURA_DISABLE asks; families are algebra, fusion, products, epilogues, attention and splits, rules those "
      "of optimize_report::rules; did you mean \"epilogues\"?");
}

TEST(runtime_untyped, a_graph_of_run_time_sizes_is_trained_and_goes_on_from_a_checkpoint) {
  const device& gpu = support::shared_device();
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const auto make = [&] {
    net made = perceptron(8, {5, 11, 2});
    const node_id loss = cross_entropy(made, 8);
    return std::make_unique<training>(gpu, std::move(made.forward), loss, adam{.learning_rate = 0.05f});
  };
  const auto run = make(), resumed = make();
  run->parameters().init({.seed = 3});
  const data given = samples(8, 5);
  const auto train = [&](training& of, int steps) {
    float loss = 0;
    for (int i = 0; i < steps; ++i) loss = of.step({{"x", given.x}, {"label", given.label}}).loss();
    return loss;
  };
  const float before = train(*run, 1), after = train(*run, 30);
  EXPECT_LT(after, before / 2);
  run->save_checkpoint(path);
  resumed->load_checkpoint(path);
  EXPECT_EQ(resumed->steps(), 31u);
  EXPECT_EQ(train(*resumed, 2), train(*run, 2));
  EXPECT_NE(support::sentence_of([&] {
              run->step({{"y", given.x}});
            }).find("there is no input \"y\""),
            std::string::npos);

  net made = perceptron(8, {5, 11, 2});
  made.forward.add_output("logits", made.logits);
  inference classify(gpu, made.forward, {}, run->parameters());
  const auto logits = classify.run({{"x", given.x}});
  int right = 0;
  for (std::size_t i = 0; i < 8; ++i) right += (logits[2 * i] < logits[2 * i + 1]) == (given.label[i] == 1);
  EXPECT_EQ(right, 8);
}

TEST(runtime_untyped, one_step_is_that_of_the_oracle) {
  const device& gpu = support::shared_device();
  net made = perceptron(4, {3, 6, 2});
  const node_id loss = cross_entropy(made, 4);
  const optimizer chosen = sgd{.learning_rate = 0.5f};
  training run(gpu, made.forward, loss, chosen);
  run.parameters().init({.seed = 2});
  const data given = samples(4, 3);
  oracle::tensors<double> leaves = support::leaves_of(run.parameters());
  leaves["x"] = oracle::tensor<double>({4, 3}, std::vector<double>(given.x.begin(), given.x.end()));
  leaves["label"] =
      oracle::tensor<double>({4}, std::vector<double>(given.label.begin(), given.label.end()), dtype::i32);
  const graph whole = make_training_graph(made.forward, loss, chosen);
  oracle::interpreter<double> truth(whole, leaves, chosen.step_values(1, 0));
  const double expected = truth.run().at("loss").values[0];
  EXPECT_NEAR(run.step({{"x", given.x}, {"label", given.label}}).loss(), expected,
              oracle::tolerance(dtype::f32, 16) * expected);
  for (const auto& tensor : run.parameters().layout().tensors) {
    EXPECT_LT(oracle::relative_error(run.parameters().get(tensor.name), truth.leaves.at(tensor.name).values),
              oracle::tolerance(dtype::f32, 64))
        << tensor.name;
  }
}

TEST(runtime_untyped, results_of_two_runs_and_two_steps_are_their_own) {
  const device& gpu = support::shared_device();
  net made = perceptron(2, {3, 2});
  made.forward.add_output("logits", made.logits);
  inference look(gpu, made.forward);
  look.parameters().init();
  const std::vector<float> one(6, 1), two(6, 2);
  const auto a = look.run({{"x", one}});
  const auto kept = a;
  const auto b = look.run({{"x", two}});
  EXPECT_EQ(a, kept);
  EXPECT_NE(a, b);

  net again = perceptron(2, {3, 2});
  const node_value wanted(again.forward, again.forward.input("y", dtype::f32, {2, 2}));
  const node_id loss = mean_squared_error_loss(node_value(again.forward, again.logits), wanted);
  training run(gpu, std::move(again.forward), loss, sgd{});
  run.parameters().init();
  const std::vector<float> y(4, 0);
  const pending_step first = run.step({{"x", one}, {"y", y}}), second = run.step({{"x", two}, {"y", y}});
  EXPECT_NE(first.loss(), second.loss());
  run.step({{"x", one}, {"y", y}}).wait();
  EXPECT_NE(support::sentence_of([&] { (void)first.loss(); }).find("of step 1 is not kept"), std::string::npos);
}

TEST(runtime_untyped, what_cannot_be_trained_or_run_is_a_sentence) {
  const device& gpu = support::shared_device();
  const net made = perceptron(2, {3, 2});
  EXPECT_NE(
      support::sentence_of([&] { training(gpu, made.forward, made.logits, sgd{}); }).find("the loss is f32 [2, 2]"),
      std::string::npos);
  EXPECT_NE(support::sentence_of([&] { training(gpu, made.forward, node_id{999}, sgd{}); }).find("the loss %999"),
            std::string::npos);
  graph g = made.forward;
  g.add_output("a", made.logits);
  g.add_output("b", made.logits);
  inference both(gpu, g);
  EXPECT_EQ(support::sentence_of([&] { both.run({}); }),
            "run returns the only output and this graph has \"a\", \"b\"; use start and read");
  EXPECT_EQ(support::sentence_of([&] { both.start({}); }),
            "input \"x\" was not bound; every step binds it anew: bind<\"x\">(values), or {\"x\", values} where names "
            "are not known before");
}

TEST(runtime_untyped, symbols_come_from_any_list_of_pairs) {
  using mlp = support::mlp<4>;
  const device& gpu = support::shared_device();
  const std::string name = "batch";
  const std::map<std::string, int> map{{name, 2}};
  const std::vector<std::pair<std::string_view, std::size_t>> pairs{{name, 2}};
  const std::array<symbol_extent, 1> bindings{{{"batch", 2}}};
  session<mlp> first(gpu, map), second(gpu, first.parameters(), pairs), third(gpu, first.parameters(), bindings),
      fourth(gpu, first.parameters(), {{"batch", 2}});
  first.parameters().init();
  const auto x = support::uniform(8, 1);
  const auto expected = first.run(bind<"x">(x));
  for (session<mlp>* each : {&second, &third, &fourth}) EXPECT_EQ(each->run(bind<"x">(x)), expected);
  EXPECT_NE(support::sentence_of([&] {
              session<mlp>(gpu, std::map<std::string, int>{{"bach", 2}});
            }).find("batch"),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] {
              session<mlp>(gpu, std::map<std::string, int>{{std::string("batch\0x", 7), 2}});
            }).find("zero byte"),
            std::string::npos);
}

}  // namespace
