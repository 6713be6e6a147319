// SPDX-License-Identifier: MIT
// Rotary positions and scaled dot-product attention with grouped queries, from primitives.
#pragma once
#include <meganeura/nn/softmax.hpp>
#include <meganeura/ops/contract.hpp>
#include <meganeura/ops/einsum.hpp>
#include <meganeura/ops/narrow.hpp>
#include <meganeura/ops/state.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// How angles are made smaller for texts longer than those of the training, under the names that configurations of
/// checkpoints have ("rope_scaling"). linear: all by the factor. ntk: by a greater theta. yarn (arXiv 2309.00071) and
/// llama3: slow pairs by the factor, fast ones not.
enum class rope_type : std::uint8_t { none, linear, ntk, yarn, llama3 };

/// interleaved: elements 2 i and 2 i + 1 turn together, not i and i + width / 2. width: of the part that turns, the
/// first elements; 0: all. The rest is the scaling's; attention_factor of yarn 0: 0.1 log(factor) + 1.
struct rope_options {
  float theta = 1e4f;
  bool interleaved = false;
  int width = 0;
  rope_type type = rope_type::none;
  float factor = 1, original_max_position_embeddings = 8192;
  float low_freq_factor = 1, high_freq_factor = 4;            // of llama3
  float beta_fast = 32, beta_slow = 1, attention_factor = 0;  // of yarn
  friend constexpr bool operator==(const rope_options&, const rope_options&) = default;
};

/// scale 0: 1 / sqrt(head width). softcap: scores become softcap tanh(score / softcap), before anything is masked or
/// added; 0: none. window: a query sees keys less than that many places away; 0: all. alibi: a score loses its distance
/// times 2^(-8 i / heads) for head i from 1 on.
struct gqa_options {
  bool causal = false;
  float scale = 0;
  float softcap = 0;
  int window = 0;
  bool alibi = false;
  friend constexpr bool operator==(const gqa_options&, const gqa_options&) = default;
};

namespace detail {

// <cmath> is not constexpr in Clang 14. log(x) = log(m) + k log(2), 1 <= m < 2, by the series of atanh.
constexpr double natural_log(double x) {
  constexpr double log_of_2 = 0.69314718055994530942;
  double exponent = 0;
  for (; x >= 2; x /= 2) exponent += log_of_2;
  for (; x < 1; x *= 2) exponent -= log_of_2;
  const double t = (x - 1) / (x + 1);
  double sum = 0, power = t;
  for (int i = 1; i < 60; i += 2, power *= t * t) sum += power / i;
  return exponent + 2 * sum;
}

constexpr double square_root(double x) {
  double root = x > 1 ? x : 1;
  for (int i = 0; i < 64; ++i) root = (root + x / root) / 2;  // Newton, from above
  return root;
}

// [.., positions, kv group, width] -> [.., positions, kv, group, width]
constexpr symbolic_shape grouped(const symbolic_shape& q, const symbolic_shape& k) {
  symbolic_shape result = q;
  const std::int64_t heads = k.last(1).coefficient;
  result[q.rank - 2] = heads;
  result[q.rank - 1] = q.last(1).coefficient / heads;
  result.push_back(q.last());
  return result;
}

// Neighbouring floats lie further apart than positions from there on.
inline constexpr std::int64_t max_rope_position = std::int64_t{1} << 24;

constexpr bool can_rotate(const facts& x, rope_options options) {
  if (x.shape.rank < 3 || x.shape.rank >= max_rank || !x.shape.last().is_static() || !is_float(x.type)) return false;
  const std::int64_t width = options.width == 0 ? x.shape.last().coefficient : options.width;
  return width >= 2 && width % 2 == 0 && width <= x.shape.last().coefficient &&
         (!x.shape.last(2).is_static() || x.shape.last(2).coefficient <= max_rope_position);
}
constexpr bool is_scaling(rope_options options) {
  return options.theta > 1 && options.factor >= 1 && options.original_max_position_embeddings > 0 &&
         options.low_freq_factor < options.high_freq_factor && options.beta_slow > 0 &&
         options.beta_slow < options.beta_fast;
}

constexpr bool can_attend(const symbolic_shape& q, const symbolic_shape& k, const symbolic_shape& v) {
  if ((q.rank != 3 && q.rank != 4) || k.rank != q.rank || v != with_extent(k, k.rank - 1, v.last())) return false;
  if (!q.last().is_static() || !q.last(1).is_static() || !k.last(1).is_static()) return false;
  return q.last() == k.last() && (q.rank == 3 || q[0] == k[0]) && q.last(1).coefficient % k.last(1).coefficient == 0;
}

constexpr bool can_mask(const symbolic_shape& q, const symbolic_shape& k, const gqa_options& options) {
  return !options.causal || (k.last(2).sum() + q.last(2).with(-q.last(2).coefficient).sum()).least() >= 0;
}

}  // namespace detail

