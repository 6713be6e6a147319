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

namespace detail {
constexpr bool can_attend_by_heads(const facts& q, const facts& k, const facts& v, std::int64_t heads,
                                   multi_head_options options) {
  return (q.shape.rank == 2 || q.shape.rank == 3) && has_last_extent(q.shape) && heads >= 1 &&
         q.shape.last().coefficient % heads == 0 && k.shape.rank == q.shape.rank && k.shape == v.shape &&
         k.shape.last() == q.shape.last() && (q.shape.rank == 2 || q.shape[0] == k.shape[0]) && is_float(q.type) &&
         k.type == q.type && v.type == q.type && is_probability(options.dropout) &&
         (!options.causal || has_key_for_each(q.shape.last(1), k.shape.last(1)));
}
constexpr symbolic_shape scores_of_heads(const symbolic_shape& q, const symbolic_shape& k, std::int64_t heads) {
  symbolic_shape result;
  if (q.rank == 3) result.push_back(q[0]);
  for (const dim& each : {dim(heads), q.last(1), k.last(1)}) result.push_back(each);
  return result;
}
}  // namespace detail

namespace layers {

/// Parameters "in_proj_weight" [3 width, width] and "in_proj_bias" of queries, keys and values, "out_proj.weight"
/// [width, width] and "out_proj.bias".
struct multi_head_attention {
  static constexpr auto forward(value auto x, std::int64_t heads, multi_head_options options) {
    const std::int64_t width = x.facts().shape.last().coefficient;
    const auto all = projected(x, 0, 3 * width, options);
    const auto part = [&](std::int64_t index) { return slice(all, -1, index * width, width); };
    return mixed(part(0), part(1), part(2), heads, options);
  }

  static constexpr auto forward(value auto query, value auto key, value auto values, std::int64_t heads,
                                multi_head_options options) {
    const std::int64_t width = query.facts().shape.last().coefficient;
    return mixed(projected(query, 0, width, options), projected(key, width, width, options),
                 projected(values, 2 * width, width, options), heads, options);
  }
  static constexpr auto forward(value auto query, value auto key, value auto values, value auto mask,
                                std::int64_t heads, multi_head_options options) {
    const std::int64_t width = query.facts().shape.last().coefficient;
    const auto q = split_heads(projected(query, 0, width, options), heads);
    const auto k = split_heads(projected(key, width, width, options), heads);
    const auto v = split_heads(projected(values, 2 * width, width, options), heads);
    const auto scores = attend::scores(q, k, {.causal = options.causal});
    const auto seen = attention_masked::forward(scores, mask, query.facts().shape.rank == 3);
    return projected_back(dropped(attend::weights_or_zeros(seen), v, options), options);
  }

