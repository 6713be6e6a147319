// SPDX-License-Identifier: MIT
// SmolLM2, a Llama-shaped language model; parameter names are the checkpoint's.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/attention.hpp>
#include <meganeura/nn/embedding.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/nn/rope.hpp>

namespace meganeura::inline MEGANEURA_ABI::models {

/// The parts of Llama-shaped models.
namespace llama {

struct config {
  int layers, width, heads, kv_heads, head_dim, hidden, vocab;
  int context;  // positions that a run in pieces keeps
  float rope_theta, epsilon;
  friend constexpr bool operator==(const config&, const config&) = default;
};

/// Of all positions at once, or, given a position, of those that begin there: the keys and values of the `context`
/// positions before lie in states.
template <config C>
struct attention {
  static constexpr gqa_options causal{.causal = true};
  static constexpr rope_options rotation{.theta = C.rope_theta};

  static constexpr auto forward(value auto x, value auto... position) {
    auto q = split_heads<C.heads>(linear<"q_proj", C.heads * C.head_dim, no_bias>(x));
    auto k = split_heads<C.kv_heads>(linear<"k_proj", C.kv_heads * C.head_dim, no_bias>(x));
    auto v = split_heads<C.kv_heads>(linear<"v_proj", C.kv_heads * C.head_dim, no_bias>(x));
    auto y = attended(rope<rotation>(q, position...), rope<rotation>(k, position...), v, position...);
    return linear<"o_proj", C.width, no_bias>(merge_heads(y));
  }

 private:
  static constexpr auto attended(value auto q, value auto k, value auto v) { return attend<causal>(q, k, v); }
  static constexpr auto attended(value auto q, value auto k, value auto v, value auto position) {
    auto past_keys = state_like<"keys", -3, C.context, init::each_run>(k);
    auto past_values = state_like<"values", -3, C.context, init::each_run>(v);
    auto keys = update_rows<-3>(past_keys, k, position);
    auto values = update_rows<-3>(past_values, v, position);
    return attend<causal>(q, keys, values, position) | assign(past_keys, keys) | assign(past_values, values);
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

}  // namespace llama

/// HuggingFaceTB/SmolLM2-135M.
inline constexpr llama::config smollm2_135m{.layers = 30,
                                            .width = 576,
                                            .heads = 9,
                                            .kv_heads = 3,
                                            .head_dim = 64,
                                            .hidden = 1536,
                                            .vocab = 49152,
                                            .context = 2048,
                                            .rope_theta = 1e5f,
                                            .epsilon = 1e-5f};

/// tokens [.., seq] i32 -> logits [.., seq, vocab]. The head is tied to the embedding: one tensor of that full name.
/// With a second input, position [] i32, tokens [.., seq] continue what ran before: a prompt from position 0 on, then
/// token by token, each run from where the last one ended, and the logits are those of the whole text. A batch of texts
/// is fixed when a session is made: session<model> s(gpu, {{"batch", 4}}).
template <llama::config C>
struct smollm2 {
  static constexpr auto forward(value auto tokens, value auto... position) {
    auto x = embedding<"model.embed_tokens", C.vocab, C.width, embedding_options{init::normal(0, 0.02)}>(tokens);
    auto y = repeat<"model.layers", C.layers, llama::block<C>>(x, position...);
    auto z = rms_norm<"model.norm", norm_options{.epsilon = C.epsilon}>(y);
    return tied_linear(z, shared(parameter<"model.embed_tokens.weight", dims<C.vocab, C.width>>));
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models
