// SPDX-License-Identifier: MIT
// CLIP's reader of texts, by which Stable Diffusion knows what to draw; parameter names are transformers'.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/models/places.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/attention.hpp>
#include <meganeura/nn/embedding.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/rearrange.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::clip_text {

/// positions: tokens of a text, which is filled up with the token of its end.
struct config {
  int layers = 12, width = 768, heads = 12, hidden = 3072;
  int vocab = 49408, positions = 77;
  friend constexpr bool operator==(const config&, const config&) = default;
};

inline constexpr config vit_l_14{};

template <config C>
struct attention {
  static constexpr auto forward(value auto x) {
    auto q = split_heads<C.heads>(linear<"q_proj", C.width>(x));
    auto k = split_heads<C.heads>(linear<"k_proj", C.width>(x));
    auto v = split_heads<C.heads>(linear<"v_proj", C.width>(x));
    return linear<"out_proj", C.width>(merge_heads(attend<gqa_options{.causal = true}>(q, k, v)));
  }
};

template <config C>
struct mlp {
  static constexpr auto forward(value auto x) {
    auto hidden = linear<"fc1", C.hidden>(x);
    return linear<"fc2", C.width>(hidden * sigmoid(constant<1.702f> * hidden));
  }
};

template <config C>
struct block {
  static constexpr auto forward(value auto x) {
    auto h = x + call<"self_attn", attention<C>>(layer_norm<"layer_norm1">(x));
    return h + call<"mlp", mlp<C>>(layer_norm<"layer_norm2">(h));
  }
};

template <config C>
struct embeddings {
  static constexpr auto forward(value auto tokens) {
    constexpr embedding_options begin{init::normal(0, 0.02)};
    return embedding<"token_embedding", C.vocab, C.width, begin>(tokens) +
           places<"position_embedding.weight", C.positions, C.width, begin.weight>(tokens);
  }
};

/// tokens [n, seq] i32 -> the last layer's rows, normalised [n, seq, width]. Files of older programs hold
/// "text_model.embeddings.position_ids" besides: load(path, {.ignore = "*.position_ids"}). source: arXiv 2103.00020.
template <config C = vit_l_14>
struct encoder {
  static constexpr auto forward(value auto tokens) {
    MEGANEURA_EXPECT_PLACES("clip_text::encoder", C.positions, tokens) {
      auto x = call<"text_model.embeddings", embeddings<C>>(tokens);
      return layer_norm<"text_model.final_layer_norm">(repeat<"text_model.encoder.layers", C.layers, block<C>>(x));
    }
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::clip_text
