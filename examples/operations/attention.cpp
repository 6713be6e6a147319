// SPDX-License-Identifier: MIT
// Attention with all that may be said of it, and rotary positions, each beside its formula.
#include "operation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace operations {

namespace {

using values = std::vector<mn::node_value>;
using arguments = std::vector<numbers>;

// q [2, t, heads, width], k [2, s, kv, width], v [2, s, kv, v width]; what a score becomes, and whether it is seen.
struct attention {
  std::size_t t, s, heads, kv, width, wide;
  double scale;
  std::function<double(double score, std::size_t b, std::size_t head, std::size_t i, std::size_t k)> of =
      [](double score, auto...) { return score; };
  std::function<bool(std::size_t b, std::size_t head, std::size_t i, std::size_t k)> sees = [](auto...) {
    return true;
  };
  std::function<double(std::size_t head)> sink = [](std::size_t) { return -INFINITY; };

  [[nodiscard]] std::vector<operand> operands() const {
    const auto whole = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    return {{{2, whole(t), whole(heads), whole(width)}},
            {{2, whole(s), whole(kv), whole(width)}},
            {{2, whole(s), whole(kv), whole(wide)}}};
  }
  [[nodiscard]] numbers operator()(const arguments& x) const {
    numbers y;
    for (std::size_t at = 0; at < 2 * t * heads * wide; ++at) {
      const std::size_t column = at % wide, head = at / wide % heads, i = at / wide / heads % t,
                        b = at / wide / heads / t, shared = head / (heads / kv);
      double total = std::exp(sink(head)), sum = 0;
      for (std::size_t k = 0; k < s; ++k) {
        if (!sees(b, head, i, k)) continue;
        double dot = 0;
        for (std::size_t d = 0; d < width; ++d)
          dot += x[0][((b * t + i) * heads + head) * width + d] * x[1][((b * s + k) * kv + shared) * width + d];
        const double weight = std::exp(of(dot * scale, b, head, i, k));
        total += weight;
        sum += weight * x[2][((b * s + k) * kv + shared) * wide + column];
      }
      y.push_back(total == 0 ? 0 : sum / total);
    }
    return y;
  }
};

constexpr const char* by_rows = "[b?, t, heads, width], [b?, s, kv heads, width], [b?, s, kv heads, v width]";

operation attending(const std::string& more, const std::string& shapes, std::vector<operand> operands,
                    std::function<mn::node_value(const values&)> build,
                    std::function<numbers(const arguments&)> definition) {
  return {"attend<options>(q, k, v" + more,
          by_rows + shapes + " -> [b?, t, heads, v width]",
          "nn.functional.scaled_dot_product_attention",
          "Attention",
          std::move(operands),
          std::move(build),
          std::move(definition)};
}

void add_attentions(std::vector<operation>& list) {
  // Fewer queries than keys, of the last places; distances of heads 1 to 3 count by 2^-4, 2^-8 and, between, 2^-2.
  attention plain{2, 4, 3, 1, 3, 2, 0.5};
  plain.of = [](double score, std::size_t, std::size_t head, std::size_t i, std::size_t k) {
    const double slope[] = {0.0625, 0.00390625, 0.25};
    return 3 * std::tanh(score / 3) - slope[head] * static_cast<double>(i + 2 - k);
  };
  plain.sees = [](std::size_t, std::size_t, std::size_t i, std::size_t k) { return k <= i + 2 && i + 2 - k < 3; };
  list.push_back(attending(
      ")", "", plain.operands(),
      [](const values& x) {
        return mn::attend(
            x[0], x[1], x[2],
            mn::gqa_options{.causal = true, .scale = 0.5f, .softcap = 3, .sliding_window = 3, .alibi = true});
      },
      plain));
  // The first query at place 2 of a cache.
  attention cached{2, 5, 2, 2, 2, 2, 1 / std::sqrt(2.0)};
  cached.sees = [](std::size_t, std::size_t, std::size_t i, std::size_t k) { return k <= i + 2; };
  std::vector<operand> with_place = cached.operands();
  with_place.push_back({{}, 2, 2, mn::dtype::i32});
  list.push_back(attending(
      ", position)", ", []", with_place,
      [](const values& x) { return mn::attend(x[0], x[1], x[2], x[3], mn::gqa_options{.causal = true}); }, cached));
  // Two queries share a key.
  attention added{2, 3, 4, 2, 3, 2, 1 / std::sqrt(3.0)};
  std::vector<operand> with_mask = added.operands();
  with_mask.push_back({{2, 4, 1, 3}});
  list.push_back(attending(
      ", attn_mask(m))", ", [.., t, s]", with_mask,
      [](const values& x) { return mn::attend(x[0], x[1], x[2], mn::attn_mask(x[3])); },
      [added](const arguments& x) {
        attention each = added;
        each.of = [&x](double score, std::size_t b, std::size_t head, std::size_t, std::size_t k) {
          return score + x[3][(b * 4 + head) * 3 + k];
        };
        return each(x);
      }));
  attention limited{2, 3, 2, 1, 2, 2, 1 / std::sqrt(2.0)};
  std::vector<operand> with_lengths = limited.operands();
  with_lengths.push_back({{2}, 1, 4, mn::dtype::i32});
  list.push_back(attending(
      ", key_lengths(n))", ", [b?]", with_lengths,
      [](const values& x) { return mn::attend(x[0], x[1], x[2], mn::key_lengths(x[3])); },
      [limited](const arguments& x) {
        attention each = limited;
        each.sees = [&x](std::size_t b, std::size_t, std::size_t, std::size_t k) {
          return static_cast<double>(k) < x[3][b];
        };
        return each(x);
      }));
  attention sunk{2, 3, 2, 1, 2, 2, 1 / std::sqrt(2.0)};
  std::vector<operand> with_sinks = sunk.operands();
  with_sinks.push_back({{2}});
  list.push_back(attending(
      ", attention_sinks(s))", ", [heads]", with_sinks,
      [](const values& x) { return mn::attend(x[0], x[1], x[2], mn::attention_sinks(x[3])); },
      [sunk](const arguments& x) {
        attention each = sunk;
        each.sink = [&x](std::size_t head) { return x[3][head]; };
        return each(x);
      }));
}

// Of [2, 3, 2, 6]: elements a and b of pair i turn by the place and speed(i).
numbers turned(const numbers& x, double first, std::size_t pairs, std::size_t apart, std::size_t step, double longer,
               double (*speed)(double i)) {
  numbers y = x;
  for (std::size_t row = 0; row < 12; ++row) {
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::size_t a = row * 6 + i * step, b = a + apart;
      const double angle = (first + static_cast<double>(row / 2 % 3)) * speed(static_cast<double>(i));
      y[a] = longer * (x[a] * std::cos(angle) - x[b] * std::sin(angle));
      y[b] = longer * (x[b] * std::cos(angle) + x[a] * std::sin(angle));
    }
  }
  return y;
}

