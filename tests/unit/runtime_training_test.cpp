// SPDX-License-Identifier: MIT
// Sessions and trainers: training follows the oracle, a step replays, parameters are shared and saved.
#include <meganeura/core/error.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/io/safetensors.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

using support::batch;
using support::classes;
using support::cnn;
using support::uniform;
using mlp = support::mlp<23>;

struct frozen_trunk {
  static constexpr auto forward(value auto x) {
    return linear<"head", 5>(stop_gradient(relu(linear<"trunk", 17>(x))) + linear<"side", 17>(x));
  }
};
struct squared {
  static constexpr auto forward(value auto x) { return linear<"fc", 23>(x); }
};
using square = model<squared, input<"x", dtype::f32, dims<batch, 23>>>;
using frozen = model<frozen_trunk, input<"x", dtype::f32, dims<batch, 23>>>;

// Trains `steps` steps on the device and in the f64 interpreter, on other data every step; parameters must agree.
template <class Model>
void follows_the_oracle(const optimizer& chosen, std::int64_t count, std::size_t features, int steps) {
  const support::checked_device gpu;
  const symbol_extent symbols[] = {{"batch", count}};
  const graph g = make_training_graph<Model, cross_entropy<"label">>(chosen, symbols);
  trainer<Model, cross_entropy<"label">> run(gpu, chosen, {{"batch", count}});
  run.parameters().init({.seed = 3});
  oracle::tensors<double> leaves = support::leaves_of(run.parameters());
  oracle::interpreter<double> truth(g, leaves);
  for (int step = 1; step <= steps; ++step) {
    const auto x = uniform(static_cast<std::size_t>(count) * features, static_cast<unsigned>(step));
    const auto labels = classes(static_cast<std::size_t>(count), static_cast<unsigned>(step) + 100);
    const float loss = run.step(bind<"x">(x), bind<"label">(labels)).loss();
    truth.step = chosen.step_values(static_cast<std::uint32_t>(step), 0);
    truth.leaves["x"] =
        oracle::tensor<double>({count, static_cast<std::int64_t>(features)}, std::vector<double>(x.begin(), x.end()));
    truth.leaves["label"] =
        oracle::tensor<double>({count}, std::vector<double>(labels.begin(), labels.end()), dtype::i32);
    truth.clear();
    const double expected = truth.run()["loss"].values[0];
    EXPECT_NEAR(loss, expected, oracle::tolerance(dtype::f32, 1024) * expected) << "step " << step;
  }
  for (const auto& tensor : run.parameters().layout().tensors) {
    // Adam divides by the root of tiny second moments: rounding of a gradient shows in full. 1e4 terms stand for that.
    EXPECT_LT(oracle::relative_error(run.parameters().get(tensor.name), truth.leaves[tensor.name].values),
              oracle::tolerance(dtype::f32, 10000) * steps)
        << tensor.name;
  }
}

TEST(runtime_training, sgd_with_momentum_follows_the_oracle) {
  follows_the_oracle<mlp>(sgd{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 1e-2f}, 7, 23, 4);
}
TEST(runtime_training, plain_sgd_follows_the_oracle) { follows_the_oracle<mlp>(sgd{.learning_rate = 0.1f}, 32, 23, 3); }
TEST(runtime_training, adam_follows_the_oracle) {
  follows_the_oracle<mlp>(adam{.learning_rate = 1e-2f, .epsilon = 1e-4f}, 16, 23, 4);
}
TEST(runtime_training, adamw_follows_the_oracle) {
  follows_the_oracle<mlp>(adamw{.learning_rate = 1e-2f, .epsilon = 1e-4f}, 16, 23, 4);
}
TEST(runtime_training, a_convolutional_net_follows_the_oracle) {
  follows_the_oracle<cnn>(sgd{.learning_rate = 0.1f}, 6, 64, 3);
}

struct trained {
  float loss;
  std::vector<float> weight;
};

