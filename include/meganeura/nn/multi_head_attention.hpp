// SPDX-License-Identifier: MIT
// Attention with its projections, and the transformer's layers around it, under PyTorch's names.
#pragma once
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/attention_operands.hpp>
#include <meganeura/nn/dropout.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// causal: a query sees keys up to its own place, the last of both being one. bias: of all four projections. dropout:
/// the share of weights of attention that are left out in training, from 0 to 1.
struct multi_head_options {
  bool causal = false, bias = true;
  float dropout = 0;
  friend constexpr bool operator==(const multi_head_options&, const multi_head_options&) = default;
};

/// torch.nn.TransformerEncoderLayer's d_model, nhead, dim_feedforward and dropout, in training, of attention, of hidden
/// units and of what both add. gelu: instead of relu. norm_first: layer_norm before each part, not behind its sum.
/// causal: of attention to oneself. epsilon: of layer_norm.
struct transformer_options {
  int width, heads, hidden = 2048;
  float dropout = 0.1f;
  bool gelu = false, norm_first = false, causal = false;
  float epsilon = 1e-5f;
  friend constexpr bool operator==(const transformer_options&, const transformer_options&) = default;
};

/// Which places of an encoder's result a transformer_decoder_layer sees: as attn_mask and key_lengths of its own.
template <value M>
struct memory_mask {
  using operand_tag = void;
  M operand;
  constexpr explicit memory_mask(M mask) : operand(mask) {}
};
template <value L>
struct memory_lengths {
  using operand_tag = void;
  L operand;
  constexpr explicit memory_lengths(L lengths) : operand(lengths) {}
};

namespace detail {
constexpr bool can_attend_by_heads(const facts& q, const facts& k, const facts& v, std::int64_t heads,
                                   multi_head_options options) {
  return (q.shape.rank == 2 || q.shape.rank == 3) && has_last_extent(q.shape) && heads >= 1 &&
         q.shape.last().coefficient % heads == 0 && k.shape.rank == q.shape.rank && k.shape == v.shape &&
         k.shape.last() == q.shape.last() && (q.shape.rank == 2 || q.shape[0] == k.shape[0]) && is_float(q.type) &&
         k.type == q.type && v.type == q.type && is_probability(options.dropout) &&
         (!options.causal || has_key_for_each(q.shape.last(1), k.shape.last(1)));
}
constexpr bool fits_scores_of_heads(no_operand, const symbolic_shape&, const symbolic_shape&, std::int64_t) {
  return true;
}
template <value M>
constexpr bool fits_scores_of_heads(const M& mask, const symbolic_shape& q, const symbolic_shape& k,
                                    std::int64_t heads) {
  symbolic_shape scores;
  if (q.rank == 3) scores.push_back(q[0]);
  for (const dim& each : {dim(heads), q.last(1), k.last(1)}) scores.push_back(each);
  return can_expand(mask.facts().shape, scores);
}
}  // namespace detail

namespace layers {

/// A mask of the keys [b?, s, width] within their lengths, or with what a mask says of these.
struct mask_within {
  static constexpr auto forward(value auto lengths, value auto key) {
    return select(sees(lengths, key), constant<1, dtype::i32>, constant<0, dtype::i32>);
  }
  static constexpr auto forward(value auto lengths, value auto key, value auto mask) {
    return select(sees(lengths, key), mask, is_float(mask.facts().type) ? -__builtin_inf() : 0.0);
  }

 private:
  static constexpr auto sees(value auto lengths, value auto key) {
    const auto places = detail::coordinates_of(key, detail::extents_of(key.facts().shape.last(1)), 0);
    return attention_limited::sees(places, lengths, 4);
  }
};

/// Parameters "in_proj_weight" [3 width, width] and "in_proj_bias" of queries, keys and values, "out_proj.weight"
/// [width, width] and "out_proj.bias".
struct multi_head_attention {
  static constexpr auto forward(value auto x, std::int64_t heads, multi_head_options options) {
    return to_itself(heads, options, x);
  }
  static constexpr auto forward(value auto x, value auto mask, std::int64_t heads, multi_head_options options) {
    return to_itself(heads, options, x, mask);
  }
  static constexpr auto forward(value auto query, value auto key, value auto values, std::int64_t heads,
                                multi_head_options options) {
    return to_another(heads, options, query, key, values);
  }
  static constexpr auto forward(value auto query, value auto key, value auto values, value auto mask,
                                std::int64_t heads, multi_head_options options) {
    return to_another(heads, options, query, key, values, mask);
  }

