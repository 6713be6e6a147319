// SPDX-License-Identifier: MIT
// Scaled dot-product attention with grouped queries, from primitives.
#pragma once
#include <meganeura/core/constexpr_math.hpp>
#include <meganeura/nn/softmax.hpp>
#include <meganeura/ops/contract.hpp>
#include <meganeura/ops/einsum.hpp>
#include <meganeura/ops/narrow.hpp>
#include <meganeura/ops/state.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// causal: a query sees keys up to its own place, the last query's being the last key. scale: of scores; 0: 1 /
/// sqrt(head width). softcap: scores become softcap tanh(score / softcap), before anything is masked or added; 0: none.
/// sliding_window: a query sees keys less than that many places away; 0: all. alibi: a score loses its distance times
/// 2^(-8 i / heads) for head i from 1 on; of heads that are no power of two, those beyond the greatest have the slopes
/// between, as of twice that many (Press, Smith and Lewis 2021).
struct gqa_options {
  bool causal = false;
  float scale = 0;
  float softcap = 0;
  int sliding_window = 0;
  bool alibi = false;
  friend constexpr bool operator==(const gqa_options&, const gqa_options&) = default;
};

namespace detail {

// [.., positions, kv group, width] -> [.., positions, kv, group, width]
constexpr symbolic_shape grouped(const symbolic_shape& q, const symbolic_shape& k) {
  symbolic_shape result = q;
  const std::int64_t heads = k.last(1).coefficient;
  result[q.rank - 2] = heads;
  result[q.rank - 1] = q.last(1).coefficient / heads;
  result.push_back(q.last());
  return result;
}

constexpr bool is_sound(const gqa_options& options) {
  const auto is_finite = [](float x) { return x - x == 0; };
  return options.softcap >= 0 && options.sliding_window >= 0 && is_finite(options.softcap) && is_finite(options.scale);
}

constexpr bool can_attend(const symbolic_shape& q, const symbolic_shape& k, const symbolic_shape& v) {
  if ((q.rank != 3 && q.rank != 4) || k.rank != q.rank || v != with_extent(k, k.rank - 1, v.last())) return false;
  if (!q.last().is_static() || !q.last(1).is_static() || !k.last(1).is_static()) return false;
  return q.last() == k.last() && (q.rank == 3 || q[0] == k[0]) && q.last(1).coefficient % k.last(1).coefficient == 0;
}

constexpr bool has_key_for_each(const dim& queries, const dim& keys) {
  return (keys.sum() + queries.with(-queries.coefficient).sum()).least() >= 0;
}

// The heads of scores [b?, heads, t, s] or [b?, kv heads, group, t, s].
constexpr symbolic_shape heads_of(const symbolic_shape& scores, bool batch) {
  symbolic_shape result;
  for (int i = batch ? 1 : 0; i < scores.rank - 2; ++i) result.push_back(scores[i]);
  return result;
}

// Of a key that a query does not see: not infinity, as a row of nothing else would be inf - inf in softmax. Scores
// below the second one are such keys'.
inline constexpr float hidden_score = -1.5e38f, least_seen_score = -1e38f;

}  // namespace detail

namespace layers {

/// In steps: scores of f32 [b?, heads, t, s] or, where queries share keys, [b?, kv heads, group, t, s], their softmax,
/// and what it weighs.
struct attend {
  static constexpr auto forward(value auto q, value auto k, value auto v, gqa_options options) {
    return mixed(weights(scores(q, k, options), options), v, q.facts().type);
  }
  static constexpr auto forward(value auto q, value auto k, value auto v, value auto position, gqa_options options) {
    return mixed(weights_or_zeros(scores(q, k, position, options)), v, q.facts().type);
  }

  // The last query stands at the last key: behind a past both count from the end.
  static constexpr auto scores(value auto q, value auto k, gqa_options options) {
    const auto all = products(q, k, options);
    if (!options.causal && !options.alibi && options.sliding_window == 0) return all;
    const auto query = query_of(all), key = key_of(all);
    const bool batch = q.facts().shape.rank == 4;
    return square(all)[0] == square(all)[1] ? seen(all, query, key, batch, options)
                                            : seen(all, flip(key, 1), flip(query, 0), batch, options);
  }
  static constexpr auto scores(value auto q, value auto k, value auto position, gqa_options options) {
    const auto all = products(q, k, options);
    return seen(all, query_of(all) + minimum(position, 1 << 30), key_of(all), q.facts().shape.rank == 4, options);
  }