namespace layers {

struct rope {
  static constexpr auto forward(value auto x, rope_options options) { return placed(x, as_float(counted(x)), options); }
  static constexpr auto forward(value auto x, value auto first, rope_options options) {
    return placed(x, known(counted(x) + first), options);
  }

 private:
  // [position, 1, 1, 1], to broadcast over heads and pairs
  static constexpr auto counted(value auto x) {
    return detail::coordinates_of(x, detail::extents_of(x.facts().shape.last(2), 1, 1, 1), 0);
  }
  static constexpr auto as_float(value auto place) { return cast<dtype::f32>(place); }
  // Infinite, of which sine and cosine are NaN, where it is beyond what f32 counts.
  static constexpr auto known(value auto place) {
    constexpr std::int64_t most = detail::max_rope_position;
    return select(logical_and(less_equal(place, most), less_equal(-most, place)), as_float(place),
                  static_cast<double>(__builtin_inff()));
  }

  static constexpr auto placed(value auto x, value auto position, rope_options options) {
    const std::int64_t all = x.facts().shape.last().coefficient, width = options.width == 0 ? all : options.width;
    if (width == all) return turned(x, position, options);
    return concat(-1, turned(slice(x, -1, 0, width), position, options), slice(x, -1, width, all - width));
  }

  static constexpr auto turned(value auto x, value auto position, rope_options options) {
    const symbolic_shape shape = x.facts().shape;
    const std::int64_t half = shape.last().coefficient / 2;
    const int axis = options.interleaved ? -1 : -2;  // of the two elements of a pair
    const auto pairs = reshape(detail::widened(x), options.interleaved ? detail::split_last(shape, half, 2)
                                                                       : detail::split_last(shape, 2, half));
    const auto pair = cast<dtype::f32>(
        detail::coordinates_of(x, options.interleaved ? detail::extents_of(half, 1) : detail::extents_of(half), 0));
    const auto angle = position * speed(pair, static_cast<double>(2 * half), options);
    const double longer = length(options);
    const auto kept = pairs * scaled(cos(angle), longer);
    const auto partner = flip(pairs, axis);
    const auto sine = scaled(sin(angle), longer);
    // -1 for the first of a pair, 1 for the second
    const auto side = options.interleaved ? detail::extents_of(2) : detail::extents_of(2, 1);
    const auto sign = cast<dtype::f32>(detail::coordinates_of(x, side, 0)) * 2.0f - 1.0f;
    return detail::narrowed(reshape(kept + partner * (sine * sign), shape), x);
  }
  static constexpr auto scaled(value auto x, double by) { return by == 1 ? x : x * by; }
  static constexpr double length(rope_options options) {
    if (options.type != rope_type::yarn) return 1;
    return options.attention_factor != 0 ? static_cast<double>(options.attention_factor)
                                         : 0.1 * detail::natural_log(static_cast<double>(options.factor)) + 1;
  }

