// SPDX-License-Identifier: MIT
// Losses appended to a model's output: an input of their own, and the functions of nn/loss.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/expr/value.hpp>
#include <meganeura/nn/loss.hpp>
#include <meganeura/runtime/loss.hpp>

#include <fmt/format.h>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// What a loss compares with: an input of its own, or the model's of that name, dtype and shape (an autoencoder's).
inline node_id wanted_input(graph& g, std::string_view name, dtype type, const shape& extents) {
  if (name.empty()) {
    fail(error_category::invalid_argument,
         "the loss was given no name for what it compares with, {} {}; name that input: cross_entropy{{\"label\"}}, "
         "mean_squared_error{{\"target\"}}",
         to_string(type), to_string(extents));
  }
  const node_id known = g.find_leaf(name);
  if (known == no_id || g[known].kind != op::input) return g.input(name, type, extents);
  if (g[known].type == type && g[known].extents == extents) return known;
  fail(error_category::invalid_argument,
       "the loss compares with {}, {}{}, and the model has an input of that name, {}{}; choose another name",
       quote(name), to_string(type), to_string(extents), to_string(g[known].type), to_string(g[known].extents));
}

}  // namespace detail

MEGANEURA_INLINE node_id cross_entropy::operator()(graph& g, node_id logits) const try {
  g.expect_values("cross_entropy", {logits});
  const shape whole = g[logits].extents;
  if (whole.rank() < 1 || !is_float(g[logits].type)) {
    fail(error_category::invalid_argument, "cross_entropy: logits must be floats [.., classes]; found {} {}",
         to_string(g[logits].type), to_string(whole));
  }
  shape rows = whole;
  rows.pop_back();
  const node_value labels(g, detail::wanted_input(g, label, dtype::i32, rows));
  return cross_entropy_loss(node_value(g, logits), labels, cross_entropy_options{ignore_index});
} catch (...) {
  rethrow_as_error("adding a loss");
}

MEGANEURA_INLINE node_id mean_squared_error::operator()(graph& g, node_id prediction) const try {
  g.expect_values("mean_squared_error", {prediction});
  if (!is_float(g[prediction].type)) {
    fail(error_category::invalid_argument, "mean_squared_error: the prediction must be floats; found {} {}; cast it",
         to_string(g[prediction].type), to_string(g[prediction].extents));
  }
  const node_value wanted(g, detail::wanted_input(g, target, g[prediction].type, shape(g[prediction].extents)));
  return mean_squared_error_loss(node_value(g, prediction), wanted);
} catch (...) {
  rethrow_as_error("adding a loss");
}

}  // namespace meganeura::inline MEGANEURA_ABI
