// SPDX-License-Identifier: MIT
// Residual networks with batch norms: trained as PyTorch trains them, and with the norms folded into convolutions.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/models/resnet.hpp>
#include <meganeura/nn/conv_forms.hpp>
#include <meganeura/nn/losses.hpp>
#include <meganeura/runtime/fold_batch_norms.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/tolerance.hpp>
#include <support/inferena_reference.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <random>

namespace {

using namespace meganeura;
namespace resnet = models::resnet;

template <resnet::config C>
using net = model<resnet::classifier<C>, input<"image", dtype::f32, dims<sym<"batch">, 3, 64, 64>>>;

constexpr resnet::config basic{.bottleneck = false, .depths = {2, 1, 1, 1}, .width = 8, .classes = 10};
constexpr resnet::config bottleneck{.depths = {1, 2, 1, 1}, .width = 8, .classes = 10};

std::vector<float> images() {
  std::vector<float> values = support::named_weights("image", shape{4, 3, 64, 64});
  for (float& each : values) each *= 64;
  return values;
}

void set_weights(parameters of) {
  for (const auto& each : of.layout().tensors) {
    if (each.kind == op::parameter) of.set(each.name, support::named_weights(each.name, each.extents));
  }
}

double distance(const std::vector<float>& found, const std::vector<double>& expected) {
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    apart += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    length += expected[i] * expected[i];
  }
  return std::sqrt(apart / length);
}

TEST(runtime_resnet, losses_and_running_statistics_of_two_steps_are_those_of_pytorch) {
  std::ifstream file(std::string(MEGANEURA_SOURCE_DIR) + "/tests/reference/resnet_training.json");
  const nlohmann::json reference = nlohmann::json::parse(file);
  const nlohmann::json& away = reference["deviation_of_float32"];  // PyTorch's own; ours adds up in another order

  trainer<net<basic>, cross_entropy<"label">> fit(support::shared_device(), sgd{.learning_rate = 0.05f});
  set_weights(fit.parameters());
  const std::vector<float> pixels = images();
  const std::vector<std::int32_t> classes{0, 1, 2, 3};
  const auto image = bind<"image">(pixels);
  const auto label = bind<"label">(classes);
  const double tolerance = 8 * away["loss"].get<double>();
  const std::vector<double> losses = reference["losses"];
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(fit.step(image, label).loss(), losses[i], tolerance) << i;
  int count = 0;
  for (const auto& each : fit.parameters().layout().tensors) {
    if (each.kind != op::state) continue;
    ++count;
    EXPECT_LT(distance(fit.parameters().get(each.name), reference["running"][each.name]),
              8 * away["running"].get<double>())
        << each.name;
  }
  EXPECT_EQ(count, static_cast<int>(reference["running"].size()));
  EXPECT_NEAR(fit.step(image, label).loss(), losses[2], tolerance);
}

// Running statistics as of a long training: means of either sign, variances around one.
template <class With, class Without>
void expect_folded_to_agree(std::int64_t longest_sum) {
  const auto& gpu = support::shared_device();
  session<With> with(gpu);
  session<Without> without(gpu);
  set_weights(with.parameters());
  std::mt19937 random(7);
  std::uniform_real_distribution<float> around(-0.5f, 0.5f);
  for (const auto& each : with.parameters().layout().tensors) {
    if (each.kind != op::state) continue;
    std::vector<float> values(static_cast<std::size_t>(each.extents.elements()));
    for (float& value : values) value = (each.name.ends_with("running_var") ? 1.0f : 0.0f) + around(random);
    with.parameters().set(each.name, values);
  }
  fold_batch_norms(with.parameters(), without.parameters());
  const std::vector<float> pixels = images();
  const auto image = bind<"image">(pixels);
  const std::vector<float> expected = with.run(image);
  EXPECT_LT(distance(without.run(image), {expected.begin(), expected.end()}),
            oracle::tolerance(dtype::f32, longest_sum));
}

TEST(runtime_resnet, folded_norms_compute_the_same_in_basic_blocks) {
  expect_folded_to_agree<net<basic>, net<resnet::folded(basic)>>(9 * basic.inner(3));
}
TEST(runtime_resnet, folded_norms_compute_the_same_in_bottlenecks) {
  expect_folded_to_agree<net<bottleneck>, net<resnet::folded(bottleneck)>>(9 * bottleneck.inner(3));
}

