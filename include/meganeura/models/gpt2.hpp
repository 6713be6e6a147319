// SPDX-License-Identifier: MIT
// GPT-2; parameter names and layouts are those of the published checkpoints, whose matrices are stored [in, out].
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/models/causal_attention.hpp>
#include <meganeura/models/places.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/embedding.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/rearrange.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::gpt2 {

/// context: positions there are, and that a run in pieces keeps.
struct config {
  int layers = 12, width = 768, heads = 12;
  int vocab = 50257, context = 1024;
  friend constexpr bool operator==(const config&, const config&) = default;
};

inline constexpr config gpt2_124m{}, gpt2_355m{.layers = 24, .width = 1024, .heads = 16},
    gpt2_774m{.layers = 36, .width = 1280, .heads = 20}, gpt2_1558m{.layers = 48, .width = 1600, .heads = 25};

/// x W + b with W [in, out].
template <int In, int Out>
struct projection {
  static constexpr auto forward(value auto x) {
    auto weight = parameter<"weight", dims<In, Out>, init::normal(0, 0.02)>;
    return matmul(x, weight) + parameter<"bias", dims<Out>, init::zeros>;
  }
};

template <config C>
struct attention {
  static constexpr auto forward(value auto x, value auto... position) {
    auto [q, k, v] = chunk<-1, 3>(call<"c_attn", projection<C.width, 3 * C.width>>(x));
    auto y = causal_attention<C.context>(split_heads<C.heads>(q), split_heads<C.heads>(k), split_heads<C.heads>(v),
                                         position...);
    return call<"c_proj", projection<C.width, C.width>>(merge_heads(y));
  }
};

template <config C>
struct mlp {
  static constexpr auto forward(value auto x) {
    auto hidden = gelu_tanh(call<"c_fc", projection<C.width, 4 * C.width>>(x));
    return call<"c_proj", projection<4 * C.width, C.width>>(hidden);
  }
};

template <config C>
struct block {
  static constexpr auto forward(value auto x, value auto... position) {
    auto h = x + call<"attn", attention<C>>(layer_norm<"ln_1">(x), position...);
    return h + call<"mlp", mlp<C>>(layer_norm<"ln_2">(h));
  }
};

/// tokens [.., seq] i32 -> logits [.., seq, vocab]; the head is the embedding. With a second input, position [] i32,
/// tokens continue what ran before, as llama::tied_language_model's. A text is no longer than `context`: there are no
/// places behind it. Nothing is dropped out. Published files have masks besides, and those of a whole language model a
/// prefix:
/// {.rename = {{"*", "transformer.*"}}, .ignore = {"*.attn.bias", "*.attn.masked_bias"}}.
/// source: Language Models are Unsupervised Multitask Learners, 2019.
template <config C = gpt2_124m>
struct language_model {
  static constexpr auto forward(value auto tokens, value auto... position) {
    MEGANEURA_EXPECT_PLACES("gpt2::language_model", C.context, tokens) {
      constexpr embedding_options begin{init::normal(0, 0.02)};
      auto x = embedding<"wte", C.vocab, C.width, begin>(tokens) +
               places<"wpe.weight", C.context, C.width, begin.weight>(tokens, position...);
      auto y = layer_norm<"ln_f">(repeat<"h", C.layers, block<C>>(x, position...));
      return tied_linear(y, shared(parameter<"wte.weight", dims<C.vocab, C.width>>));
    }
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::gpt2
