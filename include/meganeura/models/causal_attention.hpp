// SPDX-License-Identifier: MIT
// Causal attention that a model may run at once or in pieces.
#pragma once
#include <meganeura/nn/attention.hpp>

namespace meganeura::inline MEGANEURA_ABI::models {

/// Of all positions at once, or, given a position [] i32, of those that begin there: the keys and values of the
/// `Context` positions before lie in the states "keys" and "values". shapes: attend's, as split_heads makes them.
template <int Context>
constexpr auto causal_attention(value auto q, value auto k, value auto v) {
  return attend<gqa_options{.causal = true}>(q, k, v);
}
template <int Context>
constexpr auto causal_attention(value auto q, value auto k, value auto v, value auto position) {
  auto past_keys = state_like<"keys", -3, Context, init::each_run>(k);
  auto past_values = state_like<"values", -3, Context, init::each_run>(v);
  auto keys = update_rows<-3>(past_keys, k, position);
  auto values = update_rows<-3>(past_values, v, position);
  return attend<gqa_options{.causal = true}>(q, keys, values, position) | assign(past_keys, keys) |
         assign(past_values, values);
}

}  // namespace meganeura::inline MEGANEURA_ABI::models