  // theta^(-2 i / width) for pair i, scaled.
  static constexpr auto speed(value auto pair, double width, rope_options options) {
    constexpr double turn = 6.283185307179586;
    const double factor = static_cast<double>(options.factor),
                 original = static_cast<double>(options.original_max_position_embeddings);
    double log_theta = detail::natural_log(static_cast<double>(options.theta));
    if (options.type == rope_type::ntk) log_theta += detail::natural_log(factor) * width / (width - 2);
    const auto plain = exp(pair * (-2 * log_theta / width));
    const auto mixed = [&](auto share) {  // of the plain speed
      return plain * (minimum(maximum(share, 0.0), 1.0) * (1 - 1 / factor) + 1 / factor);
    };
    if (options.type == rope_type::linear) return plain * (1 / factor);
    if (options.type == rope_type::llama3) {
      const double low = static_cast<double>(options.low_freq_factor);
      return mixed((plain * (original / turn) - low) * (1 / (static_cast<double>(options.high_freq_factor) - low)));
    }
    if (options.type == rope_type::yarn) {
      const auto place = [&](float turns) {
        return width * detail::natural_log(original / (static_cast<double>(turns) * turn)) / (2 * log_theta);
      };
      const auto within = [&](double at) { return at < 0 ? 0 : at > width - 1 ? width - 1 : at; };
      const double first = within(static_cast<double>(static_cast<std::int64_t>(within(place(options.beta_fast))))),
                   exact = within(place(options.beta_slow)),
                   whole = static_cast<double>(static_cast<std::int64_t>(exact)),
                   last = within(whole < exact ? whole + 1 : whole), end = last > first ? last : first + 0.001;
      return mixed((pair - end) * (-1 / (end - first)));
    }
    return plain;
  }
};

/// In steps: scores of f32 [b?, heads, t, s] or, where queries share keys, [b?, kv heads, group, t, s], their softmax,
/// and what it weighs.
struct attend {
  static constexpr auto forward(value auto q, value auto k, value auto v, gqa_options options) {
    return mixed(weights(scores(q, k, options), options), v, q.facts().type);
  }
  static constexpr auto forward(value auto q, value auto k, value auto v, value auto position, gqa_options options) {
    return mixed(weights(scores(q, k, position, options), options), v, q.facts().type);
  }

  // The last query stands at the last key: behind a past both count from the end.
  static constexpr auto scores(value auto q, value auto k, gqa_options options) {
    const auto all = products(q, k, options);
    if (!options.causal && !options.alibi && options.window == 0) return all;
    const auto query = query_of(all), key = key_of(all);
    const bool batch = q.facts().shape.rank == 4;
    return square(all)[0] == square(all)[1] ? seen(all, query, key, batch, options)
                                            : seen(all, flip(key, 1), flip(query, 0), batch, options);
  }
  static constexpr auto scores(value auto q, value auto k, value auto position, gqa_options options) {
    const auto all = products(q, k, options);
    return seen(all, query_of(all) + position, key_of(all), q.facts().shape.rank == 4, options);
  }

  static constexpr auto masked(value auto scores, value auto sees) {
    return select(sees, scores, -1.5e38f);  // not infinity: a row of nothing else would be inf - inf in softmax
  }
  static constexpr auto key_of(value auto scores) { return detail::coordinates_of(scores, square(scores), 1); }

  // Within a window there may be no key.
  static constexpr auto weights(value auto scores, gqa_options options) {
    return options.window > 0 ? weights_or_zeros(scores) : softmax::forward(scores, -1);
  }
  static constexpr auto weights_or_zeros(value auto scores) {
    const auto bounded = maximum(scores, -1.5e38f);
    return select(less(bounded, -1e38f), 0.0f, softmax::forward(bounded, -1));
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
    if (options.window == 0) return ahead;
    const auto behind = masked(ahead, less(query - key, options.window));
    return options.causal ? behind : masked(behind, less(key - query, options.window));
  }

