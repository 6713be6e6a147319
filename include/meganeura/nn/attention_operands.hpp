// SPDX-License-Identifier: MIT
// What attend takes besides queries, keys and values, each by its name: masks, lengths, sinks.
#pragma once
#include <meganeura/nn/attention.hpp>
#include <meganeura/nn/operands.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
template <class T>
concept optional_value = value<T> || std::is_same_v<T, no_operand>;
}  // namespace detail

/// Which keys a query sees: a condition, or integers that are not 0 where it does, or floats that are added to scores,
/// as torch.nn.functional.scaled_dot_product_attention's. shapes: one that broadcasts to [b?, heads, t, s]: [t, s], of
/// each head [heads, t, s], of each sequence [b, 1, t, s]. The option checks::finite refuses a bound mask of -infinity:
/// give integers then.
template <detail::optional_value M>
struct attn_mask {
  using operand_tag = void;
  M operand;
  constexpr explicit attn_mask(M mask) : operand(mask) {}
};

/// How many keys of each sequence there are; those behind are padding. shapes: [b], or [] without a batch; i32. A
/// causal query still stands at its place among all keys. More keys than there are is all of them, fewer than 0 none;
/// the option `checks` names both.
template <detail::optional_value L>
struct key_lengths {
  using operand_tag = void;
  L operand;
  constexpr explicit key_lengths(L lengths) : operand(lengths) {}
};

/// A score for each head that takes part in the softmax and is of no key: weights then add up to less than 1.
/// shapes: [heads], floats. source: arXiv 2309.17453, as GPT-OSS has it.
template <value S>
struct attention_sinks {
  using operand_tag = void;
  S operand;
  constexpr explicit attention_sinks(S sinks) : operand(sinks) {}
};

namespace detail {

template <template <class> class Name, class T>
inline constexpr bool is_operand = false;
template <template <class> class Name, class T>
inline constexpr bool is_operand<Name, Name<T>> = true;
template <class T>
inline constexpr bool is_attention_operand =
    is_operand<attn_mask, T> || is_operand<key_lengths, T> || is_operand<attention_sinks, T>;

template <template <class> class Name, class First, class... More>
constexpr auto operand_of(const First& first, const More&... more) {
  if constexpr (is_operand<Name, First>) {
    return first.operand;
  } else if constexpr (sizeof...(More) == 0) {
    return no_operand{};
  } else {
    return operand_of<Name>(more...);
  }
}
template <class First, class... More>
constexpr auto position_of(const First& first, const More&... more) {
  if constexpr (value<First>) {
    return first;
  } else if constexpr (sizeof...(More) == 0) {
    return no_operand{};
  } else {
    return position_of(more...);
  }
}
template <class First, class... More>
constexpr auto options_of(const First& first, const More&... more) {
  if constexpr (std::is_convertible_v<First, gqa_options>) {
    return first;
  } else if constexpr (sizeof...(More) == 0) {
    return fixed<gqa_options{}>{};
  } else {
    return options_of(more...);
  }
}

// [b?, heads, t, s]
constexpr symbolic_shape scores_shape(const symbolic_shape& q, const symbolic_shape& k) {
  symbolic_shape result;
  if (q.rank == 4) result.push_back(q[0]);
  for (const dim& each : {q.last(1), q.last(2), k.last(2)}) result.push_back(each);
  return result;
}
constexpr bool fits_scores(no_operand, const facts&, const facts&) { return true; }
template <value M>
constexpr bool fits_scores(const M& mask, const facts& q, const facts& k) {
  return can_expand(mask.facts().shape, scores_shape(q.shape, k.shape));
}
// Of rows of `rank` axes behind those of the batch.
constexpr bool fits_batch(no_operand, const facts&, int) { return true; }
template <value L>
constexpr bool fits_batch(const L& lengths, const facts& rows, int rank) {
  const symbolic_shape& shape = lengths.facts().shape;
  return lengths.facts().type == dtype::i32 && shape.rank == rows.shape.rank - rank &&
         (shape.rank == 0 || shape[0] == rows.shape[0]);
}
constexpr bool fits_heads(no_operand, const facts&) { return true; }
template <value S>
constexpr bool fits_heads(const S& sinks, const facts& q) {
  return is_float(sinks.facts().type) && sinks.facts().shape == extents_of(q.shape.last(1));
}
}  // namespace detail

