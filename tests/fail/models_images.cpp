// SPDX-License-Identifier: MIT
// Images that are none of a model's: channels last, sides that do not halve, channels that groups do not divide.
// expect 1: meganeura: resnet::classifier: the image must be \[n, 3, height, width\]
// expect 2: meganeura: unet::denoiser: the image must be \[n, config.channels, height, width\], both multiples of 2\^
// expect 3: meganeura: unet::denoiser: the image must be .* and config.width a multiple of config.groups
// bytes: 3500
#include <meganeura/frontend.hpp>
#include <meganeura/models/resnet.hpp>
#include <meganeura/models/unet.hpp>

namespace mn = meganeura;

#ifndef MEGANEURA_EXPECT_FAILURE
#define MEGANEURA_EXPECT_FAILURE 0
#endif
inline constexpr int wrong = MEGANEURA_EXPECT_FAILURE;
inline constexpr mn::models::resnet::config tiny{.depths = {1, 1, 1, 1}, .width = 8, .classes = 10};
inline constexpr mn::models::unet::config small{.width = 8, .levels = 3, .groups = wrong == 3 ? 16 : 4};
inline constexpr int side = wrong == 2 ? 10 : 8;

#if MEGANEURA_EXPECT_FAILURE < 2
using model =
    mn::model<mn::models::resnet::classifier<tiny>,
              mn::input<"image", mn::dtype::f32, wrong == 1 ? mn::dims<2, 32, 32, 3> : mn::dims<2, 3, 32, 32>>>;
static_assert(model::output.rank >= 2);
#endif
#if MEGANEURA_EXPECT_FAILURE != 1
using denoiser =
    mn::model<mn::models::unet::denoiser<small>, mn::input<"image", mn::dtype::f32, mn::dims<2, 4, side, side>>>;
static_assert(denoiser::output.rank == 4);
#endif
