// SPDX-License-Identifier: MIT
// Tiny ResNets and U-Nets against float64 references: outputs, loss, every parameter's gradient.
#include <meganeura/expr/lower.hpp>
#include <meganeura/models/resnet.hpp>
#include <meganeura/models/stable_diffusion.hpp>
#include <meganeura/models/unet.hpp>
#include <meganeura/nn/losses.hpp>
#include <meganeura/runtime/session.hpp>

#include <oracle/tolerance.hpp>
#include <support/inferena_reference.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace meganeura;
using support::bound;
using support::wave;

template <class Model, class Loss>
void expect_reference(const std::string& workload, std::vector<support::bound_values> inputs, std::int64_t batch,
                      support::reference_tolerance within, const std::string& file = "inferena_small") {
  const symbol_extent symbols[] = {{"batch", batch}};
  graph g(run_mode::evaluation);
  const auto results = lower_into<Model>(g, symbols);
  const node_id loss = lower_loss<Model, Loss>(g, results, symbols)[0];
  support::expect_reference(file, workload, std::move(g), results[0], loss, inputs, within);
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

template <models::stable_diffusion::config C, int Side>
using diffusion =
    model<models::stable_diffusion::unet<C>, input<"latent", dtype::f32, dims<sym<"batch">, 4, Side, Side>>,
          input<"timestep", dtype::f32, dims<sym<"batch">>>,
          input<"context", dtype::f32, dims<sym<"batch">, 5, C.context>>>;
constexpr models::stable_diffusion::config two_levels{
    .widths = {32, 64}, .blocks = 1, .context = 24, .heads = 2, .groups = 8};

template <models::stable_diffusion::config C, int Side>
void expect_stable_diffusion(const std::string& workload, support::reference_tolerance within,
                             const std::string& file) {
  constexpr std::size_t count = 4 * Side * Side;
  expect_reference<diffusion<C, Side>, mean_squared_error<"target">>(
      workload,
      {bound("latent", wave(std::sin, 0.01, count)), bound("timestep", std::vector<float>{500}),
       bound("context", wave(std::cos, 0.005, 5 * C.context)), bound("target", wave(std::cos, 0.007, count))},
      1, within, file);
}

TEST(runtime_image_models, the_unet_of_stable_diffusion_reproduces_float64_outputs_loss_and_gradients) {
  expect_stable_diffusion<two_levels, 8>("sd15", {.output = 5e-6, .gradient = 1e-5}, "inferena_small");
}

// All of its blocks, in the order in which skips are taken back.
TEST(runtime_image_models, so_does_one_of_four_levels) {
  constexpr models::stable_diffusion::config narrow{
      .widths = {16, 32, 64, 64}, .blocks = 2, .context = 24, .heads = 2, .groups = 8};
  expect_stable_diffusion<narrow, 16>("sd15_four_levels", {.output = 5e-6, .gradient = 1e-5}, "stable_diffusion");
}

TEST(runtime_image_models, each_latent_of_a_batch_has_its_own_timestep_and_text) {
  session<diffusion<two_levels, 8>> s(support::shared_device());
  s.parameters().init({.seed = 3});
  const std::vector<float> latents = wave(std::sin, 0.3, 2 * 4 * 8 * 8), texts = wave(std::cos, 0.7, 2 * 5 * 24);
  const std::vector<float> steps{20, 700};
  const auto part = [](const std::vector<float>& all, std::size_t which) {
    return std::span(all).subspan(which * all.size() / 2, all.size() / 2);
  };
  const std::vector<float> both = s.run(bind<"latent">(latents), bind<"timestep">(steps), bind<"context">(texts));
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<float> alone =
        s.run(bind<"latent">(part(latents, i)), bind<"timestep">(part(steps, i)), bind<"context">(part(texts, i)));
    const auto of_batch = part(both, i);
    EXPECT_LT(oracle::relative_error(std::vector(of_batch.begin(), of_batch.end()), alone),
              oracle::tolerance(dtype::f32, 9 * 128));
  }
}

// Frequency and angle are f32: each is off by some units, and so is the angle in radians, times its size.
TEST(runtime_image_models, sinusoids_of_timesteps_are_those_of_float64_to_what_an_angle_in_f32_can_be) {
  constexpr int width = 320, half = width / 2;
  using net = model<models::stable_diffusion::sinusoids<width>, input<"timestep", dtype::f32, dims<sym<"batch">>>>;
  session<net> s(support::shared_device());
  const std::vector<float> steps{0, 1, 20.5f, 500, 999};
  const std::vector<float> found = s.run(bind<"timestep">(steps));
  for (std::size_t n = 0; n < steps.size(); ++n) {
    for (int i = 0; i < half; ++i) {
      const double angle = static_cast<double>(steps[n]) * std::exp(-std::log(1e4) * i / half);
      const double tolerance = oracle::product_tolerance(4) * std::max(1.0, angle);
      const float* row = found.data() + n * width;
      EXPECT_NEAR(row[i], std::cos(angle), tolerance) << steps[n] << ' ' << i;
      EXPECT_NEAR(row[half + i], std::sin(angle), tolerance) << steps[n] << ' ' << i;
    }
  }
}

}  // namespace
