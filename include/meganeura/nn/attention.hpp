// SPDX-License-Identifier: MIT
// Rotary positions and scaled dot-product attention with grouped queries, from primitives.
#pragma once
#include <meganeura/nn/softmax.hpp>
#include <meganeura/ops/contract.hpp>
#include <meganeura/ops/narrow.hpp>
#include <meganeura/ops/state.hpp>

namespace meganeura::inline MEGANEURA_ABI {

struct rope_options {
  float theta = 1e4f;
  friend constexpr bool operator==(const rope_options&, const rope_options&) = default;
};

/// scale 0: 1 / sqrt(head width).
struct gqa_options {
  bool causal = false;
  float scale = 0;
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

// [.., positions, heads, width] -> [.., positions, heads, 2, width / 2]
constexpr symbolic_shape halves(const symbolic_shape& x) { return split_last(x, 2, x.last().coefficient / 2); }

// [.., positions, kv group, width] -> [.., positions, kv, group, width]
constexpr symbolic_shape grouped(const symbolic_shape& q, const symbolic_shape& k) {
  symbolic_shape result = q;
  const std::int64_t heads = k.last(1).coefficient;
  result[q.rank - 2] = heads;
  result[q.rank - 1] = q.last(1).coefficient / heads;
  result.push_back(q.last());
  return result;
}

constexpr bool can_rotate(const facts& x) {
  return x.shape.rank >= 3 && x.shape.rank < max_rank && x.shape.last().is_static() &&
         x.shape.last().coefficient % 2 == 0 && x.type == dtype::f32;
}

constexpr bool can_attend(const symbolic_shape& q, const symbolic_shape& k, const symbolic_shape& v) {
  if ((q.rank != 3 && q.rank != 4) || k.rank != q.rank || v != k) return false;
  if (!q.last().is_static() || !q.last(1).is_static() || !k.last(1).is_static()) return false;
  return q.last() == k.last() && (q.rank == 3 || q[0] == k[0]) && q.last(1).coefficient % k.last(1).coefficient == 0;
}

constexpr bool can_mask(const symbolic_shape& q, const symbolic_shape& k, const gqa_options& options) {
  return !options.causal || (k.last(2).sum() + q.last(2).with(-q.last(2).coefficient).sum()).least() >= 0;
}

}  // namespace detail

namespace layers {

struct rope {
  static constexpr auto forward(value auto x, rope_options options) { return turned(x, counted(x), options); }
  static constexpr auto forward(value auto x, value auto first, rope_options options) {
    return turned(x, counted(x) + first, options);
  }

 private:
  // [position, 1, 1, 1], to broadcast over heads and halves
  static constexpr auto counted(value auto x) {
    return detail::coordinates_of(x, detail::extents_of(x.facts().shape.last(2), 1, 1, 1), 0);
  }

  // angle = position theta^(-2 i / width) for pair i
  static constexpr auto turned(value auto x, value auto positions, rope_options options) {
    const symbolic_shape shape = x.facts().shape;
    const std::int64_t half = shape.last().coefficient / 2;
    const double rate = -2 * detail::natural_log(static_cast<double>(options.theta)) / static_cast<double>(2 * half);
    const auto pairs = reshape(x, detail::halves(shape));  // element i turns with element i + width / 2
    const auto position = cast<dtype::f32>(positions);
    const auto pair = cast<dtype::f32>(detail::coordinates_of(x, detail::extents_of(half), 0));
    const auto angle = position * exp(pair * rate);
    const auto kept = pairs * cos(angle);
    const auto partner = flip(pairs, -2);
    const auto sine = sin(angle);
    // -1 for the first half, 1 for the second
    const auto sign = cast<dtype::f32>(detail::coordinates_of(x, detail::extents_of(2, 1), 0)) * 2.0f - 1.0f;
    return reshape(kept + partner * (sine * sign), shape);
  }
};

struct attend {
  static constexpr auto forward(value auto q, value auto k, value auto v, gqa_options options) {
    return weighed(q, k, v, options,
                   [&](auto scores) { return options.causal ? masked(scores, causal(scores)) : scores; });
  }
  static constexpr auto forward(value auto q, value auto k, value auto v, value auto position, gqa_options options) {
    return weighed(q, k, v, options, [&](auto scores) {
      return masked(scores, less_equal(key_of(scores), query_of(scores) + position));
    });
  }

 private:
  // [queries, keys]
  static constexpr symbolic_shape square(value auto scores) {
    return detail::extents_of(scores.facts().shape.last(1), scores.facts().shape.last());
  }
  static constexpr auto query_of(value auto scores) { return detail::coordinates_of(scores, square(scores), 0); }
  static constexpr auto key_of(value auto scores) { return detail::coordinates_of(scores, square(scores), 1); }

  // The last query stands at the last key: behind a past both count from the end.
  static constexpr auto causal(value auto scores) {
    const auto query = query_of(scores), key = key_of(scores);
    return square(scores)[0] == square(scores)[1] ? less_equal(key, query) : less_equal(flip(query, 0), flip(key, 1));
  }