// One step of gradient descent with weight decay off, the labels as given.
template <std::int32_t Ignored = -100>
trained step_with(const device& gpu, const std::vector<std::int32_t>& labels, const std::vector<float>& x) {
  const auto count = static_cast<std::int64_t>(labels.size());
  trainer<mlp, cross_entropy<"label", cross_entropy_options{Ignored}>> run(
      gpu, sgd{.learning_rate = 1}, {{"batch", count}}, {.program = {.checks = checks::none}});
  run.parameters().init({.seed = 3});
  const float value = run.step(bind<"x">(x), bind<"label">(labels)).loss();
  return {value, run.parameters().get("fc1.weight")};
}

TEST(runtime_training, labels_that_are_ignored_or_no_class_are_left_out) {
  const support::checked_device gpu;
  const auto x = uniform(6 * 23, 1);
  std::vector<float> kept(x.begin() + 23, x.begin() + 2 * 23);
  kept.insert(kept.end(), x.begin() + 4 * 23, x.begin() + 5 * 23);
  const trained expected = step_with(gpu, {2, 4}, kept);
  const double precision = oracle::tolerance(dtype::f32, 64);
  const auto expect_the_same = [&](const trained& found) {
    EXPECT_NEAR(found.loss, expected.loss, precision * expected.loss);
    EXPECT_LT(oracle::relative_error(found.weight, std::vector<double>(expected.weight.begin(), expected.weight.end())),
              precision);
  };
  expect_the_same(step_with(gpu, {-100, 2, 5, -1, 4, 1 << 30}, x));
  expect_the_same(step_with<0>(gpu, {0, 2, 0, 0, 4, 0}, x));
  const trained none = step_with(gpu, {-100, -100}, kept);
  EXPECT_EQ(none.loss, 0);
  EXPECT_EQ(none.weight, step_with(gpu, {12, -1}, kept).weight);
  EXPECT_TRUE(std::ranges::none_of(none.weight, [](float value) { return std::isnan(value); }));
}

TEST(runtime_training, a_step_allocates_creates_and_records_nothing) {
  const support::checked_device gpu;
  trainer<mlp, cross_entropy<"label">> run(gpu, adam{}, {{"batch", 8}});
  run.parameters().init();
  const auto x = uniform(8 * 23, 1);
  const auto labels = classes(8, 2);
  run.step(bind<"x">(x), bind<"label">(labels)).wait();
  const auto before = gpu.counters();
  for (int i = 0; i < 10; ++i) run.step(bind<"x">(x), bind<"label">(labels));
  EXPECT_GT(run.step(bind<"x">(x), bind<"label">(labels)).loss(), 0);
  const auto after = gpu.counters();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.pipelines, before.pipelines);
  EXPECT_EQ(after.recordings, before.recordings);
  EXPECT_EQ(after.submissions, before.submissions + 11);
}

TEST(runtime_training, a_session_sees_the_parameters_of_its_trainer) {
  const support::checked_device gpu;
  trainer<mlp, cross_entropy<"label">> run(gpu, sgd{.learning_rate = 0.5f}, {{"batch", 8}});
  run.parameters().init({.seed = 5});
  session<mlp> look(gpu, run.parameters(), {{"batch", 3}});
  const auto x = uniform(3 * 23, 1), many = uniform(8 * 23, 2);
  const auto labels = classes(8, 3);
  const auto first = look.run(bind<"x">(x));
  const std::vector<float> before(first.begin(), first.end());
  run.step(bind<"x">(many), bind<"label">(labels));
  const auto after = look.run(bind<"x">(x));
  EXPECT_FALSE(std::ranges::equal(before, after));
}

