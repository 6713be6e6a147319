// SPDX-License-Identifier: MIT
// The parts of Llama-shaped language models; parameter names are the checkpoints'.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/models/causal_attention.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/embedding.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/nn/rope.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::llama {

struct config {
  int layers, width, heads, kv_heads, head_dim, hidden, vocab;
  int context;  // positions that a run in pieces keeps
  float rope_theta, epsilon;
  friend constexpr bool operator==(const config&, const config&) = default;
};

/// Of all positions at once, or, given a position, of those that begin there.
template <config C>
struct attention {
  static constexpr rope_options rotation{.theta = C.rope_theta};

  static constexpr auto forward(value auto x, value auto... position) {
    auto q = split_heads<C.heads>(linear<"q_proj", C.heads * C.head_dim, no_bias>(x));
    auto k = split_heads<C.kv_heads>(linear<"k_proj", C.kv_heads * C.head_dim, no_bias>(x));
    auto v = split_heads<C.kv_heads>(linear<"v_proj", C.kv_heads * C.head_dim, no_bias>(x));
    auto y =
        causal_attention<C.context>(rope<rotation>(q, position...), rope<rotation>(k, position...), v, position...);
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
  static constexpr auto forward(value auto x, value auto... position) {
    auto h = x + call<"self_attn", attention<C>>(rms_norm<"input_layernorm", norm>(x), position...);
    return h + call<"mlp", gated_mlp<C>>(rms_norm<"post_attention_layernorm", norm>(h));
  }
};

/// tokens [.., seq] i32 -> logits [.., seq, vocab]. The head is tied to the embedding: one tensor of that full name.
/// With a second input, position [] i32, tokens [.., seq] continue what ran before: a prompt from position 0 on, then
/// token by token, each run from where the last one ended, and the logits are those of the whole text, as long as that
/// is no longer than `context`: what lies behind is not kept, and the option `checks` names it. A batch of texts is
/// fixed when a session is made: session<model> s(gpu, {{"batch", 4}}).
template <config C>
struct tied_language_model {
  static constexpr auto forward(value auto tokens, value auto... position) {
    auto x = embedding<"model.embed_tokens", C.vocab, C.width, embedding_options{init::normal(0, 0.02)}>(tokens);
    auto y = repeat<"model.layers", C.layers, block<C>>(x, position...);
    auto z = rms_norm<"model.norm", norm_options{.epsilon = C.epsilon}>(y);
    return tied_linear(z, shared(parameter<"model.embed_tokens.weight", dims<C.vocab, C.width>>));
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::llama
