// SPDX-License-Identifier: MIT
// BERT, which reads a text in both directions; parameter names are those of the published checkpoints.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/models/places.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/attention_operands.hpp>
#include <meganeura/nn/embedding.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/rearrange.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::bert {

struct config {
  int layers = 12, width = 768, heads = 12, hidden = 3072;
  int vocab = 30522, positions = 512, token_types = 2;
  friend constexpr bool operator==(const config&, const config&) = default;
};

inline constexpr config bert_base_uncased{},
    bert_large_uncased{.layers = 24, .width = 1024, .heads = 16, .hidden = 4096};

inline constexpr norm_options norm{.epsilon = 1e-12f};

template <config C>
struct embeddings {
  static constexpr auto forward(value auto tokens, value auto token_types) {
    constexpr embedding_options begin{init::normal(0, 0.02)};
    auto words = embedding<"word_embeddings", C.vocab, C.width, begin>(tokens);
    auto at = places<"position_embeddings.weight", C.positions, C.width, begin.weight>(tokens);
    auto types = embedding<"token_type_embeddings", C.token_types, C.width, begin>(token_types);
    return layer_norm<"LayerNorm", norm>(words + types + at);
  }
};

template <config C>
struct attention {
  static constexpr auto forward(value auto x, value auto mask) {
    auto q = split_heads<C.heads>(linear<"self.query", C.width>(x));
    auto k = split_heads<C.heads>(linear<"self.key", C.width>(x));
    auto v = split_heads<C.heads>(linear<"self.value", C.width>(x));
    auto y = linear<"output.dense", C.width>(merge_heads(attend(q, k, v, attn_mask(mask))));
    return layer_norm<"output.LayerNorm", norm>(x + y);
  }
};

template <config C>
struct block {
  static constexpr auto forward(value auto x, value auto mask) {
    auto h = call<"attention", attention<C>>(x, mask);
    auto hidden = gelu(linear<"intermediate.dense", C.hidden>(h));
    return layer_norm<"output.LayerNorm", norm>(h + linear<"output.dense", C.width>(hidden));
  }
};

/// tokens and token_types [n, t] i32, mask [n, t] i32, 0 where there is no token -> "last_hidden_state" [n, t, width]
/// and "pooler_output" [n, width], of the first token. Nothing is dropped out. Published files have heads besides, and
/// may call norms gamma and beta: {.rename = from_torch, .ignore = {"cls.*", "*.position_ids"}}. source: arXiv
/// 1810.04805.
template <config C = bert_base_uncased>
struct encoder {
  static constexpr auto forward(value auto tokens, value auto token_types, value auto mask) {
    MEGANEURA_EXPECT(!is_float(mask.facts().type),
                     "meganeura: bert::encoder: the mask must be integers or booleans, 0 where there is no token", mask)
    MEGANEURA_EXPECT_PLACES("bert::encoder", C.positions, tokens) {
      auto x = call<"bert.embeddings", embeddings<C>>(tokens, token_types);
      auto seen = unsqueeze<1>(unsqueeze<1>(mask));
      auto y = repeat<"bert.encoder.layer", C.layers, block<C>>(x, seen);
      auto first = squeeze<1>(slice<1, 0, 1>(y));
      return results<"last_hidden_state", "pooler_output">(y, tanh(linear<"bert.pooler.dense", C.width>(first)));
    }
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::bert
