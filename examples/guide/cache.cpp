// SPDX-License-Identifier: MIT
// A cache as state: a prompt at once and then token by token, as if the whole text were read each time.
#include <meganeura/meganeura.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace mn = meganeura;

inline constexpr int vocabulary = 16, heads = 2, width = 8, context = 32;
inline constexpr mn::dim sequence = mn::sym<"sequence">;

struct cached_attention {
  static constexpr auto forward(mn::value auto x, mn::value auto position) {
    auto past_keys = mn::state<"keys", mn::dims<context, heads, width>, mn::init::each_run>;
    auto past_values = mn::state<"values", mn::dims<context, heads, width>, mn::init::each_run>;
    auto q = mn::rope(mn::split_heads<heads>(mn::linear<"q", heads * width>(x)), position);
    auto k = mn::rope(mn::split_heads<heads>(mn::linear<"k", heads * width>(x)), position);
    auto v = mn::split_heads<heads>(mn::linear<"v", heads * width>(x));
    auto keys = mn::update_rows(past_keys, k, position);
    auto values = mn::update_rows(past_values, v, position);
    return mn::merge_heads(mn::attend<mn::gqa_options{.causal = true}>(q, keys, values, position)) |
           mn::assign(past_keys, keys) | mn::assign(past_values, values);
  }
};
struct language_model {
  static constexpr auto forward(mn::value auto tokens, mn::value auto position) {
    auto x = mn::embedding<"embed", vocabulary, heads * width>(tokens);
    auto y = x + mn::call<"attention", cached_attention>(mn::rms_norm<"norm">(x), position);
    return mn::linear<"head", vocabulary>(y);
  }
};
using model = mn::model<language_model, mn::input<"tokens", mn::dtype::i32, mn::dims<sequence>>,
                        mn::input<"position", mn::dtype::i32, mn::dims<>>>;

// Of the last token.
std::vector<float> logits(mn::session<model>& s, std::span<const std::int32_t> tokens, std::int32_t position) {
  const auto all = s.run(mn::bind<"tokens">(tokens), mn::bind<"position">(std::array{position}));
  return {all.end() - vocabulary, all.end()};
}

int main() {
  const mn::device gpu;
  mn::session<model> s(gpu);
  s.parameters().init({.seed = 3});
  std::vector<std::int32_t> text{1, 2, 3, 4};
  std::vector<float> next = logits(s, text, 0);  // the prompt
  for (int i = 0; i < 4; ++i) {
    text.push_back(static_cast<std::int32_t>(std::ranges::max_element(next) - next.begin()));
    next = logits(s, std::span(text).last(1), static_cast<std::int32_t>(text.size()) - 1);
  }
  const std::vector<float> whole = logits(s, text, 0);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (std::abs(whole[i] - next[i]) > 1e-4f) return 1;
  }
  return 0;
}
