// SPDX-License-Identifier: MIT
// The denoiser of Stable Diffusion 1.5, a U-Net with attention to a text; parameter names are diffusers'.
#pragma once
#include <meganeura/core/constexpr_math.hpp>
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/sequential.hpp>
#include <meganeura/models/image_parts.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/attention.hpp>
#include <meganeura/nn/channel_norm.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/rearrange.hpp>
#include <meganeura/ops/trigonometry.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::stable_diffusion {

/// channels: of the latent image. widths: channels of each level, at half the size of the level before; 0: none.
/// blocks: of each level on the way down; one more on the way up. context: width of the text's tokens. groups: of each
/// group norm. The last level has no attention.
struct config {
  int channels = 4;
  int widths[4] = {320, 640, 1280, 1280};
  int blocks = 2;
  int context = 768;
  int heads = 8;
  int groups = 32;

  [[nodiscard]] constexpr int levels() const {
    int count = 0;
    while (count < 4 && widths[count] != 0) ++count;
    return count;
  }
  friend constexpr bool operator==(const config&, const config&) = default;
};

/// Cosines, then sines of the timestep times frequencies from 1 down to almost 1 / 10000: [n] -> [n, width].
template <int Width>
struct sinusoids {
  static constexpr auto forward(value auto timestep) {
    constexpr double step = -detail::natural_log(10000.0) / (Width / 2);
    auto t = repeat_interleave<-1, Width / 2>(unsqueeze<-1>(timestep));
    auto angle = t * exp(cast<dtype::f32>(arange_like<-1>(t)) * constant<static_cast<float>(step)>);
    return concat<-1>(cos(angle), sin(angle));
  }
};

template <int Width>
struct time_embedding {
  static constexpr auto forward(value auto x) { return linear<"linear_2", Width>(silu(linear<"linear_1", Width>(x))); }
};

/// x [n, in, h, w] and time [n, width] -> [n, out, h, w].
template <int In, int Out, int Groups>
struct residual {
  static constexpr auto forward(value auto x, value auto time) {
    auto shift = linear<"time_emb_proj", Out>(silu(time));
    auto a = convolved<"conv1", Out, 3>(silu(group_norm<"norm1", Groups>(x))) + unsqueeze<-1>(unsqueeze<-1>(shift));
    auto b = convolved<"conv2", Out, 3>(silu(group_norm<"norm2", Groups>(a)));
    if constexpr (In == Out) {
      return x + b;
    } else {
      return convolved<"conv_shortcut", Out, 1>(x) + b;
    }
  }
};

/// Of x [n, positions, width] to memory [n, tokens, ..].
template <int Width, int Heads>
struct attention {
  static constexpr auto forward(value auto x, value auto memory) {
    auto q = split_heads<Heads>(linear<"to_q", Width, no_bias>(x));
    auto k = split_heads<Heads>(linear<"to_k", Width, no_bias>(memory));
    auto v = split_heads<Heads>(linear<"to_v", Width, no_bias>(memory));
    return linear<"to_out.0", Width>(merge_heads(attend(q, k, v)));
  }
};

template <int Width>
struct feed_forward {
  static constexpr auto forward(value auto x) {
    auto [up, gate] = chunk<-1, 2>(linear<"net.0.proj", 8 * Width>(x));
    return linear<"net.2", Width>(up * gelu(gate));
  }
};

template <int Width, int Heads>
struct transformer_block {
  static constexpr auto forward(value auto x, value auto context) {
    auto h = layer_norm<"norm1">(x);
    auto a = x + call<"attn1", attention<Width, Heads>>(h, h);
    auto b = a + call<"attn2", attention<Width, Heads>>(layer_norm<"norm2">(a), context);
    return b + call<"ff", feed_forward<Width>>(layer_norm<"norm3">(b));
  }
};

/// A transformer block on the places of an image as positions.
template <int Width, int Heads, int Groups>
struct spatial_transformer {
  static constexpr auto forward(value auto x, value auto context) {
    auto image = convolved<"proj_in", Width, 1>(group_norm<"norm", Groups, group_norm_options{.epsilon = 1e-6f}>(x));
    auto rows = transpose(flatten<2, 3>(image));
    auto y = call<"transformer_blocks.0", transformer_block<Width, Heads>>(rows, context);
    return x + convolved<"proj_out", Width, 1>(reshape_as(transpose(y), x));
  }
};

