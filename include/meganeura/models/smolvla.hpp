// SPDX-License-Identifier: MIT
// SmolVLA's action expert as the Inferena benchmark has it: a transformer that turns noisy actions into actions, every
// other layer looking at a vision-language model's context. Parameter names are the benchmark's.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/sequential.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/attention.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>

namespace meganeura::inline MEGANEURA_ABI::models::smolvla {

/// actions: numbers of one action. context: width of the context's tokens. raw_context: layers read the context as it
/// is, time goes through two layers, projections in and out have biases, and there is no last norm; otherwise the
/// context is widened once.
struct config {
  int layers = 16, width = 720, heads = 15, kv_heads = 5, head_dim = 64, hidden = 2048;
  int actions = 32, context = 320;
  bool raw_context = false;
  friend constexpr bool operator==(const config&, const config&) = default;
};

/// The graph of the benchmark's Python programs, and the one that its Vulkan program trains.
inline constexpr config expert{}, raw_context_expert{.raw_context = true};

inline constexpr norm_options norm{.epsilon = 1e-5f};

/// Of x [n, chunk, width] to memory [n, tokens, ..], without a mask or positions.
template <config C>
struct attention {
  static constexpr auto forward(value auto x, value auto memory) {
    auto q = split_heads<C.heads>(linear<"q_proj", C.heads * C.head_dim, no_bias>(x));
    auto k = split_heads<C.kv_heads>(linear<"k_proj", C.kv_heads * C.head_dim, no_bias>(memory));
    auto v = split_heads<C.kv_heads>(linear<"v_proj", C.kv_heads * C.head_dim, no_bias>(memory));
    return linear<"o_proj", C.width, no_bias>(merge_heads(attend(q, k, v)));
  }
};

template <config C>
struct gated_mlp {
  static constexpr auto forward(value auto x) {
    auto gate = linear<"gate", C.hidden, no_bias>(x);
    auto up = linear<"up", C.hidden, no_bias>(x);
    return linear<"down", C.width, no_bias>(swiglu(gate, up));
  }
};

/// Layers of even number look at the chunk itself.
template <config C, bool LooksAtContext>
struct layer {
  static constexpr auto forward(value auto x, value auto context) {
    auto h = x + attended(rms_norm<"norm1", norm>(x), context);
    return h + call<"mlp", gated_mlp<C>>(rms_norm<"norm2", norm>(h));
  }

 private:
  static constexpr auto attended(value auto x, value auto context) {
    if constexpr (LooksAtContext) {
      return call<"attn", attention<C>>(x, context);
    } else {
      return call<"attn", attention<C>>(x, x);
    }
  }
};

/// actions [n, chunk, actions], time [n, 1, 2 width], context [n, tokens, context width], all f32 -> as actions.
/// source: arXiv 2506.01844, reduced as the benchmark has it.
template <config C = expert>
struct action_expert {
  template <int I>
  using layer_at = layer<C, I % 2 == 1>;

  static constexpr auto forward(value auto actions, value auto time, value auto context) {
    constexpr linear_options ends{.bias = C.raw_context};
    constexpr dim numbers = C.actions, words = C.context;
    MEGANEURA_EXPECT(
        (actions.facts().shape.last() == numbers && context.facts().shape.last() == words),
        "meganeura: smolvla::action_expert: an action must have config.actions numbers, and the context be "
        "config.context wide",
        actions, context) {
      auto x = linear<"action_proj", C.width, ends>(actions);
      if constexpr (C.raw_context) {
        auto t = linear<"time_out", C.width>(silu(linear<"time_proj", C.width>(time)));
        return linear<"head", C.actions, ends>(indexed<"layers", C.layers, layer_at>(x + t, context));
      } else {
        auto t = linear<"time_proj", C.width, ends>(time);
        auto wide = linear<"kv_proj", C.width, no_bias>(context);
        auto y = indexed<"layers", C.layers, layer_at>(x + t, wide);
        return linear<"head", C.actions, ends>(rms_norm<"norm", norm>(y));
      }
    }
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::smolvla