 private:
  static constexpr auto to_itself(std::int64_t heads, multi_head_options options, value auto x, value auto... mask) {
    const std::int64_t width = x.facts().shape.last().coefficient;
    const auto all = projected(x, 0, 3 * width, options);
    const auto part = [&](std::int64_t index) { return slice(all, -1, index * width, width); };
    return mixed(heads, options, part(0), part(1), part(2), mask...);
  }
  static constexpr auto to_another(std::int64_t heads, multi_head_options options, value auto query, value auto key,
                                   value auto values, value auto... mask) {
    const std::int64_t width = query.facts().shape.last().coefficient;
    return mixed(heads, options, projected(query, 0, width, options), projected(key, width, width, options),
                 projected(values, 2 * width, width, options), mask...);
  }

  // By `count` rows of the weight.
  static constexpr auto projected(value auto x, std::int64_t first, std::int64_t count, multi_head_options options) {
    const std::int64_t width = x.facts().shape.last().coefficient;
    const dtype type = x.facts().type;
    const auto rows = [&](value auto all) { return count == 3 * width ? all : slice(all, 0, first, count); };
    const auto product = detail::make<detail::describe_linear>(
        x, rows(detail::parameter_of<"in_proj_weight">(x, detail::extents_of(3 * width, width), type,
                                                       init::xavier_uniform())));
    if (!options.bias) return product;
    return product + rows(detail::parameter_of<"in_proj_bias">(x, detail::extents_of(3 * width), type, init::zeros));
  }
  static constexpr auto mixed(std::int64_t heads, multi_head_options options, value auto q, value auto k, value auto v,
                              value auto... mask) {
    const auto scores = attend::scores(split_heads(q, heads), split_heads(k, heads), {.causal = options.causal});
    return projected_back(dropped(weights(scores, q, mask...), split_heads(v, heads), options), options);
  }
  static constexpr auto weights(value auto scores, value auto) { return softmax::forward(scores, -1); }
  static constexpr auto weights(value auto scores, value auto q, value auto mask) {
    return attend::weights_or_zeros(attention_masked::forward(scores, mask, q.facts().shape.rank == 3));
  }
  static constexpr auto dropped(value auto weights, value auto v, multi_head_options options) {
    return attend::mixed(dropout::forward(weights, options.dropout), v, v.facts().type);
  }
  // [.., heads, width of each]
  static constexpr auto projected_back(value auto x, multi_head_options options) {
    const auto y = flatten(x, -2, -1);
    const std::int64_t width = y.facts().shape.last().coefficient;
    const auto type = y.facts().type;
    const auto out =
        detail::parameter_of<"out_proj.weight">(y, detail::extents_of(width, width), type, init::fan_in_uniform);
    const auto product = detail::make<detail::describe_linear>(y, out);
    if (!options.bias) return product;
    return product + detail::parameter_of<"out_proj.bias">(y, detail::extents_of(width), type, init::zeros);
  }
};

}  // namespace layers

namespace detail {
// Operands by name that are some of those, none of them twice.
template <template <class> class... Names>
struct at_most_once {
  template <class T>
  static constexpr bool is_one = !named_operand<T> || (is_operand<Names, T> || ...);
  template <template <class> class Name, class... T>
  static constexpr int count = (is_operand<Name, T> + ... + 0);
  template <class... T>
  static constexpr bool holds = (is_one<T> && ... && true) && ((count<Names, T...> <= 1) && ...);
};

// Operands by name, heads and perhaps options.
template <class... T>
inline constexpr bool are_of_heads = (std::is_convertible_v<T, std::int64_t> + ... + 0) == 1 &&
                                     (std::is_convertible_v<T, multi_head_options> + ... + 0) <= 1 &&
                                     ((named_operand<T> || std::is_convertible_v<T, std::int64_t> ||
                                       std::is_convertible_v<T, multi_head_options>)&&...);

// The first that is a `To`, or what is given behind them.
template <class To, class First, class... More>
constexpr auto argument_of(const First& first, const More&... more) {
  if constexpr (std::is_convertible_v<First, To>) {
    return first;
  } else {
    return argument_of<To>(more...);
  }
}

// What masks and lengths say, as one mask.
template <value K, value M>
constexpr auto mask_of(K, M mask, no_operand) {
  return stored(mask);
}
template <value K, value L>
constexpr auto mask_of(K key, no_operand, L lengths) {
  return layer<layers::mask_within>(fixed_text<"">{}, lengths, key);
}
template <value K, value M, value L>
constexpr auto mask_of(K key, M mask, L lengths) {
  return layer<layers::mask_within>(fixed_text<"">{}, lengths, key, stored(mask));
}

// Of x to itself, or of a query, keys and values.
template <class Name, value K, class Mask, class Lengths, class Heads, class Options, value Q, value... X>
constexpr auto attended_by_heads(const Name& name, K key, Mask mask, Lengths lengths, Heads heads, Options options,
                                 Q query, X... others) {
  MEGANEURA_EXPECT(fits_scores_of_heads(mask, query.facts().shape, key.facts().shape, heads),
                   "meganeura: multi_head_attention<name, heads>(query, key, value, attn_mask(m)): m must broadcast to "
                   "[b?, heads, t, s]",
                   query, others..., shown_operand(mask, key))
  MEGANEURA_EXPECT(
      fits_batch(lengths, key.facts(), 2),
      "meganeura: multi_head_attention<name, heads>(query, key, value, key_lengths(n)): n must be i32, one "
      "for each sequence",
      query, others..., shown_operand(lengths, key))
  if constexpr (value<Mask> || value<Lengths>) {
    return layer<layers::multi_head_attention>(name, query, others..., mask_of(key, mask, lengths), heads, options);
  } else {
    return layer<layers::multi_head_attention>(name, query, others..., heads, options);
  }
}
}  // namespace detail

