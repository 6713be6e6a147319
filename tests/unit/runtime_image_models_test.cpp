// SPDX-License-Identifier: MIT
// Tiny ResNets and U-Nets against float64 references: outputs, loss, every parameter's gradient.
#include <meganeura/expr/lower.hpp>
#include <meganeura/models/resnet.hpp>
#include <meganeura/models/unet.hpp>
#include <meganeura/nn/losses.hpp>

#include <support/inferena_reference.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace meganeura;
using support::bound;
using support::wave;

template <class Model, class Loss>
void expect_reference(const std::string& workload, std::vector<support::bound_values> inputs, std::int64_t batch,
                      support::reference_tolerance within) {
  const symbol_extent symbols[] = {{"batch", batch}};
  graph g(run_mode::evaluation);
  const auto results = lower_into<Model>(g, symbols);
  const node_id loss = lower_loss<Model, Loss>(g, results, symbols)[0];
  support::expect_reference(workload, std::move(g), results[0], loss, inputs, within);
}

TEST(runtime_image_models, resnet50_reproduces_float64_outputs_loss_and_gradients) {
  constexpr models::resnet::config tiny{.depths = {1, 1, 1, 1}, .width = 8, .classes = 10};
  using net = model<models::resnet::classifier<tiny>, input<"image", dtype::f32, dims<sym<"batch">, 3, 64, 64>>>;
  expect_reference<net, cross_entropy<"label">>(
      "resnet50",
      {bound("image", wave(std::sin, 0.001, 2 * 3 * 64 * 64)), bound("label", std::vector<std::int32_t>{0, 1})}, 2,
      {.output = 5e-6, .gradient = 1e-5});
}

TEST(runtime_image_models, the_small_unet_reproduces_float64_outputs_loss_and_gradients) {
  constexpr models::unet::config tiny{.width = 16, .groups = 4};
  using net = model<models::unet::denoiser<tiny>, input<"x", dtype::f32, dims<sym<"batch">, 4, 16, 16>>>;
  constexpr std::size_t count = 2 * 4 * 16 * 16;
  expect_reference<net, mean_squared_error<"target">>(
      "sd_small", {bound("x", wave(std::sin, 0.01, count)), bound("target", wave(std::cos, 0.007, count))}, 2,
      {.output = 5e-6, .gradient = 1e-5});
}

}  // namespace
