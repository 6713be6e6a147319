// SPDX-License-Identifier: MIT
// The decoder of Stable Diffusion's autoencoder, from latent images to pictures; parameter names are diffusers'.
#pragma once
#include <meganeura/core/name_rule.hpp>
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/sequential.hpp>
#include <meganeura/models/image_parts.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/attention.hpp>
#include <meganeura/nn/channel_norm.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/ops/rearrange.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::autoencoder_kl {

/// latent: channels of the latent image. widths: channels of each level, from the latent image's on; each but the last
/// doubles the image. blocks: of each level. groups: of each norm. scale: what latent images are multiplied by when
/// they are made.
struct config {
  int latent = 4;
  int widths[4] = {512, 512, 256, 128};
  int blocks = 3;
  int groups = 32;
  float scale = 0.18215f;
  friend constexpr bool operator==(const config&, const config&) = default;
};

template <fixed_string Name, config C>
constexpr auto normed(value auto x) {
  return group_norm<Name, C.groups, group_norm_options{.epsilon = 1e-6f}>(x);
}

template <config C, int In, int Out>
struct residual {
  static constexpr auto forward(value auto x) {
    auto a = convolved<"conv1", Out, 3>(silu(normed<"norm1", C>(x)));
    auto b = convolved<"conv2", Out, 3>(silu(normed<"norm2", C>(a)));
    if constexpr (In == Out) {
      return x + b;
    } else {
      return convolved<"conv_shortcut", Out, 1>(x) + b;
    }
  }
};

/// Of the places of an image to each other, with one head.
template <config C, int Width>
struct attention {
  static constexpr auto forward(value auto x) {
    auto rows = transpose(flatten<2, 3>(normed<"group_norm", C>(x)));
    auto q = split_heads<1>(linear<"to_q", Width>(rows));
    auto k = split_heads<1>(linear<"to_k", Width>(rows));
    auto v = split_heads<1>(linear<"to_v", Width>(rows));
    auto y = linear<"to_out.0", Width>(merge_heads(attend(q, k, v)));
    return x + reshape_as(transpose(y), x);
  }
};

template <config C>
struct middle {
  static constexpr auto forward(value auto x) {
    constexpr int width = C.widths[0];
    auto y = call<"attentions.0", attention<C, width>>(call<"resnets.0", residual<C, width, width>>(x));
    return call<"resnets.1", residual<C, width, width>>(y);
  }
};

template <config C, int Level>
struct level {
  static constexpr int width = C.widths[Level], before = C.widths[Level > 0 ? Level - 1 : 0];
  template <int I>
  using block_at = residual<C, I == 0 ? before : width, width>;

  static constexpr auto forward(value auto x) {
    auto y = indexed<"resnets", C.blocks, block_at>(x);
    if constexpr (Level == 3) {
      return y;
    } else {
      return convolved<"upsamplers.0.conv", width, 3>(doubled(y));
    }
  }
};

template <config C>
struct levels {
  static constexpr auto forward(value auto x) {
    auto y = call<"up_blocks.0", level<C, 0>>(call<"mid_block", middle<C>>(convolved<"conv_in", C.widths[0], 3>(x)));
    auto z = call<"up_blocks.2", level<C, 2>>(call<"up_blocks.1", level<C, 1>>(y));
    auto w = call<"up_blocks.3", level<C, 3>>(z);
    return convolved<"conv_out", 3, 3>(silu(normed<"conv_norm_out", C>(w)));
  }
};

/// Parts of attention as they are called here and in older files.
inline constexpr name_rule published[] = {{"*", "*"},
                                          {"*.to_q.*", "*.query.*"},
                                          {"*.to_k.*", "*.key.*"},
                                          {"*.to_v.*", "*.value.*"},
                                          {"*.to_out.0.*", "*.proj_attn.*"}};

/// latent [n, latent, height, width] f32, divided by the scale -> image [n, 3, 8 height, 8 width], from -1 to 1. Files
/// hold the encoder besides: load(path, {.rename = published, .ignore = {"encoder.*", "quant_conv.*"}}).
/// source: arXiv 2112.10752.
template <config C = config{}>
struct decoder {
  static constexpr auto forward(value auto latent) {
    return call<"decoder", levels<C>>(convolved<"post_quant_conv", C.latent, 1>(latent));
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::autoencoder_kl
