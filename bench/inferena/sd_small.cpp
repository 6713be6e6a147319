// SPDX-License-Identifier: MIT
// The small U-Net that the benchmark calls Stable Diffusion.
#include <meganeura/models/unet.hpp>
#include <meganeura/nn/losses.hpp>

#include <cmath>

#include "workload.hpp"

namespace inferena {
namespace {

namespace mn = meganeura;
namespace unet = mn::models::unet;

constexpr unet::config small{.width = 16, .groups = 4};

template <unet::config C, int Side>
workload make() {
  using model =
      mn::model<unet::denoiser<C>, mn::input<"x", mn::dtype::f32, mn::dims<mn::sym<"batch">, C.channels, Side, Side>>>;
  constexpr std::size_t each = C.channels * Side * Side;
  return {.name = "sd_small",
          .forward =
              [] {
                return forward_pass<model>({wave("x", std::sin, 0.01, 2 * each)}, {{"batch", 2}});
              },
          .latency =
              [] {
                return forward_pass<model>({wave("x", std::sin, 0.01, each)}, {{"batch", 1}});
              },
          .training =
              [] {
                return training_pass<model, mn::mean_squared_error<"target">>(
                    {wave("x", std::sin, 0.01, 2 * each), wave("target", std::cos, 0.007, 2 * each)}, {{"batch", 2}});
              }};
}

}  // namespace

workload sd_small(size of) { return of == size::full ? make<unet::config{}, 32>() : make<small, 16>(); }

}  // namespace inferena