  static constexpr auto masked(value auto scores, value auto sees) {
    return select(sees, scores, detail::hidden_score);
  }
  static constexpr auto key_of(value auto scores) { return detail::coordinates_of(scores, square(scores), 1); }

  // Within a window there may be no key.
  static constexpr auto weights(value auto scores, gqa_options options) {
    return options.sliding_window > 0 ? weights_or_zeros(scores) : softmax::forward(scores, -1);
  }
  static constexpr auto weights_or_zeros(value auto scores) {
    const auto bounded = maximum(scores, detail::hidden_score);
    return select(less(bounded, detail::least_seen_score), 0.0f, softmax::forward(bounded, -1));
  }

  static constexpr auto mixed(value auto weights, value auto v, dtype type) {
    const auto by = cast(weights, type);
    const bool batch = v.facts().shape.rank == 4;
    if (weights.facts().shape.rank == v.facts().shape.rank)
      return einsum(batch ? "bhts,bshd->bthd" : "hts,shd->thd", by, v);
    return flatten(einsum(batch ? "bhgts,bshd->bthgd" : "hgts,shd->thgd", by, v), -3, -2);
  }

 private:
  // [queries, keys]
  static constexpr symbolic_shape square(value auto scores) {
    return detail::extents_of(scores.facts().shape.last(1), scores.facts().shape.last());
  }
  static constexpr auto query_of(value auto scores) { return detail::coordinates_of(scores, square(scores), 0); }

  static constexpr auto products(value auto q, value auto k, gqa_options options) {
    const symbolic_shape shape = q.facts().shape, keys = k.facts().shape;
    const double width = static_cast<double>(shape.last().coefficient);
    const double scale = options.scale != 0 ? static_cast<double>(options.scale) : 1 / detail::square_root(width);
    const bool batch = shape.rank == 4;
    // Each of k's heads (h) serves a group of queries (g).
    const auto all = shape.last(1) == keys.last(1) ? einsum(batch ? "bthd,bshd->bhts" : "thd,shd->hts", q, k)
                                                   : einsum(batch ? "bthgd,bshd->bhgts" : "thgd,shd->hgts",
                                                            reshape(q, detail::grouped(shape, keys)), k);
    const auto scaled = detail::widened(all) * scale;
    return options.softcap == 0 ? scaled : tanh(scaled * (1 / static_cast<double>(options.softcap))) * options.softcap;
  }

  // By the places of queries and keys on one line.
  static constexpr auto seen(value auto scores, value auto query, value auto key, bool batch, gqa_options options) {
    const auto near = options.alibi ? scores - cast<dtype::f32>(abs(query - key)) * slopes(scores, batch) : scores;
    const auto ahead = options.causal ? masked(near, less_equal(key, query)) : near;
    if (options.sliding_window == 0) return ahead;
    const auto behind = masked(ahead, less(query - key, options.sliding_window));
    return options.causal ? behind : masked(behind, less(key - query, options.sliding_window));
  }

  // Heads beyond the greatest power of 2 have those between the first ones', of twice as many.
  static constexpr auto slopes(value auto scores, bool batch) {
    const symbolic_shape heads = detail::heads_of(scores.facts().shape, batch);
    const std::int64_t count = heads.coefficient();
    std::int64_t even = 1;
    while (2 * even <= count) even *= 2;
    const double step = -8 * detail::log_of_2 / static_cast<double>(even);
    const auto head = detail::coordinates_of(scores, detail::extents_of(count), 0);
    const auto place = select(less(head, even), head * 2 + 2, (head - even) * 2 + 1);
    return reshape(exp(cast<dtype::f32>(place) * (step / 2)), detail::followed_by_ones(heads, heads.rank + 2));
  }
};

}  // namespace layers