namespace layers {

struct attention_scores {
  static constexpr auto forward(value auto q, value auto k, gqa_options options) {
    return attend::scores(q, k, options);
  }
  static constexpr auto forward(value auto q, value auto k, value auto position, gqa_options options) {
    return attend::scores(q, k, position, options);
  }
};

struct attention_masked {
  static constexpr auto forward(value auto scores, value auto mask, bool batch) {
    const symbolic_shape shape = by_groups(mask.facts().shape, scores.facts().shape, batch);
    if (is_float(mask.facts().type)) return scores + reshape(detail::widened(mask), shape);
    return select(equal(reshape(mask, shape), 0), detail::hidden_score, scores);
  }

 private:
  static constexpr symbolic_shape by_groups(const symbolic_shape& mask, const symbolic_shape& scores, bool batch) {
    symbolic_shape result;
    const int kv = batch ? 1 : 0;  // of scores [b?, kv heads, group, t, s], or there are no groups
    if (scores.rank == kv + 3 || mask.rank < 3) return mask;
    for (int i = 0; i < mask.rank; ++i) {
      const bool heads = i == mask.rank - 3;
      if (heads) result.push_back(mask[i] == dim(1) ? dim(1) : scores[kv]);
      result.push_back(heads && mask[i] != dim(1) ? scores[kv + 1] : mask[i]);
    }
    return result;
  }
};

struct attention_limited {
  static constexpr auto forward(value auto scores, value auto given) {
    return attend::masked(scores, sees(attend::key_of(scores), given, scores.facts().shape.rank));
  }
  // Of keys by their places, [.., s], among scores of `rank` axes.
  static constexpr auto sees(value auto key, value auto given, int rank) {
    const decltype(key) operands[]{given, key};
    const auto lengths = key.added(detail::describe_indices(given.facts(), index_use::key_length, 0), operands, 2);
    const symbolic_shape whole = given.facts().shape,
                         each = whole.rank == 0 ? whole : detail::followed_by_ones(whole, rank);
    return less(key, reshape(lengths, each));
  }
};

struct attention_weights {
  static constexpr auto forward(value auto scores) { return attend::weights_or_zeros(scores); }
  static constexpr auto forward(value auto scores, value auto sinks, bool batch) {
    const symbolic_shape heads = detail::heads_of(scores.facts().shape, batch);
    const auto by_heads = reshape(detail::widened(sinks), detail::followed_by_ones(heads, heads.rank + 1));
    const auto sink = maximum(by_heads, detail::hidden_score);
    const auto bounded = maximum(scores, detail::hidden_score);
    const auto largest = stop_gradient(maximum(max(bounded, -1), sink));
    const auto e = exp(bounded - unsqueeze(largest, -1));  // of what is not seen 0, or it counts for nothing
    const auto seen = select(less(bounded, detail::least_seen_score), 0.0f, e);
    return seen / unsqueeze(sum(e, -1) + exp(sink - largest), -1);
  }
};

struct attention_mixed {
  static constexpr auto forward(value auto weights, value auto v) { return attend::mixed(weights, v, v.facts().type); }
};

}  // namespace layers