/// As torch.nn.MultiheadAttention with batch_first: attend of `heads` parts of the width, between projections.
/// multi_head_attention<"attn", heads>(x), or multi_head_attention("attn", x, heads) at run time, of x to itself;
/// multi_head_attention<"attn", heads>(query, key, value) of one to another. Behind these may stand attn_mask(m) and
/// key_lengths(n), as attend's: multi_head_attention<"attn", heads>(x, key_lengths(n)), or
/// multi_head_attention("attn", x, key_lengths(n), heads, options). A condition says what is seen, PyTorch's what is
/// not. A query that sees nothing has the bias of the last projection. shapes: query [b?, t, width], key, value [b?, s,
/// width] -> query's; m broadcasts to [b?, heads, t, s], n [b?] i32. dtypes: floats of one type. errors: "operands must
/// be floats [b?, positions, width] of one type, the width a multiple of heads", "m must broadcast to [b?, heads, t,
/// s]", "n must be i32, one for each sequence".
template <detail::name_like Name, value A, class... More>
  requires detail::are_of_heads<More...>
[[nodiscard]] constexpr auto multi_head_attention(const Name& name, A x, More... more) {
  static_assert(detail::at_most_once<attn_mask, key_lengths>::holds<More...>,
                "meganeura: multi_head_attention<name, heads>(x, operands...): operands are attn_mask and key_lengths, "
                "each at most once");
  const auto heads = detail::argument_of<std::int64_t>(more...);
  const auto options = detail::argument_of<multi_head_options>(more..., c<multi_head_options{}>);
  MEGANEURA_EXPECT(
      detail::can_attend_by_heads(x.facts(), x.facts(), x.facts(), heads, options),
      "meganeura: multi_head_attention<name, heads>(x): x must be floats [b?, positions, width], the width "
      "a multiple of heads; dropout is from 0 to 1",
      name, x)
  return detail::attended_by_heads(name, x, detail::operand_of<attn_mask>(more...),
                                   detail::operand_of<key_lengths>(more...), heads, options, x);
}
template <detail::name_like Name, value Q, value K, value V, class... More>
  requires detail::are_of_heads<More...>
[[nodiscard]] constexpr auto multi_head_attention(const Name& name, Q query, K key, V values, More... more) {
  static_assert(detail::at_most_once<attn_mask, key_lengths>::holds<More...>,
                "meganeura: multi_head_attention<name, heads>(query, key, value, operands...): operands are attn_mask "
                "and key_lengths, each at most once");
  const auto heads = detail::argument_of<std::int64_t>(more...);
  const auto options = detail::argument_of<multi_head_options>(more..., c<multi_head_options{}>);
  MEGANEURA_EXPECT(detail::can_attend_by_heads(query.facts(), key.facts(), values.facts(), heads, options),
                   "meganeura: multi_head_attention<name, heads>(query, key, value): operands must be floats [b?, "
                   "positions, width] of one type, the width a multiple of heads; causal needs a key for each query; "
                   "dropout is from 0 to 1",
                   name, query, key, values)
  return detail::attended_by_heads(name, key, detail::operand_of<attn_mask>(more...),
                                   detail::operand_of<key_lengths>(more...), heads, options, query, key, values);
}
template <fixed_string Name, std::int64_t Heads, multi_head_options Options = multi_head_options{}, class... A>
[[nodiscard]] constexpr auto multi_head_attention(A... x) {
  return multi_head_attention(fixed_text<Name>{}, x..., c<Heads>, c<Options>);
}
MEGANEURA_UNNAMED(multi_head_attention, "multi_head_attention<name, heads>(x)")