TEST(runtime_training, two_runs_give_the_same_bits) {
  const support::checked_device gpu;
  std::vector<std::vector<float>> results;
  for (int round = 0; round < 2; ++round) {
    trainer<cnn, cross_entropy<"label">> run(gpu, adam{}, {{"batch", 6}});
    run.parameters().init({.seed = 9});
    for (unsigned i = 0; i < 3; ++i) run.step(bind<"x">(uniform(6 * 64, i)), bind<"label">(classes(6, i))).wait();
    results.push_back(run.parameters().get("conv.weight"));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(runtime_training, parameters_survive_a_file) {
  const support::checked_device gpu;
  const support::temporary_folder folder;
  session<mlp> one(gpu, {{"batch", 2}}), other(gpu, {{"batch", 2}});
  one.parameters().init({.seed = 4});
  const std::string path = folder / "mlp.safetensors";
  one.parameters().save(path);
  other.parameters().load(path);
  for (const auto& tensor : one.parameters().layout().tensors) {
    EXPECT_EQ(one.parameters().get(tensor.name), other.parameters().get(tensor.name)) << tensor.name;
  }
}

TEST(runtime_training, a_file_that_does_not_fit_changes_nothing_and_says_all_that_is_wrong) {
  const support::checked_device gpu;
  const support::temporary_folder folder;
  const std::string path = folder / "wrong.safetensors";
  const std::vector<float> values(40);
  const auto bytes = [&](std::size_t count) { return std::as_bytes(std::span(values).first(count)); };
  io::write_safetensors(path, std::vector<io::safetensors_entry>{{"fc1.bias", "F32", {17}, bytes(17)},
                                                                 {"fc2.bias", "F32", {6}, bytes(6)},
                                                                 {"fc2.wieght", "F32", {2, 3}, bytes(6)}});
  session<mlp> one(gpu, {{"batch", 2}});
  one.parameters().init({.seed = 4});
  const auto before = one.parameters().get("fc2.weight");
  try {
    one.parameters().load(path);
    FAIL() << "loaded a file that lacks tensors";
  } catch (const error& e) {
    const std::string text = e.what();
    EXPECT_EQ(e.category(), error_category::invalid_file);
    for (const char* part : {"\"fc1.weight\" is missing", "\"fc2.weight\" is missing (nearest: \"fc2.wieght\")",
                             "\"fc2.bias\": expected [5], found [6]", "\"fc2.wieght\" is not in the model"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << "\nin: " << text;
    }
  }
  EXPECT_EQ(one.parameters().get("fc2.weight"), before);
}

TEST(runtime_training, a_hostile_file_is_answered_soon_and_briefly) {
  const support::checked_device gpu;
  const support::temporary_folder folder;
  const std::string path = folder / "hostile.safetensors";
  std::vector<io::safetensors_entry> entries;
  for (int i = 0; i < 20'000; ++i) entries.push_back({fmt::format("\x1b]0;{}\a{:0180}", i, i), "U8", {0}, {}});
  entries.push_back({std::string(1'000'000, 'w'), "U8", {0}, {}});
  io::write_safetensors(path, entries);
  session<mlp> one(gpu, {{"batch", 2}});
  const auto start = std::chrono::steady_clock::now();
  const std::string text = support::sentence_of([&] { one.parameters().load(path); });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_LT(text.size(), 8000u);
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_NE(text.find("; and 20000 more"), text.npos) << text;
}

TEST(runtime_training, wrong_bindings_are_sentences) {
  const support::checked_device gpu;
  trainer<mlp, cross_entropy<"label">> run(gpu, adam{}, {{"batch", 4}});
  const auto x = uniform(4 * 23, 1);
  const auto labels = classes(4, 1);
  EXPECT_NE(support::sentence_of([&] {
              run.training::step({{"x", x}, {"lable", labels}});
            }).find("there is no input \"lable\""),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] {
              run.step(bind<"x">(std::span(x).first(23)), bind<"label">(labels));
            }).find("input \"x\" is f32[4, 23]"),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] { run.step(bind<"x">(x)); }).find("input \"label\" was not bound"),
            std::string::npos);
  // A refused step leaves nothing behind: neither what it bound nor a step that Adam has counted.
  EXPECT_NE(support::sentence_of([&] { run.step(bind<"label">(labels)); }).find("input \"x\" was not bound"),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] {
              run.training::step({{"x", x}, {"label", labels}, {"x", x}});
            }).find("input \"x\" is bound twice"),
            std::string::npos);
  EXPECT_EQ(run.steps(), 0u);
  EXPECT_NE(support::sentence_of([&] { (void)run.parameters().get("fc1.wait"); }).find("did you mean \"fc1.weight\""),
            std::string::npos);
  EXPECT_NE(support::sentence_of([&] { session<mlp>(gpu).run(); }).find("batch"), std::string::npos);
}