  static constexpr auto masked(value auto scores, value auto sees) {
    return select(sees, scores, -1.5e38f);  // not infinity: a row of nothing else would be inf - inf in softmax
  }

  static constexpr auto weighed(value auto q, value auto k, value auto v, gqa_options options, auto mask) {
    const symbolic_shape shape = q.facts().shape, keys = k.facts().shape;
    const double width = static_cast<double>(shape.last().coefficient);
    const double scale = options.scale != 0 ? static_cast<double>(options.scale) : 1 / detail::square_root(width);
    const auto weights = [&](auto scores) {
      return detail::narrowed(softmax::forward(mask(detail::widened(scores) * scale), -1), q);
    };
    const bool batch = shape.rank == 4;
    if (shape.last(1) == keys.last(1)) {
      const auto scores = einsum(batch ? "bthd,bshd->bhts" : "thd,shd->hts", q, k);
      return einsum(batch ? "bhts,bshd->bthd" : "hts,shd->thd", weights(scores), v);
    }
    // Each of k's heads (h) serves a group of queries (g).
    const auto groups = reshape(q, detail::grouped(shape, keys));
    const auto scores = einsum(batch ? "bthgd,bshd->bhgts" : "thgd,shd->hgts", groups, k);
    return reshape(einsum(batch ? "bhgts,bshd->bthgd" : "hgts,shd->thgd", weights(scores), v), shape);
  }
};

}  // namespace layers

namespace detail {

template <class Options, value A, value... Position>
constexpr auto rotated(Options options, A x, Position... position) {
  MEGANEURA_EXPECT(can_rotate(x.facts()),
                   "meganeura: rope<options>(x): x must be f32 [.., positions, heads, even width]", x)
  MEGANEURA_EXPECT((is_position(position.facts()) && ... && true),
                   "meganeura: rope<options>(x, position): position must be one i32, of shape []", x, position...)
  return layer<layers::rope>(fixed_text<"">{}, x, position..., options);
}

template <class Options, value Q, value K, value V, value... Position>
constexpr auto attended(Options options, Q q, K k, V v, Position... position) {
  MEGANEURA_EXPECT(can_attend(q.facts().shape, k.facts().shape, v.facts().shape),
                   "meganeura: attend<options>(q, k, v): q, k, v must be [.., positions, heads, width] of known heads "
                   "and width, the heads of q a multiple of those of k and v",
                   q, k, v)
  MEGANEURA_EXPECT((sizeof...(Position) > 0 || can_mask(q.facts().shape, k.facts().shape, options)),
                   "meganeura: attend<options>(q, k, v): causal needs a key for each query, behind those of a past", q,
                   k, v)
  MEGANEURA_EXPECT((floats_of_one_type(q.facts(), k.facts()) && floats_of_one_type(k.facts(), v.facts())),
                   "meganeura: attend<options>(q, k, v): q, k and v must be floats of one type; cast them", q, k, v)
  MEGANEURA_EXPECT(
      ((is_position(position.facts()) && static_cast<gqa_options>(options).causal) && ... && true),
      "meganeura: attend<options>(q, k, v, position): position must be one i32, of shape [], and attending "
      "from there is causal",
      q, k, v, position...)
  return layer<layers::attend>(fixed_text<"">{}, q, k, v, position..., options);
}

}  // namespace detail

/// Rotary position embedding: element i of a head and element i + width / 2 turn by position theta^(-2 i / width),
/// position counted along the third axis from the end ("rotate half", as Llama checkpoints have it), from 0 or, in
/// rope<options>(x, position), from an i32 number of run time.
/// shapes: [.., positions, heads, width], unchanged. dtypes: f32. source: RoFormer, arXiv 2104.09864, eq. 34.
/// errors: "x must be f32 [.., positions, heads, even width]", "position must be one i32".
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
/// in it, an i32 number of run time, and sees nothing behind itself.
/// shapes: q [b?, t, heads, width], k and v [b?, s, kv heads, width] -> q's. dtypes: floats of one type.
/// errors: "q, k, v must be [.., positions, heads, width]", "causal needs a key for each query".
/// cost: 4 t s heads width flops. source: arXiv 1706.03762, arXiv 2305.13245.
template <value Q, value K, value V, class Options>
  requires(!value<Options>)
[[nodiscard]] constexpr auto attend(Q q, K k, V v, Options options) { return detail::attended(options, q, k, v); }
template <value Q, value K, value V, value Position, class Options>
[[nodiscard]] constexpr auto attend(Q q, K k, V v, Position position, Options options) {
  return detail::attended(options, q, k, v, position);
}
template <gqa_options Options = gqa_options{}, value Q, value K, value V, value... Position>
[[nodiscard]] constexpr auto attend(Q q, K k, V v, Position... position) {
  return detail::attended(c<Options>, q, k, v, position...);
}

}  // namespace meganeura::inline MEGANEURA_ABI
