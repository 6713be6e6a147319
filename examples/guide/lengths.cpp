// SPDX-License-Identifier: MIT
// Sequences of different lengths in one batch: what they are padded with changes nothing.
#include <meganeura/meganeura.hpp>

#include <cmath>

namespace mn = meganeura;

inline constexpr mn::dim batch = mn::sym<"batch">;
inline constexpr int steps = 5, words = 20;

struct tagger {
  static constexpr mn::transformer_options block{.width = 16, .heads = 2, .hidden = 32, .norm_first = true};
  static constexpr mn::recurrent_options both{.hidden = 8, .layers = 2, .bidirectional = true, .dropout = 0.1f};
  static constexpr auto forward(mn::value auto tokens, mn::value auto lengths) {
    auto x = mn::embedding<"embed", words, 16>(tokens);
    auto h = mn::repeat<"blocks", 2, mn::transformer_encoder_layer<block>>(x, mn::key_lengths(lengths));
    return mn::call<"lstm", mn::lstm<both>>(h, mn::sequence_lengths(lengths));
  }
};
using model = mn::model<tagger, mn::input<"tokens", mn::dtype::i32, mn::dims<batch, steps>>,
                        mn::input<"lengths", mn::dtype::i32, mn::dims<batch>>>;

int main() {
  const mn::device gpu;
  mn::session<model> s(gpu);
  s.parameters().init({.seed = 1});
  const std::vector<std::int32_t> lengths{5, 2};
  const std::vector<std::int32_t> tokens{3, 1, 4, 1, 5, 9, 2, 0, 0, 0}, others{3, 1, 4, 1, 5, 9, 2, 7, 8, 9};
  const auto y = s.run(mn::bind<"tokens">(tokens), mn::bind<"lengths">(lengths));
  const auto z = s.run(mn::bind<"tokens">(others), mn::bind<"lengths">(lengths));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const bool padding = i >= 7 * 16;
    if (std::abs(y[i] - z[i]) > 1e-5f || (padding && y[i] != 0) || (!padding && y[i] == 0)) return 1;
  }
  return 0;
}
