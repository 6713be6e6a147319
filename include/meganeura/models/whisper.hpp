// SPDX-License-Identifier: MIT
// Whisper, speech to text; parameter names are those of the published checkpoints.
#pragma once
#include <meganeura/expr/model.hpp>
#include <meganeura/models/causal_attention.hpp>
#include <meganeura/models/places.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/conv_forms.hpp>
#include <meganeura/nn/embedding.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/view.hpp>

#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI::models::whisper {

/// mels: bands of the spectrogram. frames: of 30 seconds, every other one a position. layers: of the encoder and of the
/// decoder. context: tokens there are places for.
struct config {
  int mels = 80, frames = 3000;
  int layers = 4, width = 384, heads = 6, hidden = 1536;
  int vocab = 51865, context = 448;

  [[nodiscard]] constexpr int positions() const { return frames / 2; }
  friend constexpr bool operator==(const config&, const config&) = default;
};

inline constexpr config tiny{}, base{.layers = 6, .width = 512, .heads = 8, .hidden = 2048},
    small{.layers = 12, .width = 768, .heads = 12, .hidden = 3072},
    medium{.layers = 24, .width = 1024, .heads = 16, .hidden = 4096};

template <config C>
constexpr auto queries(value auto x) {
  return split_heads<C.heads>(linear<"q_proj", C.width>(x));
}
template <config C>
constexpr auto keys(value auto x) {
  return split_heads<C.heads>(linear<"k_proj", C.width, no_bias>(x));
}
template <config C>
constexpr auto values(value auto x) {
  return split_heads<C.heads>(linear<"v_proj", C.width>(x));
}
template <config C>
constexpr auto joined(value auto y) {
  return linear<"out_proj", C.width>(merge_heads(y));
}

/// Of x [.., t, width] to memory [.., s, width]; keys have no bias.
template <config C>
struct attention {
  static constexpr auto forward(value auto x, value auto memory) {
    return joined<C>(attend(queries<C>(x), keys<C>(memory), values<C>(memory)));
  }
};

/// To itself, up to its own place; see causal_attention for a position.
template <config C>
struct self_attention {
  static constexpr auto forward(value auto x, value auto... position) {
    return joined<C>(causal_attention<C.context>(queries<C>(x), keys<C>(x), values<C>(x), position...));
  }
};

/// What a recording's keys and values are kept in while its text is written.
template <config C, fixed_string Name>
inline constexpr auto heard = state<Name, dims<C.positions(), C.heads, C.width / C.heads>, init::each_run>;

/// To what the listener heard.
template <config C>
struct heard_attention {
  static constexpr auto forward(value auto x) {
    return joined<C>(attend(queries<C>(x), heard<C, "keys">, heard<C, "values">));
  }
};
template <config C>
struct listening {
  static constexpr auto forward(value auto memory) {
    return memory | assign(heard<C, "keys">, keys<C>(memory)) | assign(heard<C, "values">, values<C>(memory));
  }
};

template <config C>
constexpr auto fed(value auto x) {
  return linear<"fc2", C.width>(gelu(linear<"fc1", C.hidden>(layer_norm<"final_layer_norm">(x))));
}

template <config C>
struct encoder_layer {
  static constexpr auto forward(value auto x) {
    auto n = layer_norm<"self_attn_layer_norm">(x);
    auto h = x + call<"self_attn", attention<C>>(n, n);
    return h + fed<C>(h);
  }
};

/// spectrogram [n, mels, frames] f32, log10 of mel bands every 10 ms, scaled as Whisper's -> [n, frames / 2, width].
/// "embed_positions.weight" holds sinusoids and is not trained: {.frozen = "*encoder.embed_positions.weight"}
/// in a transcriber.
/// source: arXiv 2212.04356.
template <config C = tiny>
struct encoder {
  static constexpr auto forward(value auto spectrogram) {
    constexpr dim mels = C.mels, frames = C.frames;
    MEGANEURA_EXPECT(
        (C.frames % 2 == 0 && spectrogram.facts().shape.rank == 3 && spectrogram.facts().shape[1] == mels &&
         spectrogram.facts().shape[2] == frames),
        "meganeura: whisper::encoder: the spectrogram must be [n, config.mels, config.frames], and frames even",
        spectrogram) {
      constexpr conv_options first{.kernel = 3, .padding = 1}, second{.kernel = 3, .stride = 2, .padding = 1};
      auto a = gelu(conv1d<"conv1", C.width, first>(spectrogram));
      auto b = gelu(conv1d<"conv2", C.width, second>(a));
      auto x = transpose(b) + parameter<"embed_positions.weight", dims<C.positions(), C.width>>;
      return layer_norm<"layer_norm">(repeat<"layers", C.layers, encoder_layer<C>>(x));
    }
  }
};