TEST(runtime_training, a_refused_step_changes_no_later_number) {
  const support::checked_device gpu;
  trainer<mlp, cross_entropy<"label">> run(gpu, adam{}, {{"batch", 4}}), other(gpu, adam{}, {{"batch", 4}});
  for (const auto* each : {&run, &other}) each->parameters().init({.seed = 7});
  const auto x = uniform(4 * 23, 1), small = uniform(23, 2);
  const auto labels = classes(4, 1);
  EXPECT_THROW(run.step(bind<"x">(x)), error);
  EXPECT_THROW(run.step(bind<"label">(labels), bind<"x">(small)), error);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run.step(bind<"x">(x), bind<"label">(labels)).loss(),
              other.step(bind<"x">(x), bind<"label">(labels)).loss());
  }
  EXPECT_EQ(run.parameters().get("fc1.weight"), other.parameters().get("fc1.weight"));
}

TEST(runtime_training, weights_that_no_gradient_reaches_do_not_decay) {
  const support::checked_device gpu;
  trainer<frozen, cross_entropy<"label">> run(gpu, adamw{.weight_decay = 0.5f}, {{"batch", 4}});
  run.parameters().init({.seed = 1});
  const auto trunk = run.parameters().get("trunk.weight"), side = run.parameters().get("side.weight");
  for (int i = 0; i < 3; ++i) run.step(bind<"x">(uniform(4 * 23, 1)), bind<"label">(classes(4, 1)));
  EXPECT_EQ(run.parameters().get("trunk.weight"), trunk);
  EXPECT_NE(run.parameters().get("side.weight"), side);
}

struct nothing {
  static constexpr auto forward(value auto y, value auto x) { return mean_squared_error_loss(stop_gradient(y), x); }
};

TEST(runtime_training, a_loss_that_reaches_no_parameter_is_refused) {
  const support::checked_device gpu;
  EXPECT_NE(support::sentence_of([&] {
              trainer<square, loss<nothing, target<"x">>> run(gpu, adam{}, {{"batch", 4}});
            }).find("the loss reaches no parameter, there is nothing to train: %"),
            std::string::npos);
}

// What stands in its way is named with its module.
TEST(runtime_training, what_passes_no_gradient_on_is_named) {
  const auto said = [](auto&& write) {
    graph g;
    const node_id w = g.parameter("w", dtype::f32, {4});
    const node_id loss = write(g, w);
    return support::sentence_of([&] { (void)make_training_graph(std::move(g), loss, sgd{}); });
  };
  const auto rounded = [](graph& g, node_id w) {
    const graph::scope in(g, "layers.0");
    return g.cast(g.cast(w, dtype::i32), dtype::f32);
  };
  EXPECT_EQ(said([&](graph& g, node_id w) { return g.reduce(reduce_kind::sum, rounded(g, w), 1); }),
            "the loss reaches no parameter, there is nothing to train: %1, map (convert) of layers.0, passes no "
            "gradient on; leave "
            "it out, or give it one by custom_gradient");
  EXPECT_EQ(said([](graph& g, node_id w) { return g.cast(g.reduce(reduce_kind::arg_max, w, 1), dtype::f32); }),
            "the loss reaches no parameter, there is nothing to train: %1, reduce (arg_max), passes no gradient on; "
            "leave it out, or give it one by custom_gradient");
  EXPECT_EQ(said([](graph& g, node_id) { return g.constant(1, dtype::f32); }),
            "the loss reaches no parameter, there is nothing to train; the model has none, or all are frozen");
  EXPECT_EQ(said([](graph& g, node_id w) {
              const graph::scope in(g, "layers.1");
              const node_id windows = g.view(w, {2, 3}, {.offset = 0, .strides = {1, 1}});
              return g.reduce(reduce_kind::sum, windows, 3);
            }).substr(0, 36),
            "view of layers.1: gradient of a view");
}