namespace detail {

struct no_operand {};
constexpr no_operand operand_or_none() { return {}; }
template <value A>
constexpr A operand_or_none(A operand) {
  return operand;
}
// For a sentence that is only said where there is one.
template <value A, value B>
constexpr A shown_operand(A operand, const B&) {
  return operand;
}
template <value B>
constexpr B shown_operand(no_operand, B other) {
  return other;
}
constexpr bool fits_cache(no_operand, gqa_options) { return true; }
template <value P>
constexpr bool fits_cache(const P& position, gqa_options options) {
  return is_position(position.facts()) && options.causal;
}

// As one layer.
struct whole_attention {
  template <class Options, value Q, value K, value V, class Position>
  static constexpr auto of(Options options, Q q, K k, V v, Position position) {
    if constexpr (value<Position>) {
      return layer<layers::attend>(fixed_text<"">{}, q, k, v, position, options);
    } else {
      return layer<layers::attend>(fixed_text<"">{}, q, k, v, options);
    }
  }
};

template <class Form, class Options, value Q, value K, value V, class Position, class... More>
constexpr auto attended(Options options, Q q, K k, V v, Position position, More... more) {
  MEGANEURA_EXPECT(can_attend(q.facts().shape, k.facts().shape, v.facts().shape),
                   "meganeura: attend<options>(q, k, v): q, k, v must be [.., positions, heads, width] of known heads "
                   "and width, the heads of q a multiple of those of k and v",
                   q, k, v)
  MEGANEURA_EXPECT(is_sound(options),
                   "meganeura: attend<options>(q, k, v): softcap and sliding_window are at least 0, softcap and "
                   "scale finite",
                   q, k, v)
  MEGANEURA_EXPECT((value<Position> || !static_cast<gqa_options>(options).causal ||
                    has_key_for_each(q.facts().shape.last(2), k.facts().shape.last(2))),
                   "meganeura: attend<options>(q, k, v): causal needs a key for each query, behind those of a past", q,
                   k, v)
  MEGANEURA_EXPECT((floats_of_one_type(q.facts(), k.facts()) && floats_of_one_type(k.facts(), v.facts())),
                   "meganeura: attend<options>(q, k, v): q, k and v must be floats of one type; cast them", q, k, v)
  MEGANEURA_EXPECT(fits_cache(position, options),
                   "meganeura: attend<options>(q, k, v, position): position must be one i32, of shape [], and "
                   "attending from there is causal",
                   q, k, v, shown_operand(position, v))
  return Form::of(options, q, k, v, position, more...);
}

}  // namespace detail

/// softmax(q k^T scale) v for each head; queries share keys in groups when k has fewer heads. Causal: position t sees s
/// <= t, the last query being at the last key: with more keys than queries the first are a past, [past + n] for [n].
/// attend<options>(q, k, v, position): k and v are a cache, see update_rows; the first query stands at `position`
/// in it, an i32 number of run time, and sees nothing behind itself, at a place below 0 nothing at all. Masks,
/// lengths and sinks: nn/attention_operands.hpp. A query that sees nothing has zeros, and gradients of zeros.
/// shapes: q [b?, t, heads, width], k [b?, s, kv heads, width], v as k but for its width -> q's, of v's width.
/// dtypes: floats of one type, computed in f32. errors: "q, k, v must be [.., positions, heads, width]", "causal
/// needs a key for each query", "softcap and sliding_window are at least 0". cost: 4 t s heads width flops. source:
/// arXiv 1706.03762, arXiv 2305.13245.
template <value Q, value K, value V, class Options>
  requires std::is_convertible_v<Options, gqa_options>
[[nodiscard]] constexpr auto attend(Q q, K k, V v, Options options) {
  return detail::attended<detail::whole_attention>(options, q, k, v, detail::no_operand{});
}
template <value Q, value K, value V, value Position, class Options>
[[nodiscard]] constexpr auto attend(Q q, K k, V v, Position position, Options options) {
  return detail::attended<detail::whole_attention>(options, q, k, v, position);
}
template <gqa_options Options = gqa_options{}, value Q, value K, value V, value... Position>
[[nodiscard]] constexpr auto attend(Q q, K k, V v, Position... position) {
  return detail::attended<detail::whole_attention>(c<Options>, q, k, v, detail::operand_or_none(position...));
}

}  // namespace meganeura::inline MEGANEURA_ABI
