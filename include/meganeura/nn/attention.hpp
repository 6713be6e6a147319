// SPDX-License-Identifier: MIT
// Rotary positions and scaled dot-product attention with grouped queries, from primitives.
#pragma once
#include <meganeura/nn/softmax.hpp>
#include <meganeura/ops/contract.hpp>

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

constexpr bool can_attend(const symbolic_shape& q, const symbolic_shape& k, const symbolic_shape& v) {
  if ((q.rank != 3 && q.rank != 4) || k.rank != q.rank || v != k) return false;
  if (!q.last().is_static() || !q.last(1).is_static() || !k.last(1).is_static()) return false;
  return q.last() == k.last() && (q.rank == 3 || q[0] == k[0]) && q.last(1).coefficient % k.last(1).coefficient == 0;
}

}  // namespace detail

namespace modules {

template <rope_options Options>
struct rope {
  // angle = position theta^(-2 i / width) for pair i. [position, 1, 1, width / 2], broadcast over heads and halves.
  template <symbolic_shape X>
  static constexpr auto angles() {
    constexpr std::int64_t half = X.last().coefficient / 2;
    constexpr double rate =
        -2 * detail::natural_log(static_cast<double>(Options.theta)) / static_cast<double>(2 * half);
    auto position = cast<dtype::f32>(coordinates<dims<X.last(2), 1, 1, 1>, 0>);
    auto pair = cast<dtype::f32>(coordinates<dims<half>, 0>);
    return position * exp(pair * constant<rate>);
  }

  static constexpr auto forward(value auto x) {
    constexpr symbolic_shape shape = decltype(x)::shape;
    auto pairs = reshape<detail::halves(shape)>(x);  // element i turns with element i + width / 2
    auto angle = angles<shape>();
    // -1 for the first half, 1 for the second
    auto sign = cast<dtype::f32>(coordinates<dims<2, 1>, 0>) * constant<2.0f> - constant<1.0f>;
    auto turned = pairs * cos(angle) + flip<-2>(pairs) * (sin(angle) * sign);
    return reshape<shape>(turned);
  }
};

template <gqa_options Options>
struct attend {
  template <value Scores>
  static constexpr auto masked(Scores scores) {
    constexpr symbolic_shape shape = Scores::shape;
    if constexpr (Options.causal) {
      constexpr symbolic_shape square = dims<shape.last(1), shape.last()>;
      // Not infinity: a row of nothing else would be inf - inf in softmax.
      return select(less_equal(coordinates<square, 1>, coordinates<square, 0>), scores, constant<-1.5e38>);
    } else {
      return scores;
    }
  }

  static constexpr auto forward(value auto q, value auto k, value auto v) {
    constexpr symbolic_shape shape = decltype(q)::shape;
    constexpr bool batch = shape.rank == 4;
    constexpr double scale = Options.scale != 0
                                 ? static_cast<double>(Options.scale)
                                 : 1 / detail::square_root(static_cast<double>(shape.last().coefficient));
    if constexpr (shape.last(1) == decltype(k)::shape.last(1)) {
      auto scores = batched<batch, "bthd,bshd->bhts", "thd,shd->hts">(q, k);
      auto weights =
          cast<decltype(q)::element_type>(meganeura::softmax<-1>(masked(detail::widened(scores) * constant<scale>)));
      return batched<batch, "bhts,bshd->bthd", "hts,shd->thd">(weights, v);
    } else {  // each of k's heads (h) serves a group of queries (g)
      auto groups = reshape<detail::grouped(shape, decltype(k)::shape)>(q);
      auto scores = batched<batch, "bthgd,bshd->bhgts", "thgd,shd->hgts">(groups, k);
      auto weights =
          cast<decltype(q)::element_type>(meganeura::softmax<-1>(masked(detail::widened(scores) * constant<scale>)));
      return reshape<shape>(batched<batch, "bhgts,bshd->bthgd", "hgts,shd->thgd">(weights, v));
    }
  }

 private:
  template <bool Batch, fixed_string WithBatch, fixed_string Without>
  static constexpr auto batched(value auto a, value auto b) {
    if constexpr (Batch) {
      return einsum<WithBatch>(a, b);
    } else {
      return einsum<Without>(a, b);
    }
  }
};

}  // namespace modules

/// Rotary position embedding: element i of a head and element i + width / 2 turn by position theta^(-2 i / width),
/// position counted along the third axis from the end ("rotate half", as Llama checkpoints have it).
/// shapes: [.., positions, heads, width], unchanged. dtypes: f32. source: RoFormer, arXiv 2104.09864, eq. 34.
/// errors: "x must be f32 [.., positions, heads, even width]".
template <rope_options Options = rope_options{}, auto A>
[[nodiscard]] constexpr auto rope(expr<A> x) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  constexpr bool fits =
      shape.rank >= 3 && shape.last().is_static() && shape.last().coefficient % 2 == 0 && A.root().type == dtype::f32;
  static_assert(fits, "meganeura: rope<options>(x): x must be f32 [.., positions, heads, even width]");
  if constexpr (fits) {
    return call<"", modules::rope<Options>>(x);
  } else {
    return x;
  }
}

/// softmax(q k^T scale) v for each head; queries share keys in groups when k has fewer heads. Causal: position t sees s
/// <= t.
/// shapes: q [b?, t, heads, width], k and v [b?, s, kv heads, width] -> q's. dtypes: floats of one type.
/// errors: "q, k, v must be [.., positions, heads, width]", "causal needs as many keys as queries".
/// cost: 4 t s heads width flops. source: arXiv 1706.03762, arXiv 2305.13245.
template <gqa_options Options = gqa_options{}, auto Q, auto K, auto V>
[[nodiscard]] constexpr auto attend(expr<Q> q, expr<K> k, expr<V> v) {
  constexpr const symbolic_shape &queries = *Q.root().shape, &keys = *K.root().shape;
  constexpr bool fits = detail::can_attend(queries, keys, *V.root().shape);
  static_assert(fits,
                "meganeura: attend<options>(q, k, v): q, k, v must be [.., positions, heads, width] of known heads and "
                "width, the heads of q a multiple of those of k and v");
  constexpr bool square = !fits || !Options.causal || queries.last(2) == keys.last(2);
  static_assert(square, "meganeura: attend<options>(q, k, v): causal needs as many keys as queries");
  if constexpr (fits && square) {
    return call<"", modules::attend<Options>>(q, k, v);
  } else {
    return q;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