TEST(runtime_resnet, a_layer_keeps_its_bias_and_a_norm_without_weight_only_moves) {
  graph with, without;
  with.parameter("conv.weight", dtype::f32, {2, 1, 1, 2});
  with.parameter("conv.bias", dtype::f32, {2});
  with.state("norm.running_mean", dtype::f32, {2});
  with.state("norm.running_var", dtype::f32, {2});
  with.parameter("fc.weight", dtype::f32, {3, 2});
  for (const auto& [name, extents] :
       {std::pair{"conv.weight", shape{2, 1, 1, 2}}, {"conv.bias", {2}}, {"fc.weight", {3, 2}}})
    without.parameter(name, dtype::f32, extents);
  parameters from(support::shared_device(), with), into(support::shared_device(), without);
  from.set("conv.weight", std::vector<float>{1, 2, 3, 4});
  from.set("conv.bias", std::vector<float>{5, 7});
  from.set("norm.running_mean", std::vector<float>{1, -1});
  from.set("norm.running_var", std::vector<float>{4, 0.25f});
  from.set("fc.weight", std::vector<float>{1, 2, 3, 4, 5, 6});
  fold_batch_norms(from, into, {.norms = {{"conv", "norm"}}, .epsilon = 0});
  EXPECT_EQ(into.get("conv.weight"), (std::vector<float>{0.5f, 1, 6, 8}));
  EXPECT_EQ(into.get("conv.bias"), (std::vector<float>{2, 16}));
  EXPECT_EQ(into.get("fc.weight"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

// [c, out / groups, ..]; with as many channels as before no extent tells which axis is the result's.
template <int Out, int Groups, bool Norm>
struct spread {
  static constexpr auto forward(value auto x) {
    auto y = conv_transpose2d<"conv", Out, conv_transpose_options{.kernel = 2, .groups = Groups}>(x);
    if constexpr (Norm) {
      return batch_norm<"bn">(y);
    } else {
      return y;
    }
  }
};
template <int Out, int Groups, dim Batch = 1>
void expect_transposed_to_agree() {
  using x = input<"x", dtype::f32, dims<Batch, 4, 2, 2>>;
  session<model<spread<Out, Groups, true>, x>> with(support::shared_device());
  session<model<spread<Out, Groups, false>, x>> without(support::shared_device());
  set_weights(with.parameters());
  with.parameters().set("bn.running_mean", support::named_weights("mean", shape{Out}));
  std::vector<float> variances;
  for (int i = 0; i < Out; ++i) variances.push_back(0.25f * static_cast<float>(1 + i * i));
  with.parameters().set("bn.running_var", variances);
  fold_batch_norms(with.parameters(), without.parameters());
  const std::vector<float> values = support::named_weights("x", shape{1, 4, 2, 2});
  const std::vector<float> expected = with.run(bind<"x">(values));
  EXPECT_LT(distance(without.run(bind<"x">(values)), {expected.begin(), expected.end()}),
            oracle::tolerance(dtype::f32, 4));
}

TEST(runtime_resnet, norms_behind_transposed_convolutions_are_folded) {
  expect_transposed_to_agree<4, 1>();
  expect_transposed_to_agree<4, 2>();
  expect_transposed_to_agree<6, 2>();
  constexpr dim open = sym<"batch">;  // no program is built before parameters have values
  expect_transposed_to_agree<4, 1, open>();
  expect_transposed_to_agree<4, 2, open>();
  expect_transposed_to_agree<6, 2, open>();
}

// In a module, several times, beside an ordinary one.
struct up {
  static constexpr auto forward(value auto x) {
    auto y = conv2d<"same", 4, conv_options{.kernel = 3, .padding = 1}>(x);
    return conv_transpose2d<"up", 4, conv_transpose_options{.kernel = 3, .padding = 1}>(relu(y));
  }
};
struct ups {
  static constexpr auto forward(value auto x) { return repeat<"levels", 2, up>(x); }
};
TEST(runtime_resnet, filters_of_transposed_convolutions_are_known_where_sizes_are_open) {
  using net = model<ups, input<"x", dtype::f32, dims<sym<"batch">, 4, 2, 2>>>;
  const session<net> open(support::shared_device());
  for (const plan::named_tensor& each : open.parameters().layout().tensors)
    EXPECT_EQ(each.spreads, each.name.ends_with("up.weight")) << each.name;
}

// Its filter may be computed.
TEST(runtime_resnet, filters_of_transposed_convolutions_are_known_by_what_they_are_for) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {1, 4, 2, 2}), scale = g.parameter("scale", dtype::f32, {4, 1, 1, 1});
  const node_id w = g.parameter("w", dtype::f32, {4, 4, 2, 2}), plain = g.parameter("plain", dtype::f32, {4, 4, 1, 1});
  const node_id filter = g.map(scalar_op::multiply, {w, g.expand(scale, {4, 4, 2, 2})});
  const node_id y = g.convolution(x, plain, {}, {1, 4, 2, 2});
  const node_id z = g.convolution(y, filter, {.form = convolution_attribute::input}, {1, 4, 3, 3});
  const node_id seed = g.full_like(z, 1), wrt[] = {w, plain};
  g.add_output("dw", gradients(g, std::span(&z, 1), std::span(&seed, 1), wrt)[0]);
  const plan::layout found = plan::make_layout(g);
  EXPECT_TRUE(found.find("w")->spreads);
  EXPECT_FALSE(found.find("plain")->spreads);
}

TEST(runtime_resnet, a_norm_that_no_layer_takes_up_is_not_lost) {
  graph with, without;
  with.parameter("conv_stem.conv1.weight", dtype::f32, {1, 1});  // "*conv*" as "*bn*": "bn_stem.conv1"
  with.state("conv_stem.bn1.running_mean", dtype::f32, {1});
  with.state("conv_stem.bn1.running_var", dtype::f32, {1});
  without.parameter("conv_stem.conv1.weight", dtype::f32, {1, 1});
  without.parameter("conv_stem.conv1.bias", dtype::f32, {1});
  with.parameter("conv_stem.conv1.bias", dtype::f32, {1});
  parameters from(support::shared_device(), with), into(support::shared_device(), without);
  from.init();
  EXPECT_EQ(support::sentence_of([&] { fold_batch_norms(from, into); }),
            "fold_batch_norms: the norm \"conv_stem.bn1\" of the model with norms is behind no layer of the other one, "
            "by `norms`; give a rule {layer, \"conv_stem.bn1\"}");
  from.set("conv_stem.conv1.weight", std::vector<float>{6});
  from.set("conv_stem.bn1.running_var", std::vector<float>{4});
  fold_batch_norms(from, into, {.norms = {{"*.conv1", "*.bn1"}}, .epsilon = 0});
  EXPECT_EQ(into.get("conv_stem.conv1.weight"), (std::vector<float>{3}));
}

TEST(runtime_resnet, a_layer_that_cannot_add_what_its_norm_does_is_refused) {
  graph with, without;
  with.parameter("conv.weight", dtype::f32, {1, 1});
  with.state("bn.running_mean", dtype::f32, {1});
  with.state("bn.running_var", dtype::f32, {1});
  without.parameter("conv.weight", dtype::f32, {1, 1});
  parameters from(support::shared_device(), with), into(support::shared_device(), without);
  from.init();
  EXPECT_EQ(
      support::sentence_of([&] { fold_batch_norms(from, into); }),
      "fold_batch_norms: \"conv.weight\" [1, 1] cannot be made: its layer has no bias in the model without norms, "
      "which has to add what the norm does");
}

TEST(runtime_resnet, what_cannot_be_folded_is_said_and_changes_nothing) {
  graph with, without;
  with.parameter("conv.weight", dtype::f32, {2, 1});
  with.state("bn.running_mean", dtype::f32, {3});
  with.state("bn.running_var", dtype::f32, {3});
  without.parameter("conv.weight", dtype::f32, {2, 1});
  without.parameter("fc.bias", dtype::f32, {2});
  parameters from(support::shared_device(), with), into(support::shared_device(), without);
  from.init();
  into.init({.seed = 1});
  const std::vector<float> before = into.get("conv.weight");
  EXPECT_EQ(support::sentence_of([&] { fold_batch_norms(from, into); }),
            "fold_batch_norms: \"conv.weight\" [2, 1] cannot be made: the norm has another number of channels");
  EXPECT_EQ(
      support::sentence_of([&] { fold_batch_norms(from, into, {.norms = {}}); }),
      "fold_batch_norms: \"fc.bias\" [2] cannot be made: the model with norms has no tensor of this name, and none "
      "of `norms` is behind its layer there");
  EXPECT_EQ(into.get("conv.weight"), before);
}

}  // namespace
