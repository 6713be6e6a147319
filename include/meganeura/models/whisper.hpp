// SPDX-License-Identifier: MIT
// Whisper, speech to text; parameter names are those of the published checkpoints.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/attention.hpp>
#include <meganeura/nn/conv_forms.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::whisper {

/// mels: bands of the spectrogram. frames: of 30 seconds, every other one a position.
struct config {
  int mels = 80, frames = 3000;
  int layers = 4, width = 384, heads = 6, hidden = 1536;

  [[nodiscard]] constexpr int positions() const { return frames / 2; }
  friend constexpr bool operator==(const config&, const config&) = default;
};

inline constexpr config tiny{}, base{.layers = 6, .width = 512, .heads = 8, .hidden = 2048},
    small{.layers = 12, .width = 768, .heads = 12, .hidden = 3072},
    medium{.layers = 24, .width = 1024, .heads = 16, .hidden = 4096};

/// Of x [n, t, width] to memory [n, s, width]; keys have no bias.
template <config C>
struct attention {
  static constexpr auto forward(value auto x, value auto memory) {
    auto q = split_heads<C.heads>(linear<"q_proj", C.width>(x));
    auto k = split_heads<C.heads>(linear<"k_proj", C.width, no_bias>(memory));
    auto v = split_heads<C.heads>(linear<"v_proj", C.width>(memory));
    return linear<"out_proj", C.width>(merge_heads(attend(q, k, v)));
  }
};

template <config C>
struct encoder_layer {
  static constexpr auto forward(value auto x) {
    auto n = layer_norm<"self_attn_layer_norm">(x);
    auto h = x + call<"self_attn", attention<C>>(n, n);
    auto hidden = gelu(linear<"fc1", C.hidden>(layer_norm<"final_layer_norm">(h)));
    return h + linear<"fc2", C.width>(hidden);
  }
};

/// spectrogram [n, mels, frames] f32, log10 of mel bands every 10 ms, scaled as Whisper's -> [n, frames / 2, width].
/// "embed_positions.weight" holds sinusoids and is not trained: {.frozen = "*embed_positions.weight"}.
/// source: arXiv 2212.04356.
template <config C = tiny>
struct encoder {
  static constexpr auto forward(value auto spectrogram) {
    constexpr conv_options first{.kernel = 3, .padding = 1}, second{.kernel = 3, .stride = 2, .padding = 1};
    auto a = gelu(conv1d<"conv1", C.width, first>(spectrogram));
    auto b = gelu(conv1d<"conv2", C.width, second>(a));
    auto x = transpose(b) + parameter<"embed_positions.weight", dims<C.positions(), C.width>>;
    return layer_norm<"layer_norm">(repeat<"layers", C.layers, encoder_layer<C>>(x));
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::whisper