  // Heads beyond the greatest power of 2 have those between the first ones', of twice as many.
  static constexpr auto slopes(value auto scores, bool batch) {
    symbolic_shape shape = scores.facts().shape;
    symbolic_shape heads;
    std::int64_t count = 1, even = 1;
    for (int i = batch ? 1 : 0; i < shape.rank; ++i) {
      heads.push_back(i < shape.rank - 2 ? shape[i] : dim(1));
      count *= heads.last().coefficient;
    }
    while (2 * even <= count) even *= 2;
    const double step = -8 * 0.69314718055994530942 / static_cast<double>(even);
    const auto head = detail::coordinates_of(scores, detail::extents_of(count), 0);
    const auto place = select(less(head, even), head * 2 + 2, (head - even) * 2 + 1);
    return reshape(exp(cast<dtype::f32>(place) * (step / 2)), heads);
  }
};

}  // namespace layers

namespace detail {

template <class Options, value A, value... Position>
constexpr auto rotated(Options options, A x, Position... position) {
  MEGANEURA_EXPECT(can_rotate(x.facts(), options),
                   "meganeura: rope<options>(x): x must be floats [.., positions, heads, width], of at most 2^24 "
                   "positions, the width that turns even",
                   x)
  MEGANEURA_EXPECT(
      is_scaling(options),
      "meganeura: rope<options>(x): theta is above 1, factor at least 1, and low_freq_factor and beta_slow "
      "are below high_freq_factor and beta_fast",
      x)
  MEGANEURA_EXPECT((is_position(position.facts()) && ... && true),
                   "meganeura: rope<options>(x, position): position must be one i32, of shape []", x, position...)
  return layer<layers::rope>(fixed_text<"">{}, x, position..., options);
}

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
  MEGANEURA_EXPECT((value<Position> || can_mask(q.facts().shape, k.facts().shape, options)),
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

/// Rotary position embedding: element i of a head and element i + width / 2 turn by position theta^(-2 i / width),
/// position counted along the third axis from the end ("rotate half", as Llama checkpoints have it), from 0 or, in
/// rope<options>(x, position), from an i32 number of run time: rows of positions beyond 2^24, which f32 does not count
/// one by one, are NaN then. Counted from 0 there are at most 2^24.
/// shapes: [.., positions, heads, width], unchanged. dtypes: floats, computed in f32. source: RoFormer, arXiv
/// 2104.09864, eq. 34. errors: "x must be floats [.., positions, heads, width]", "position must be one i32".
template <value A, class Options>
  requires(!value<Options>)
[[nodiscard]] constexpr auto rope(A x, Options options) { return detail::rotated(options, x); }
template <value A, value Position, class Options>
[[nodiscard]] constexpr auto rope(A x, Position position, Options options) {
  return detail::rotated(options, x, position);
}
template <rope_options Options = rope_options{}, value A, value... Position>
[[nodiscard]] constexpr auto rope(A x, Position... position) {
  return detail::rotated(c<Options>, x, position...);
}

/// softmax(q k^T scale) v for each head; queries share keys in groups when k has fewer heads. Causal: position t sees s
/// <= t, the last query being at the last key: with more keys than queries the first are a past, [past + n] for [n].
/// attend<options>(q, k, v, position): k and v are a cache, see update_rows; the first query stands at `position`
/// in it, an i32 number of run time from 0 on, and sees nothing behind itself. Masks, lengths and sinks:
/// nn/attention_operands.hpp. A query that sees nothing has zeros, and gradients of zeros. shapes: q [b?, t, heads,
/// width], k [b?, s, kv heads, width], v as k but for its width -> q's, of v's width. dtypes: floats of one type,
/// computed in f32. errors: "q, k, v must be [.., positions, heads, width]", "causal needs a key for each query". cost:
/// 4 t s heads width flops. source: arXiv 1706.03762, arXiv 2305.13245.
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