struct half_prediction {
  static constexpr auto forward(value auto x) { return cast<dtype::f16>(linear<"fc", 5>(x)); }
};
struct half_weights {
  static constexpr auto forward(value auto x) {
    return cast<dtype::f32>(cast<dtype::f16>(x) * parameter<"scale", dims<23>, dtype::f16>);
  }
};
template <class Module>
using of_rows = model<Module, input<"x", dtype::f32, dims<4, 23>>>;

TEST(runtime_training, the_loss_of_half_predictions_is_a_number_of_f32) {
  const support::checked_device gpu;
  trainer<of_rows<half_prediction>, mean_squared_error<"t">> run(gpu, sgd{.learning_rate = 0.01f}, {});
  run.parameters().set("fc.weight", std::vector<float>(5 * 23, 0.0f));
  run.parameters().set("fc.bias", std::vector<float>(5, 300.0f));  // its square is more than f16 holds
  const std::vector<std::uint16_t> zeros(20, 0);
  const std::vector<float> x(4 * 23, 0.0f);
  EXPECT_EQ(run.training::step({{"x", x}, {"t", dtype::f16, std::as_bytes(std::span(zeros))}}).loss(), 90000);
  EXPECT_NEAR(run.parameters().get("fc.bias")[0], 300 - 0.01 * 2 * 300 / 5, oracle::tolerance(dtype::f16, 20) * 300);
}

TEST(runtime_training, what_a_trainer_cannot_minimise_or_update_is_refused_by_name) {
  const support::checked_device gpu;
  const auto refusal = [](const auto& loss) {
    return support::sentence_of([&] {
      graph g;
      const node_id y = lower_into<of_rows<half_prediction>>(g, {})[0], value = loss(g, y);
      (void)make_training_graph(std::move(g), value, adam{});
    });
  };
  const auto sentence = refusal([](graph& g, node_id y) { return g.reduce(reduce_kind::sum, y, 3); });
  EXPECT_NE(sentence.find("the loss is f16 []"), std::string::npos) << sentence;
  const auto second = refusal([](graph& g, node_id y) { return g.reduce(reduce_kind::sum, g.cast(y, dtype::f32), 2); });
  EXPECT_NE(second.find("the loss is f32 [4]"), std::string::npos) << second;
  const auto third =
      support::sentence_of([&] { trainer<of_rows<half_weights>, mean_squared_error<"t">> run(gpu, adam{}, {}); });
  EXPECT_NE(third.find("the parameter \"scale\" is f16"), std::string::npos) << third;
}

TEST(runtime_training, more_memory_than_there_is_is_an_error_and_the_device_lives_on) {
  const support::checked_device gpu;
  EXPECT_THROW((session<mlp>(gpu, {{"batch", std::int64_t{1} << 40}})), error);
  session<mlp> small(gpu, {{"batch", 1}});
  small.parameters().init();
  EXPECT_EQ(small.run(bind<"x">(uniform(23, 1))).size(), 5u);
}

TEST(runtime_training, the_learning_rate_changes_without_a_new_recording) {
  const support::checked_device gpu;
  trainer<mlp, cross_entropy<"label">> run(gpu, sgd{.learning_rate = 0.1f}, {{"batch", 4}});
  run.parameters().init({.seed = 1});
  run.set_learning_rate(0);
  const auto before = run.parameters().get("fc1.weight");
  run.step(bind<"x">(uniform(4 * 23, 1)), bind<"label">(classes(4, 1))).wait();
  EXPECT_EQ(run.parameters().get("fc1.weight"), before);
}

}  // namespace
