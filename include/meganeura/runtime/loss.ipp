// SPDX-License-Identifier: MIT
// Losses as primitives of the run-time graph.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/runtime/loss.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

inline node_id sum_of_all(graph& g, node_id a) {
  return g.reduce(reduce_kind::sum, a, (1u << g[a].extents.rank()) - 1);
}

inline node_id mean_of_all(graph& g, node_id a) {
  const shape whole = g[a].extents;
  const node_id total = sum_of_all(g, a);
  return g.multiply(total, g.full_like(total, 1.0 / static_cast<double>(whole.elements())));
}

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

// select(index == label, z, 0), one map over the logits; node for node what ops/loss.hpp lowers to.
inline node_id picked(graph& g, node_id z, node_id label) {
  const shape whole = g[z].extents;
  const int last = whole.rank() - 1;
  const node_id operands[] = {g.coordinates(whole, last), g.expand_axes(label, whole, 1u << last), z,
                              g.full_like(z, 0)};
  const dtype type = g[z].type;
  scalar_builder builder;
  const scalar_ref is_label =
      builder.binary(scalar_op::equal, builder.argument(0, dtype::i32), builder.argument(1, dtype::i32));
  const scalar_ref value = builder.argument(2, type), zero = builder.argument(3, type);
  return g.map(builder.finish(builder.select(is_label, value, zero)), operands, type);
}

// A second column of labels that are no class; ops/loss.hpp says why.
inline node_id with_one_more(graph& g, node_id labels) {
  shape column = g[labels].extents;
  column.push_back(1);
  const std::vector<std::int64_t> low(static_cast<std::size_t>(column.rank()), 0);
  std::vector<std::int64_t> high = low;
  high.back() = 1;
  return g.pad(g.reshape(labels, column), low, high, -1);
}

// Where a label is a class and not ignored `then`, elsewhere 0.
inline node_id where_counted(graph& g, node_id label, std::int64_t classes, std::int64_t ignored, node_id then) {
  const shape rows = g[label].extents;
  std::vector<node_id> operands;
  scalar_builder b;
  const auto argument = [&](node_id id) {
    auto place = std::ranges::find(operands, id);
    if (place == operands.end()) place = operands.insert(place, id);
    return b.argument(static_cast<int>(place - operands.begin()), g[id].type);
  };
  const auto number = [&](std::int64_t value) {
    return argument(g.full(rows, static_cast<double>(value), dtype::i32));
  };
  const scalar_ref zero = number(0), index = argument(label);
  scalar_ref counted = b.binary(scalar_op::logical_and, b.binary(scalar_op::less_equal, zero, index),
                                b.binary(scalar_op::less, index, number(classes)));
  if (ignored >= 0 && ignored < classes) {
    counted = b.binary(scalar_op::logical_and, counted,
                       b.unary(scalar_op::logical_not, b.binary(scalar_op::equal, index, number(ignored))));
  }
  const scalar_ref value = argument(then), nothing = argument(g.full(rows, 0));
  return g.map(b.finish(b.select(counted, value, nothing)), operands, dtype::f32);
}

}  // namespace detail

MEGANEURA_INLINE node_id cross_entropy::operator()(graph& g, node_id logits) const try {
  g.expect_values("cross_entropy", {logits});
  const shape whole = g[logits].extents;
  if (whole.rank() < 1 || !is_float(g[logits].type)) {
    fail(error_category::invalid_argument, "cross_entropy: logits must be floats [.., classes]; found {} {}",
         to_string(g[logits].type), to_string(whole));
  }
  const std::uint32_t last = 1u << (whole.rank() - 1);
  shape rows = whole;
  rows.pop_back();
  const std::int64_t classes = whole[whole.rank() - 1];
  const node_id labels = detail::wanted_input(g, label, dtype::i32, rows);
  g.expect_indices({labels, classes, ignore_index, fmt::format("cross_entropy has {} classes", classes)});
  // The shift cancels in the difference, so its gradient is zero and is not built.
  const node_id wide = g.cast(logits, dtype::f32);
  const node_id largest = g.stop_gradient(g.reduce(reduce_kind::max, wide, last));
  const node_id shifted = g.subtract(wide, g.expand_axes(largest, whole, last));
  const node_id total = g.reduce(reduce_kind::sum, g.map(scalar_op::exp, {shifted}), last);
  const node_id at_label = g.reduce(reduce_kind::sum, detail::picked(g, shifted, labels), last);
  const node_id losses = g.subtract(g.map(scalar_op::log, {total}), at_label);
  const node_id padded = detail::with_one_more(g, labels);
  const node_id ones = detail::where_counted(g, padded, classes, ignore_index, g.full(g[padded].extents, 1));
  const node_id count = g.map(scalar_op::maximum, {detail::sum_of_all(g, ones), g.constant(1)});
  const node_id share = g.map(scalar_op::reciprocal, {count});
  return detail::sum_of_all(
      g, detail::where_counted(g, labels, classes, ignore_index, g.multiply(losses, g.expand(share, rows))));
} catch (...) {
  rethrow_as_error("adding a loss");
}

MEGANEURA_INLINE node_id mean_squared_error::operator()(graph& g, node_id prediction) const try {
  g.expect_values("mean_squared_error", {prediction});
  if (!is_float(g[prediction].type)) {
    fail(error_category::invalid_argument, "mean_squared_error: the prediction must be floats; found {} {}; cast it",
         to_string(g[prediction].type), to_string(g[prediction].extents));
  }
  const node_id wanted = detail::wanted_input(g, target, g[prediction].type, shape(g[prediction].extents));
  const node_id difference = g.subtract(g.cast(prediction, dtype::f32), g.cast(wanted, dtype::f32));
  return detail::mean_of_all(g, g.multiply(difference, difference));
} catch (...) {
  rethrow_as_error("adding a loss");
}

}  // namespace meganeura::inline MEGANEURA_ABI
