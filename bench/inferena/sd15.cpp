// SPDX-License-Identifier: MIT
// The U-Net of Stable Diffusion 1.5 on one latent image.
#include <meganeura/models/stable_diffusion.hpp>
#include <meganeura/nn/losses.hpp>

#include <cmath>

#include "workload.hpp"

namespace inferena {
namespace {

namespace mn = meganeura;
namespace sd = mn::models::stable_diffusion;

constexpr sd::config small{.widths = {32, 64}, .blocks = 1, .context = 24, .heads = 2, .groups = 8};

template <sd::config C, int Side, int Tokens>
workload make() {
  constexpr mn::dim batch = mn::sym<"batch">;
  using model = mn::model<sd::unet<C>, mn::input<"latent", mn::dtype::f32, mn::dims<batch, C.channels, Side, Side>>,
                          mn::input<"timestep", mn::dtype::f32, mn::dims<batch>>,
                          mn::input<"context", mn::dtype::f32, mn::dims<batch, Tokens, C.context>>>;
  constexpr std::size_t latents = C.channels * Side * Side;
  const auto inputs = [] {
    const auto step = [](double) { return 500.0; };
    return std::vector{wave("latent", std::sin, 0.01, latents), wave("timestep", step, 0, 1),
                       wave("context", std::cos, 0.005, Tokens * C.context)};
  };
  return {.name = "sd15",
          .forward =
              [=] {
                return forward_pass<model>(inputs(), {{"batch", 1}});
              },
          .latency = {},
          .training =
              [=] {
                auto all = inputs();
                all.push_back(wave("target", std::cos, 0.007, latents));
                return training_pass<model, mn::mean_squared_error<"target">>(std::move(all), {{"batch", 1}});
              }};
}

}  // namespace

workload sd15(size of) { return of == size::full ? make<sd::config{}, 64, 77>() : make<small, 8, 5>(); }

}  // namespace inferena