namespace detail {
// What the layers of a transformer have in common.
template <transformer_options O>
struct transformer_parts {
  static constexpr norm_options norm{.epsilon = O.epsilon};
  static constexpr multi_head_options to_itself{.causal = O.causal, .dropout = O.dropout},
      to_another{.dropout = O.dropout};

  template <fixed_string Name>
  static constexpr auto dropped(value auto x) {
    if constexpr (O.dropout == 0) {
      return x;
    } else {
      return dropout<Name, number(O.dropout)>(x);
    }
  }
  static constexpr auto active(value auto x) {
    if constexpr (O.gelu) {
      return gelu(x);
    } else {
      return relu(x);
    }
  }
  template <fixed_string Last>
  static constexpr auto fed(value auto x) {
    return dropped<Last>(linear<"linear2", O.width>(dropped<"dropout">(active(linear<"linear1", O.hidden>(x)))));
  }
  // By what is given of attn_mask and key_lengths.
  static constexpr auto seen(value auto x, const auto&... operands) {
    return dropped<"dropout1">(multi_head_attention<"self_attn", O.heads, to_itself>(
        x, attn_mask(operand_of<attn_mask>(operands..., no_operand{})),
        key_lengths(operand_of<key_lengths>(operands..., no_operand{}))));
  }
  static constexpr auto seen_of(value auto memory, value auto x, const auto&... operands) {
    return dropped<"dropout2">(multi_head_attention<"multihead_attn", O.heads, to_another>(
        x, memory, memory, attn_mask(operand_of<memory_mask>(operands..., no_operand{})),
        key_lengths(operand_of<memory_lengths>(operands..., no_operand{}))));
  }
  // x and what a part adds, of which one is normalised.
  template <fixed_string Norm>
  static constexpr auto joined(value auto x, const auto& part) {
    if constexpr (O.norm_first) {
      return x + part(layer_norm<Norm, norm>(x));
    } else {
      return layer_norm<Norm, norm>(x + part(x));
    }
  }
};
}  // namespace detail

/// torch.nn.TransformerEncoderLayer with batch_first, a module:
///   call<"layers.0", transformer_encoder_layer<transformer_options{.width = 64, .heads = 4}>>(x)
/// or repeat<"layers", 6, ..>(x); behind x may stand attn_mask(m) and key_lengths(n), as multi_head_attention's.
/// Parameters: self_attn's, "linear1", "linear2", "norm1", "norm2". shapes: [b?, t, width], unchanged; rows of padding
/// are computed as the others. source: arXiv 1706.03762; norm_first: arXiv 2002.04745.
template <transformer_options O>
struct transformer_encoder_layer {
  using parts = detail::transformer_parts<O>;
  static constexpr auto forward(value auto x, detail::named_operand auto... operands) {
    static_assert(detail::at_most_once<attn_mask, key_lengths>::holds<decltype(operands)...>,
                  "meganeura: call<name, transformer_encoder_layer<options>>(x, operands...): operands are attn_mask "
                  "and key_lengths, each at most once");
    auto h = parts::template joined<"norm1">(x, [=](auto y) { return parts::seen(y, operands...); });
    return parts::template joined<"norm2">(h, [](auto y) { return parts::template fed<"dropout2">(y); });
  }
};

/// torch.nn.TransformerDecoderLayer with batch_first, of x and of the encoder's result: "multihead_attn" and "norm3"
/// more. Behind these may stand attn_mask(m) and key_lengths(n) of x, and memory_mask(m) and memory_lengths(n) of
/// memory; a call with types takes two of them. shapes: x [b?, t, width], memory [b?, s, width] -> x's.
template <transformer_options O>
struct transformer_decoder_layer {
  using parts = detail::transformer_parts<O>;
  static constexpr auto forward(value auto x, value auto memory, detail::named_operand auto... operands) {
    static_assert(
        detail::at_most_once<attn_mask, key_lengths, memory_mask, memory_lengths>::holds<decltype(operands)...>,
        "meganeura: call<name, transformer_decoder_layer<options>>(x, memory, operands...): operands are attn_mask, "
        "key_lengths, memory_mask and memory_lengths, each at most once");
    auto h = parts::template joined<"norm1">(x, [=](auto y) { return parts::seen(y, operands...); });
    auto m = parts::template joined<"norm2">(h, [=](auto y) { return parts::seen_of(memory, y, operands...); });
    return parts::template joined<"norm3">(m, [](auto y) { return parts::template fed<"dropout3">(y); });
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI
