// SPDX-License-Identifier: MIT
// Parameters by name: frozen ones, groups with rates of their own, against the oracle.
#include <meganeura/expr/lower.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

const std::vector<float> x{0.5f, -1, 2, 0.25f, 1, 0.75f}, y{1, -1, 0.5f, 2};

// [2, 3] -> [2, 2] over two layers and a norm; returns the loss.
graph_with_loss perceptron() {
  graph g;
  const node_value in(g, g.input("x", dtype::f32, {2, 3})), wanted(g, g.input("y", dtype::f32, {2, 2}));
  const node_value h = layer_norm("norm", tanh(linear("fc1", in, 5)));
  const node_value off = linear("fc2", h, 2) - wanted;
  const node_id loss = mean(off * off);
  return {std::move(g), loss};
}

training make(const optimizer& chosen, const training_options& options) {
  graph_with_loss model = perceptron();
  return {support::shared_device(), std::move(model.forward), model.loss, chosen, options};
}

training_options grouped() {
  return {.frozen = {"fc1.weight"},
          .no_decay = {"*.bias", "*norm*"},
          .groups = {{.names = "fc2.*", .rate = 0.25f},
                     {.names = "*.bias", .rate = 7},
                     {.names = "norm.weight", .weight_decay = 9.0f}}};
}

std::vector<std::string> moment_names(const training& run) {
  std::vector<std::string> names;
  for (const plan::named_range& each : run.moments().list()) names.push_back(each.name);
  std::ranges::sort(names);
  return names;
}

struct one_layer {
  static constexpr auto forward(value auto in) { return linear<"fc", 1>(in); }
};

// Each group as an optimiser of its own would have it; steps follow the oracle, decay and rates included.
TEST(runtime_groups, rates_and_decay_follow_the_oracle) {
  const adamw chosen{.learning_rate = 0.02f, .weight_decay = 0.5f};
  training run = make(chosen, grouped());
  run.parameters().init({.seed = 5});
  graph_with_loss model = perceptron();
  const graph g = make_training_graph(std::move(model.forward), model.loss, chosen, grouped());
  // fc1.bias is of the second group, fc2.bias of the first: both without decay, the norm at the chosen rate.
  EXPECT_EQ(g.effects().size(), 4u);
  oracle::tensors<double> leaves = support::leaves_of(run.parameters());
  leaves["x"] = oracle::tensor<double>({2, 3}, std::vector<double>(x.begin(), x.end()));
  leaves["y"] = oracle::tensor<double>({2, 2}, std::vector<double>(y.begin(), y.end()));
  // In the order of the parameters: fc1.bias, norm.*, fc2.weight, fc2.bias.
  std::vector<optimizer> groups;
  for (const auto& [rate, decay] : std::vector<std::pair<float, float>>{{7, 0}, {1, 0}, {0.25f, 0.5f}, {0.25f, 0}})
    groups.emplace_back(adamw{.learning_rate = rate * 0.02f, .weight_decay = decay});
  oracle::interpreter<double> truth(g, leaves);
  for (std::uint32_t step = 1; step <= 4; ++step) {
    truth.group_steps.clear();
    for (const optimizer& group : groups) truth.group_steps.push_back(group.step_values(step, 0));
    const double expected = truth.run()["loss"].values[0];
    const float loss = run.step({{"x", x}, {"y", y}}).loss();
    EXPECT_NEAR(loss, expected, 10 * oracle::tolerance(dtype::f32, 64) * expected) << "step " << step;
  }
  for (const auto& tensor : run.parameters().layout().tensors) {
    EXPECT_LT(oracle::relative_error(run.parameters().get(tensor.name), truth.leaves[tensor.name].values),
              20 * oracle::tolerance(dtype::f32, 64))
        << tensor.name;
  }
}

TEST(runtime_groups, what_is_frozen_has_no_gradient_no_moments_and_no_update) {
  training run = make(adamw{.learning_rate = 0.1f}, {.frozen = {"fc1.*", "norm.bias"}});
  run.parameters().init({.seed = 5});
  const std::vector<float> weight = run.parameters().get("fc1.weight"), head = run.parameters().get("fc2.weight");
  for (int step = 0; step < 3; ++step) run.step({{"x", x}, {"y", y}}).wait();
  EXPECT_EQ(run.parameters().get("fc1.weight"), weight);
  EXPECT_NE(run.parameters().get("fc2.weight"), head);
  EXPECT_EQ(moment_names(run),
            (std::vector<std::string>{"optimizer.m.fc2.bias", "optimizer.m.fc2.weight", "optimizer.m.norm.weight",
                                      "optimizer.v.fc2.bias", "optimizer.v.fc2.weight", "optimizer.v.norm.weight"}));
  graph_with_loss all = perceptron(), some = perceptron();
  const graph whole = make_training_graph(std::move(all.forward), all.loss, sgd{});
  const graph part = make_training_graph(std::move(some.forward), some.loss, sgd{}, {.frozen = {"fc1.*", "norm.bias"}});
  EXPECT_LT(part.flops(), whole.flops());  // neither computed nor thrown away
  EXPECT_EQ(part.operands(part.effects()[0]).size(), 6u);
}

TEST(runtime_groups, a_learning_rate_set_later_is_shared_out_and_checkpoints_go_on) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const adamw chosen{.learning_rate = 0.02f, .weight_decay = 0.5f};
  training whole = make(chosen, grouped()), resumed = make(chosen, grouped());
  whole.parameters().init({.seed = 5});
  whole.set_learning_rate(0.01f);
  whole.step({{"x", x}, {"y", y}}).wait();
  whole.save_checkpoint(path);
  resumed.load_checkpoint(path);
  training lower = make(adamw{.learning_rate = 0.01f, .weight_decay = 0.5f}, grouped());
  lower.parameters().init({.seed = 5});
  lower.step({{"x", x}, {"y", y}}).wait();
  for (training* run : {&whole, &resumed, &lower}) run->step({{"x", x}, {"y", y}}).wait();
  for (const auto& tensor : whole.parameters().layout().tensors) {
    EXPECT_EQ(whole.parameters().get(tensor.name), resumed.parameters().get(tensor.name)) << tensor.name;
    EXPECT_EQ(whole.parameters().get(tensor.name), lower.parameters().get(tensor.name)) << tensor.name;
  }
}

TEST(runtime_groups, a_checkpoint_of_other_groups_is_refused_and_changes_nothing) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  training fast = make(sgd{.learning_rate = 2e38f}, {});
  fast.parameters().init({.seed = 5});
  fast.save_checkpoint(path);
  training run = make(sgd{}, {.groups = {{.names = "fc1.*", .rate = 10}}});
  run.parameters().init({.seed = 6});
  const std::vector<float> before = run.parameters().get("fc1.weight");
  EXPECT_EQ(
      support::sentence_of([&] { run.load_checkpoint(path); }),
      path +
          " is of a training with other frozen, no_decay or groups and nothing was loaded; \"fc1.bias\": expected "
          "learning_rate * 10, found the rates of all; \"fc1.weight\": expected learning_rate * 10, found the "
          "rates of all; give this one the same, or load the weights alone: parameters().load(path, {.strict = "
          "false})");
  EXPECT_EQ(run.parameters().get("fc1.weight"), before);
}

TEST(runtime_groups, a_checkpoint_goes_on_with_what_was_frozen_and_not_decayed) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const training_options options{.frozen = "fc1.bias", .no_decay = "norm.*"};
  const sgd chosen{.weight_decay = 0.5f};
  training run = make(chosen, options);
  run.parameters().init({.seed = 5});
  run.save_checkpoint(path);
  EXPECT_EQ(support::sentence_of([&] { make(chosen, options).load_checkpoint(path); }), "no error");
  const std::string unfrozen =
      support::sentence_of([&] { make(chosen, {.no_decay = "norm.*"}).load_checkpoint(path); });
  EXPECT_NE(unfrozen.find("\"fc1.bias\": expected the rates of all, found frozen; give"), std::string::npos)
      << unfrozen;
  const std::string decayed = support::sentence_of([&] { make(chosen, {.frozen = "fc1.bias"}).load_checkpoint(path); });
  EXPECT_NE(decayed.find("\"norm.bias\": expected the rates of all, found weight_decay 0; \"norm.w"), std::string::npos)
      << decayed;
}

TEST(runtime_groups, a_rate_that_a_group_cannot_have_is_named) {
  EXPECT_EQ(
      support::sentence_of([] { make(sgd{.learning_rate = 2e38f}, {.groups = {{.names = "fc1.*", .rate = 10}}}); }),
      "groups: 10 times the learning rate, 2e+38, is not finite; choose a smaller rate");
}

// What needs no sizes is said before there are any.
TEST(runtime_groups, open_sizes_do_not_delay_a_sentence) {
  using rows = model<one_layer, input<"x", dtype::f32, dims<sym<"batch">, 3>>>;
  const auto sentence = [](const training_options& options) {
    return support::sentence_of(
        [&] { trainer<rows, mean_squared_error<"y">>(support::shared_device(), sgd{}, {}, options); });
  };
  EXPECT_EQ(sentence({.frozen = "fd.weight"}),
            "frozen: no parameter is called \"fd.weight\"; the nearest is \"fc.weight\"");
  EXPECT_NE(sentence({.groups = {{.names = "fc.*", .rate = -1}}}).find("of \"fc.*\" is -1"), std::string::npos);
}