namespace detail {

template <value Q>
constexpr auto has_batch(const Q& q) {
  if constexpr (is_expr<Q>) {
    return c<Q::facts().shape.rank == 4>;
  } else {
    return q.facts().shape.rank == 4;
  }
}

// The steps of attend, each a layer, with what there is.
template <value Q, value K, class Position, class Options>
constexpr auto scored(Q q, K k, Position position, Options options) {
  if constexpr (value<Position>) {
    return layer<layers::attention_scores>(fixed_text<"">{}, q, k, position, options);
  } else {
    return layer<layers::attention_scores>(fixed_text<"">{}, q, k, options);
  }
}
template <value S, class Mask, class Batch>
constexpr auto scored_by(S scores, Mask mask, Batch batch) {
  if constexpr (value<Mask>) {
    return layer<layers::attention_masked>(fixed_text<"">{}, scores, stored(mask), batch);
  } else {
    return scores;
  }
}
template <value S, class Lengths>
constexpr auto scored_within(S scores, Lengths lengths) {
  if constexpr (value<Lengths>) {
    return layer<layers::attention_limited>(fixed_text<"">{}, scores, lengths);
  } else {
    return scores;
  }
}
template <value S, class Sinks, class Batch>
constexpr auto weighed(S scores, Sinks sinks, Batch batch) {
  if constexpr (value<Sinks>) {
    return layer<layers::attention_weights>(fixed_text<"">{}, scores, sinks, batch);
  } else {
    return layer<layers::attention_weights>(fixed_text<"">{}, scores);
  }
}

struct attention_in_steps {
  template <class Options, value Q, value K, value V, class Position, class Mask, class Lengths, class Sinks>
  static constexpr auto of(Options options, Q q, K k, V v, Position position, Mask mask, Lengths lengths, Sinks sinks) {
    MEGANEURA_EXPECT(fits_scores(mask, q.facts(), k.facts()),
                     "meganeura: attend<options>(q, k, v, attn_mask(m)): m must broadcast to [b?, heads, t, s]", q, k,
                     shown_operand(mask, k))
    MEGANEURA_EXPECT(fits_batch(lengths, q.facts(), 3),
                     "meganeura: attend<options>(q, k, v, key_lengths(n)): n must be i32, one for each sequence", q, k,
                     shown_operand(lengths, k))
    MEGANEURA_EXPECT(fits_heads(sinks, q.facts()),
                     "meganeura: attend<options>(q, k, v, attention_sinks(s)): s must be floats, one for each head of "
                     "q",
                     q, k, shown_operand(sinks, k))
    return layer<layers::attention_mixed>(
        fixed_text<"">{},
        weighed(scored_within(scored_by(scored(q, k, position, options), mask, has_batch(q)), lengths), sinks,
                has_batch(q)),
        v);
  }
};

}  // namespace detail

/// attend with operands by name, in any order, before a position and options if there are any:
/// attend<options>(q, k, v, attn_mask(m), key_lengths(n)), or attend(q, k, v, attn_mask(m), options) at run time.
/// A query that sees nothing has zeros, and gradients of zeros.
/// errors: attend's; "m must broadcast to [b?, heads, t, s]", "n must be i32, one for each sequence", "s must be
/// floats, one for each head of q".
template <value Q, value K, value V, class... More>
  requires(detail::is_attention_operand<More> || ...)
[[nodiscard]] constexpr auto attend(Q q, K k, V v, More... more) {
  static_assert((detail::is_operand<attn_mask, More> + ... + 0) <= 1 &&
                    (detail::is_operand<key_lengths, More> + ... + 0) <= 1 &&
                    (detail::is_operand<attention_sinks, More> + ... + 0) <= 1 &&
                    ((!detail::named_operand<More> || detail::is_attention_operand<More>)&&...),
                "meganeura: attend<options>(q, k, v, operands...): operands are attn_mask, key_lengths and "
                "attention_sinks, each at most once");
  return detail::attended<detail::attention_in_steps>(
      detail::options_of(more...), q, k, v, detail::position_of(more...), detail::operand_of<attn_mask>(more...),
      detail::operand_of<key_lengths>(more...), detail::operand_of<attention_sinks>(more...));
}
template <gqa_options Options, value Q, value K, value V, class... More>
  requires(detail::is_attention_operand<More> || ...)
[[nodiscard]] constexpr auto attend(Q q, K k, V v, More... more) { return attend(q, k, v, more..., c<Options>); }

}  // namespace meganeura::inline MEGANEURA_ABI
