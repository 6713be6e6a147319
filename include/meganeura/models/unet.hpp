// SPDX-License-Identifier: MIT
// A small convolutional U-Net, the denoiser that the Inferena benchmark calls Stable Diffusion.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/sequential.hpp>
#include <meganeura/models/image_parts.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/channel_norm.hpp>
#include <meganeura/ops/rearrange.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::unet {

/// channels: of the image. width: channels of the first level, doubled by each that follows at half the size. groups:
/// of each norm.
struct config {
  int channels = 4;
  int width = 64;
  int levels = 3;
  int groups = 16;

  [[nodiscard]] constexpr int at(int level) const { return width << level; }
  friend constexpr bool operator==(const config&, const config&) = default;
};

template <fixed_string Name, int Out, int Kernel = 3, int Stride = 1>
constexpr auto unbiased(value auto x) {
  return convolved<Name, Out, Kernel, Stride, false>(x);
}

template <int In, int Out, int Groups>
struct residual {
  static constexpr auto forward(value auto x) {
    auto a = unbiased<"conv1", Out>(silu(group_norm<"norm1", Groups>(x)));
    auto b = unbiased<"conv2", Out>(silu(group_norm<"norm2", Groups>(a)));
    if constexpr (In == Out) {
      return b + x;
    } else {
      return b + unbiased<"res_conv", Out, 1>(x);
    }
  }
};

/// What an encoder's block, the levels below and a decoder's block make of an image.
template <config C, int Level>
struct level {
  static constexpr bool last = Level + 1 == C.levels;
  static constexpr int width = C.at(Level), before = C.at(Level > 0 ? Level - 1 : 0), below = C.at(Level + !last);

  static constexpr auto forward(value auto x) {
    auto skip = call<numbered<"encoder_blocks", Level>, residual<before, width, C.groups>>(x);
    return call<numbered<"decoder_blocks", C.levels - 1 - Level>, residual<below + width, width, C.groups>>(
        concat<1>(deeper(skip), skip));
  }

 private:
  static constexpr auto deeper(value auto x) {
    if constexpr (last) {
      return call<"middle", residual<width, width, C.groups>>(x);
    } else {
      auto half = unbiased<numbered<"downsamples", Level>, width, 3, 2>(x);
      return doubled(call<"", level<C, Level + 1>>(half));
    }
  }
};

/// image [n, channels, height, width] f32, height and width multiples of 2^(levels - 1), unchanged.
/// source: arXiv 1505.04597.
template <config C = config{}>
struct denoiser {
  static constexpr auto forward(value auto image) {
    MEGANEURA_EXPECT((fits(image.facts().shape)),
                     "meganeura: unet::denoiser: the image must be [n, config.channels, height, width], both multiples "
                     "of 2^(levels - 1), and config.width a multiple of config.groups",
                     image) {
      auto x = call<"", level<C, 0>>(unbiased<"conv_in", C.width>(image));
      return unbiased<"conv_out", C.channels>(silu(group_norm<"norm_out", C.groups>(x)));
    }
  }

 private:
  static constexpr bool fits(const symbolic_shape& image) {
    if (C.levels < 1 || C.groups < 1 || C.width < 1 || C.width % C.groups != 0) return false;
    if (image.rank != 4 || image[1] != C.channels) return false;
    for (int axis = 2; axis < 4; ++axis) {
      if (!image[axis].is_static() || image[axis].coefficient % (1 << (C.levels - 1)) != 0) return false;
    }
    return true;
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::unet