// Sizes that declare parameters in another order, or cannot be built: the rates of a name are its group's.
TEST(runtime_groups, rates_do_not_depend_on_what_was_built_in_between) {
  const auto make_rows = [](const symbol_extents& at) {
    graph g;
    const std::int64_t rows = at["rows"];
    const node_value in(g, g.input("x", dtype::f32, {rows, 2}));
    const bool turned = rows > 1;
    const node_value first(g, g.parameter(turned ? "b" : "a", dtype::f32, {2}));
    const node_value second(g, g.parameter(turned ? "a" : "b", dtype::f32, {2}));
    const node_id loss = mean(in * first * second);
    if (rows == 3) {  // no device has the memory
      g.add_output("large", g.scatter_add(g.iota(1), g.reshape(first, {1, 2}), 0, {std::int64_t{1} << 36, 2}));
    }
    return graph_with_loss{std::move(g), loss};
  };
  const training_options options{.groups = {{.names = "a", .rate = 0}, {.names = "b", .rate = 10}}};
  const auto trained = [&](std::int64_t between) {
    training run(support::shared_device(), {open_sizes({{"x", dims<sym<"rows">, 2>}}), make_rows}, sgd{}, options);
    run.prepare({{"rows", 1}});
    run.parameters().init({.seed = 3});
    if (between == 3) {
      EXPECT_NE(support::sentence_of([&] { run.prepare({{"rows", between}}); }), "no error");
    } else {
      run.prepare({{"rows", between}});
    }
    run.step({{"x", std::vector<float>{1, 2}}}).wait();
    std::vector<float> all = run.parameters().get("a");
    for (const float each : run.parameters().get("b")) all.push_back(each);
    return all;
  };
  const std::vector<float> alone = trained(1);
  EXPECT_EQ(trained(2), alone);
  EXPECT_EQ(trained(3), alone);
}

TEST(runtime_groups, without_groups_a_step_is_one_update) {
  training run = make(adam{}, {});
  const auto& steps = run.program().plan().steps;
  EXPECT_EQ(std::ranges::count(steps, plan::step::optimizer, &plan::step::kind), 1);
  EXPECT_EQ(run.program().plan().area_bytes[plan::index_of(plan::area::step_values)], plan::tensor_alignment);
}

TEST(runtime_groups, mistakes_are_answered_with_a_sentence) {
  const auto sentence = [](const optimizer& chosen, const training_options& options) {
    return support::sentence_of([&] { make(chosen, options); });
  };
  EXPECT_EQ(sentence(adam{}, {.frozen = "fc.weight"}),
            "frozen: no parameter is called \"fc.weight\"; the nearest is \"fc1.weight\"");
  EXPECT_EQ(sentence(adam{}, {.no_decay = {"*.bias", "*qqq*"}}),
            "no_decay: no parameter is called \"*qqq*\"; there is \"fc1.weight\", \"fc1.bias\", \"norm.weight\", "
            "\"norm.bias\", ...");
  EXPECT_EQ(sentence(adam{}, {.groups = {{.names = "*fc1.weights"}}}),
            "groups: no parameter is called \"*fc1.weights\"; the nearest is \"fc1.weight\"");
  EXPECT_EQ(sentence(adam{}, {.groups = {{.names = "fc1.*", .rate = -1}}}),
            "groups: the rate, a factor of the learning rate, of \"fc1.*\" is -1; it must be finite and at least 0");
  EXPECT_EQ(sentence(adam{}, {.groups = {{.names = "fc1.*", .weight_decay = std::nanf("")}}}),
            "groups: the weight_decay of \"fc1.*\" is nan; it must be finite and at least 0");
  EXPECT_EQ(sentence(adam{}, {.groups = {{.rate = 0.5f}}}),
            "groups: number 1 names no parameter; say which: {.names = \"encoder.*\", .rate = 0.5}");
  EXPECT_EQ(sentence(adam{}, {.frozen = "fc1.*", .groups = {{.names = {"fc1.bias", "fc1.weight"}, .rate = 2}}}),
            "groups: all parameters called \"fc1.bias\", \"fc1.weight\" are frozen or of an earlier group; leave the "
            "group out, or put it first");
  EXPECT_NE(sentence(adam{}, {.frozen = "*"}).find("the loss reaches no parameter"), std::string::npos);
}

}  // namespace