 private:
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
  static constexpr auto mixed(value auto q, value auto k, value auto v, std::int64_t heads,
                              multi_head_options options) {
    const auto scores = attend::scores(split_heads(q, heads), split_heads(k, heads), {.causal = options.causal});
    return projected_back(dropped(softmax::forward(scores, -1), split_heads(v, heads), options), options);
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
template <class Name, value Q, value K, value V, value M, class Heads, class Options>
constexpr auto attended_by_heads(const Name& name, Q query, K key, V values, M mask, Heads heads, Options options) {
  MEGANEURA_EXPECT(can_expand(mask.facts().shape, scores_of_heads(query.facts().shape, key.facts().shape, heads)),
                   "meganeura: multi_head_attention<name, heads>(query, key, value, attn_mask(m)): m must broadcast to "
                   "[b?, heads, t, s]",
                   query, key, values, mask)
  return layer<layers::multi_head_attention>(name, query, key, values, mask, heads, options);
}
}  // namespace detail

/// As torch.nn.MultiheadAttention with batch_first: attend of `heads` parts of the width, between projections.
/// multi_head_attention<"attn", heads>(x), or multi_head_attention("attn", x, heads) at run time, of x to itself;
/// multi_head_attention<"attn", heads>(query, key, value) of one to another; (query, key, value, attn_mask(m)) as
/// attend. shapes: query [b?, t, width], key, value [b?, s, width] -> query's. dtypes: floats of one type. errors:
/// "operands must be floats [b?, positions, width] of one type, the width a multiple of heads".
template <detail::name_like Name, value A, class Heads, class Options = fixed<multi_head_options{}>>
  requires(!value<Heads>)
[[nodiscard]] constexpr auto multi_head_attention(const Name& name, A x, Heads heads, Options options = {}) {
  MEGANEURA_EXPECT(
      detail::can_attend_by_heads(x.facts(), x.facts(), x.facts(), heads, options),
      "meganeura: multi_head_attention<name, heads>(x): x must be floats [b?, positions, width], the width "
      "a multiple of heads; dropout is from 0 to 1",
      x)
  return detail::layer<layers::multi_head_attention>(name, x, heads, options);
}
template <detail::name_like Name, value Q, value K, value V, class Heads, class Options = fixed<multi_head_options{}>>
[[nodiscard]] constexpr auto multi_head_attention(const Name& name, Q query, K key, V values, Heads heads,
                                                  Options options = {}) {
  MEGANEURA_EXPECT(detail::can_attend_by_heads(query.facts(), key.facts(), values.facts(), heads, options),
                   "meganeura: multi_head_attention<name, heads>(query, key, value): operands must be floats [b?, "
                   "positions, width] of one type, the width a multiple of heads; causal needs a key for each query; "
                   "dropout is from 0 to 1",
                   query, key, values)
  return detail::layer<layers::multi_head_attention>(name, query, key, values, heads, options);
}
template <detail::name_like Name, value Q, value K, value V, value M, class Heads,
          class Options = fixed<multi_head_options{}>>
[[nodiscard]] constexpr auto multi_head_attention(const Name& name, Q query, K key, V values, attn_mask<M> mask,
                                                  Heads heads, Options options = {}) {
  MEGANEURA_EXPECT(detail::can_attend_by_heads(query.facts(), key.facts(), values.facts(), heads, options),
                   "meganeura: multi_head_attention<name, heads>(query, key, value): operands must be floats [b?, "
                   "positions, width] of one type, the width a multiple of heads; causal needs a key for each query; "
                   "dropout is from 0 to 1",
                   query, key, values)
  return detail::attended_by_heads(name, query, key, values, detail::stored(mask.operand), heads, options);
}
template <fixed_string Name, std::int64_t Heads, multi_head_options Options = multi_head_options{}, class... A>
  requires(sizeof...(A) == 1 || sizeof...(A) == 3 || sizeof...(A) == 4)
[[nodiscard]] constexpr auto multi_head_attention(A... x) {
  return multi_head_attention(fixed_text<Name>{}, x..., c<Heads>, c<Options>);
}

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
  static constexpr auto seen(value auto x) {
    return dropped<"dropout1">(multi_head_attention<"self_attn", O.heads, to_itself>(x));
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
/// or repeat<"layers", 6, ..>(x). Parameters: self_attn's, "linear1", "linear2", "norm1", "norm2".
/// shapes: [b?, t, width], unchanged. source: arXiv 1706.03762; norm_first: arXiv 2002.04745.
template <transformer_options O>
struct transformer_encoder_layer {
  using parts = detail::transformer_parts<O>;
  static constexpr auto forward(value auto x) {
    auto h = parts::template joined<"norm1">(x, [](auto y) { return parts::seen(y); });
    return parts::template joined<"norm2">(h, [](auto y) { return parts::template fed<"dropout2">(y); });
  }
};

/// torch.nn.TransformerDecoderLayer with batch_first, of x and of the encoder's result: "multihead_attn" and "norm3"
/// more. shapes: x [b?, t, width], memory [b?, s, width] -> x's.
template <transformer_options O>
struct transformer_decoder_layer {
  using parts = detail::transformer_parts<O>;
  static constexpr auto forward(value auto x, value auto memory) {
    auto h = parts::template joined<"norm1">(x, [](auto y) { return parts::seen(y); });
    auto m = parts::template joined<"norm2">(h, [=](auto y) {
      return parts::template dropped<"dropout2">(
          multi_head_attention<"multihead_attn", O.heads, parts::to_another>(y, memory, memory));
    });
    return parts::template joined<"norm3">(m, [](auto y) { return parts::template fed<"dropout3">(y); });
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI
