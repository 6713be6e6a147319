// SPDX-License-Identifier: MIT
// Losses as primitives of the run-time graph.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/runtime/loss.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

inline node_id mean_of_all(graph& g, node_id a) {
  const shape whole = g[a].extents;
  const node_id total = g.reduce(reduce_kind::sum, a, (1u << whole.rank) - 1);
  return g.multiply(total, g.full_like(total, 1.0 / static_cast<double>(whole.elements())));
}

// What a loss compares with: an input of its own, or the model's of that name, dtype and shape (an autoencoder's).
inline node_id wanted_input(graph& g, std::string_view name, dtype type, const shape& extents) {
  const node_id known = g.find_leaf(name);
  const bool fits =
      known != no_node && g[known].kind == op::input && g[known].type == type && g[known].extents == extents;
  return fits ? known : g.input(name, type, extents);
}

// select(index == label, z, 0), one map over the logits; node for node what ops/loss.hpp lowers to.
inline node_id picked(graph& g, node_id z, node_id label) {
  const shape whole = g[z].extents;
  const int last = whole.rank - 1;
  const node_id operands[] = {g.coordinates(whole, last), g.expand_axes(label, whole, 1u << last), z,
                              g.full_like(z, 0)};
  const dtype type = g[z].type;
  scalar_builder builder;
  const scalar_ref is_label =
      builder.binary(scalar_op::equal, builder.argument(0, dtype::i32), builder.argument(1, dtype::i32));
  const scalar_ref value = builder.argument(2, type), zero = builder.argument(3, type);
  return g.map(builder.finish(builder.select(is_label, value, zero)), operands, type);
}

}  // namespace detail

MEGANEURA_INLINE node_id cross_entropy::operator()(graph& g, node_id logits) const {
  const shape whole = g[logits].extents;
  if (whole.rank < 1 || !is_float(g[logits].type)) {
    fail(error_category::invalid_argument, "cross_entropy: logits must be floats [.., classes]; found {} {}",
         to_string(g[logits].type), to_string(whole));
  }
  const std::uint32_t last = 1u << (whole.rank - 1);
  shape rows = whole;
  --rows.rank;
  rows[rows.rank] = 0;  // shapes compare unused extents too
  const node_id labels = detail::wanted_input(g, label, dtype::i32, rows);
  // The shift cancels in the difference, so its gradient is zero and is not built.
  const node_id largest = g.stop_gradient(g.reduce(reduce_kind::max, logits, last));
  const node_id shifted = g.subtract(logits, g.expand_axes(largest, whole, last));
  const node_id total = g.reduce(reduce_kind::sum, g.map(scalar_op::exp, {shifted}), last);
  const node_id at_label = g.reduce(reduce_kind::sum, detail::picked(g, shifted, labels), last);
  return detail::mean_of_all(g, g.subtract(g.map(scalar_op::log, {total}), at_label));
}

MEGANEURA_INLINE node_id mean_squared_error::operator()(graph& g, node_id prediction) const {
  const node_id wanted = detail::wanted_input(g, target, g[prediction].type, shape(g[prediction].extents));
  const node_id difference = g.subtract(prediction, wanted);
  return detail::mean_of_all(g, g.multiply(difference, difference));
}

}  // namespace meganeura::inline MEGANEURA_ABI