/// Number `Index` of a level's blocks, down or up.
template <config C, int Level, int Index, int In>
struct block {
  static constexpr int width = C.widths[Level];

  static constexpr auto forward(value auto x, value auto time, value auto context) {
    auto y = call<numbered<"resnets", Index>, residual<In, width, C.groups>>(x, time);
    if constexpr (Level + 1 == C.levels()) {
      return y;
    } else {
      return call<numbered<"attentions", Index>, spatial_transformer<width, C.heads, C.groups>>(y, context);
    }
  }
};

template <config C, int Width>
struct middle {
  static constexpr auto forward(value auto x, value auto time, value auto context) {
    auto y = call<"resnets.0", residual<Width, Width, C.groups>>(x, time);
    auto z = call<"attentions.0", spatial_transformer<Width, C.heads, C.groups>>(y, context);
    return call<"resnets.1", residual<Width, Width, C.groups>>(z, time);
  }
};

template <int Width>
struct downsampler {
  static constexpr auto forward(value auto x) { return convolved<"downsamplers.0.conv", Width, 3, 2>(x); }
};

/// By the nearest element.
template <int Width>
struct upsampler {
  static constexpr auto forward(value auto x) { return convolved<"upsamplers.0.conv", Width, 3>(doubled(x)); }
};

/// What is made of x by block number `Block` on the way down, all that lies deeper, and the block on the way up that
/// takes x as well.
template <config C, int Level, int Block = 0>
struct nested {
  static constexpr bool last_block = Block == C.blocks, last_level = Level + 1 == C.levels();
  static constexpr int width = C.widths[Level], of_x = C.widths[Block == 0 && Level > 0 ? Level - 1 : Level],
                       of_deeper = C.widths[last_block && !last_level ? Level + 1 : Level];

  static constexpr auto forward(value auto x, value auto time, value auto context) {
    using up = block<C, Level, C.blocks - Block, of_deeper + of_x>;
    auto both = concat<1>(deeper(x, time, context), x);
    return call<numbered<"up_blocks", C.levels() - 1 - Level>, up>(both, time, context);
  }

 private:
  static constexpr auto deeper(value auto x, value auto time, value auto context) {
    if constexpr (!last_block) {
      auto y = call<numbered<"down_blocks", Level>, block<C, Level, Block, of_x>>(x, time, context);
      return call<"", nested<C, Level, Block + 1>>(y, time, context);
    } else if constexpr (last_level) {
      return call<"mid_block", middle<C, width>>(x, time, context);
    } else {
      auto half = call<numbered<"down_blocks", Level>, downsampler<width>>(x);
      auto y = call<"", nested<C, Level + 1>>(half, time, context);
      return call<numbered<"up_blocks", C.levels() - 2 - Level>, upsampler<of_deeper>>(y);
    }
  }
};

/// The noise in a latent image: latent [n, channels, height, width], height and width multiples of 2^(levels - 1),
/// timestep [n], context [n, tokens, context width], all f32 -> as latent. Latents are 8 times smaller than images.
/// source: arXiv 2112.10752.
template <config C = config{}>
struct unet {
  static constexpr auto forward(value auto latent, value auto timestep, value auto context) {
    constexpr dim channels = C.channels, words = C.context;
    MEGANEURA_EXPECT((C.levels() > 0 && latent.facts().shape.rank == 4 && latent.facts().shape[1] == channels &&
                      context.facts().shape.last() == words),
                     "meganeura: stable_diffusion::unet: the latent must have config.channels channels, the context be "
                     "config.context wide, and widths[0] be a width",
                     latent, context) {
      constexpr int width = C.widths[0];
      auto time = call<"time_embedding", time_embedding<4 * width>>(call<"", sinusoids<width>>(timestep));
      auto x = call<"", nested<C, 0>>(convolved<"conv_in", width, 3>(latent), time, context);
      return convolved<"conv_out", C.channels, 3>(silu(group_norm<"conv_norm_out", C.groups>(x)));
    }
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::stable_diffusion