void add_rotations(std::vector<operation>& list) {
  const operand heads{{2, 3, 2, 6}};
  list.push_back({"rope<options>(x)",
                  "[.., t, heads, width] -> [.., t, heads, width]",
                  "",
                  "RotaryEmbedding",
                  {heads},
                  [](const values& x) {
                    return mn::rope(x[0], mn::rope_options{.theta = 100,
                                                           .width = 4,
                                                           .type = mn::rope_type::yarn,
                                                           .factor = 4,
                                                           .original_max_position_embeddings = 64});
                  },
                  [](const arguments& x) {  // yarn's ramp is from pair 0 to 2: 64 / (32 2 pi) and 64 / (2 pi) turns
                    return turned(x[0], 0, 2, 2, 1, 0.1 * std::log(4.0) + 1,
                                  [](double i) { return std::pow(100.0, -i / 2) * (0.25 + 0.75 * (1 - i / 2)); });
                  },
                  1e-5});
  list.push_back({"rope<options>(x, position)",
                  "[.., t, heads, width], [] -> [.., t, heads, width]",
                  "",
                  "RotaryEmbedding",
                  {heads, {{}, 5, 9, mn::dtype::i32}},
                  [](const values& x) { return mn::rope(x[0], x[1], mn::rope_options{.interleaved = true}); },
                  [](const arguments& x) {
                    return turned(x[0], x[1][0], 3, 1, 2, 1, [](double i) { return std::pow(1e4, -i / 3); });
                  },
                  1e-5});
}

}  // namespace

void add_attention(std::vector<operation>& list) {
  add_attentions(list);
  add_rotations(list);
}

}  // namespace operations
