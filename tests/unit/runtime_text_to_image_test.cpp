// SPDX-License-Identifier: MIT
// The text model and the decoder of Stable Diffusion: tiny ones against float64 references, the published ones' sizes.
#include <meganeura/expr/lower.hpp>
#include <meganeura/models/autoencoder_kl.hpp>
#include <meganeura/models/clip_text.hpp>
#include <meganeura/ops/reduce.hpp>

#include <support/inferena_reference.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace meganeura;
using support::bound;
using support::wave;

template <class Model>
void expect_reference(const std::string& workload, std::vector<support::bound_values> inputs) {
  graph g(run_mode::evaluation);
  const node_id y = lower_into<Model>(g, {})[0];
  const node_value made(g, y);
  const node_value target(g, g.input("target", dtype::f32, g[y].extents));
  const node_id loss = mean((made - target) * (made - target)).id();
  inputs.push_back(bound("target", wave(std::cos, 0.007, static_cast<std::size_t>(g[y].extents.elements()))));
  support::expect_reference("text_to_image", workload, std::move(g), y, loss, inputs,
                            {.output = 5e-6, .gradient = 1e-5, .least = 1e-3});
}

TEST(runtime_text_to_image, the_text_model_reproduces_float64_outputs_and_gradients) {
  constexpr models::clip_text::config tiny{
      .layers = 2, .width = 32, .heads = 4, .hidden = 64, .vocab = 50, .positions = 16};
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 20; ++i) tokens.push_back(i * 7 % 50);
  expect_reference<model<models::clip_text::encoder<tiny>, input<"tokens", dtype::i32, dims<2, 10>>>>(
      "clip_text", {bound("tokens", tokens)});
}

TEST(runtime_text_to_image, the_decoder_reproduces_float64_outputs_and_gradients) {
  constexpr models::autoencoder_kl::config tiny{.widths = {16, 16, 8, 8}, .blocks = 2, .groups = 4};
  expect_reference<model<models::autoencoder_kl::decoder<tiny>, input<"latent", dtype::f32, dims<2, 4, 4, 4>>>>(
      "autoencoder_kl", {bound("latent", wave(std::sin, 0.01, 2 * 4 * 4 * 4))});
}

}  // namespace