template <config C>
struct decoder_layer {
  static constexpr auto forward(value auto x, value auto memory) {
    auto h = x + call<"self_attn", self_attention<C>>(layer_norm<"self_attn_layer_norm">(x));
    auto m = h + call<"encoder_attn", attention<C>>(layer_norm<"encoder_attn_layer_norm">(h), memory);
    return m + fed<C>(m);
  }
};

/// The same with what was heard, and a position.
template <config C>
struct writing_layer {
  static constexpr auto forward(value auto x, value auto position) {
    auto h = x + call<"self_attn", self_attention<C>>(layer_norm<"self_attn_layer_norm">(x), position);
    auto m = h + call<"encoder_attn", heard_attention<C>>(layer_norm<"encoder_attn_layer_norm">(h));
    return m + fed<C>(m);
  }
};
template <config C>
struct listening_layer {
  static constexpr auto forward(value auto memory) { return call<"encoder_attn", listening<C>>(memory); }
};

/// tokens [.., t] i32 and the encoder's result or, with `Writes`, the position of the first token -> logits
/// [.., t, vocab]; the head is the embedding.
template <config C, bool Writes>
struct decoder {
  static constexpr auto forward(value auto tokens, value auto memory_or_position) {
    MEGANEURA_EXPECT_PLACES("whisper::decoder", C.context, tokens) {
      auto rows = [&] {
        constexpr auto of = [](auto... all) { return places<"embed_positions.weight", C.context, C.width>(all...); };
        if constexpr (Writes) {
          return of(tokens, memory_or_position);
        } else {
          return of(tokens);
        }
      }();
      auto x = embedding<"embed_tokens", C.vocab, C.width>(tokens) + rows;
      using layer = std::conditional_t<Writes, writing_layer<C>, decoder_layer<C>>;
      auto y = layer_norm<"layer_norm">(repeat<"layers", C.layers, layer>(x, memory_or_position));
      return tied_linear(y, shared(parameter<"embed_tokens.weight", dims<C.vocab, C.width>>));
    }
  }
};

/// spectrogram [n, mels, frames] and tokens [n, t] i32 -> the logits of each token's successor [n, t, vocab]: what is
/// trained.
template <config C = tiny>
struct transcriber {
  static constexpr auto forward(value auto spectrogram, value auto tokens) {
    auto memory = call<"model.encoder", encoder<C>>(spectrogram);
    return call<"model.decoder", decoder<C, false>>(tokens, memory);
  }
};

/// Two models over the same weights and states write a recording's text: the listener reads it once, spectrogram [1,
/// mels, frames] -> [frames / 2, width], and the writer continues the text token by token, tokens [t] i32 and the
/// position [] i32 of the first -> logits [t, vocab], from position 0 on after each listening; before any, it writes
/// of nothing.
template <config C = tiny>
struct listener {
  static constexpr auto forward(value auto spectrogram) {
    MEGANEURA_EXPECT((spectrogram.facts().shape[0] == dim(1)),
                     "meganeura: whisper::listener: it hears one recording, a spectrogram [1, mels, frames]",
                     spectrogram) {
      auto memory = flatten<0, 1>(call<"model.encoder", encoder<C>>(spectrogram));
      return repeat<"model.decoder.layers", C.layers, listening_layer<C>>(memory);
    }
  }
};
template <config C = tiny>
struct writer {
  static constexpr auto forward(value auto tokens, value auto position) {
    return call<"model.decoder", decoder<C, true>>(tokens, position);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::models::whisper
