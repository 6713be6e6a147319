// SPDX-License-Identifier: MIT
// SmolLM2, a Llama-shaped language model; parameter names are the checkpoint's.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/attention.hpp>
#include <meganeura/nn/embedding.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>

namespace meganeura::inline MEGANEURA_ABI::models {

/// The parts of Llama-shaped models.
namespace llama {

struct config {
  int layers, width, heads, kv_heads, head_dim, hidden, vocab;
  float rope_theta, epsilon;
  friend constexpr bool operator==(const config&, const config&) = default;
};

template <config C>
struct attention {
  static constexpr auto forward(value auto x) {
    auto q = split_heads<C.heads>(linear<"q_proj", C.heads * C.head_dim, no_bias>(x));
    auto k = split_heads<C.kv_heads>(linear<"k_proj", C.kv_heads * C.head_dim, no_bias>(x));
    auto v = split_heads<C.kv_heads>(linear<"v_proj", C.kv_heads * C.head_dim, no_bias>(x));
    constexpr rope_options rotation{.theta = C.rope_theta};
    auto y = attend<gqa_options{.causal = true}>(rope<rotation>(q), rope<rotation>(k), v);
    return linear<"o_proj", C.width, no_bias>(merge_heads(y));
  }
};

template <config C>
struct gated_mlp {
  static constexpr auto forward(value auto x) {
    auto gate = linear<"gate_proj", C.hidden, no_bias>(x);
    auto up = linear<"up_proj", C.hidden, no_bias>(x);
    return linear<"down_proj", C.width, no_bias>(swiglu(gate, up));
  }
};

template <config C>
struct block {
  static constexpr norm_options norm{.epsilon = C.epsilon};
  static constexpr auto forward(value auto x) {
    auto h = x + call<"self_attn", attention<C>>(rms_norm<"input_layernorm", norm>(x));
    return h + call<"mlp", gated_mlp<C>>(rms_norm<"post_attention_layernorm", norm>(h));
  }
};

}  // namespace llama

/// HuggingFaceTB/SmolLM2-135M.
inline constexpr llama::config smollm2_135m{.layers = 30,
                                            .width = 576,
                                            .heads = 9,
                                            .kv_heads = 3,
                                            .head_dim = 64,
                                            .hidden = 1536,
                                            .vocab = 49152,
                                            .rope_theta = 1e5f,
                                            .epsilon = 1e-5f};

/// tokens [.., seq] i32 -> logits [.., seq, vocab]. The head is tied to the embedding: one tensor of that full name.
template <llama::config C>
struct smollm2 {
  static constexpr auto forward(value auto tokens) {
    auto x = embedding<"model.embed_tokens", C.vocab, C.width, embedding_options{init::normal(0, 0.02)}>(tokens);
    auto y = repeat<"model.layers", C.layers, llama::block<C>>(x);
    auto z = rms_norm<"model.norm", norm_options{.epsilon = C.epsilon}>(y);
    return tied_linear(z, shared(parameter<"model.embed_tokens.weight", dims<C.vocab, C.width>>));
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models
