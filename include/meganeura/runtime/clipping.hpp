// SPDX-License-Identifier: MIT
// Gradients held within bounds before they are used, as nodes of the training graph.
#pragma once
#include <meganeura/graph/graph.hpp>

#include <cstdint>
#include <limits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

// As torch.nn.utils.clip_grad_value_: a NaN stays one.
inline void clip_values(graph& g, std::vector<node_id>& gradients, double most) {
  for (node_id& each : gradients) {
    const node_id high = g.full_like(each, most), low = g.full_like(each, -most);
    each = g.map(scalar_op::minimum, {g.map(scalar_op::maximum, {each, low}), high});
  }
}

// The root of the sum of all squares: those of each row first, which takes one dispatch a gradient.
inline node_id norm_of(graph& g, const std::vector<node_id>& gradients) {
  std::vector<node_id> sums;
  for (const node_id each : gradients) {
    const shape extents = g[each].extents;
    const std::int64_t rows = extents.rank() < 2 ? 1 : extents[0];
    const node_id squares = g.reshape(g.multiply(each, each), {rows, extents.elements() / rows});
    sums.push_back(g.reduce(reduce_kind::sum, squares, 1u << 1));
  }
  return g.map(scalar_op::sqrt, {g.reduce(reduce_kind::sum, g.concat(sums, 0), 1)});
}

// As torch.nn.utils.clip_grad_norm_: what the gradients are to be multiplied by, no_id for nothing.
inline node_id clip_norm(graph& g, const std::vector<node_id>& gradients, double most) {
  const node_id norm = norm_of(g, gradients);
  g.add_output("grad_norm", norm);
  if (most == std::numeric_limits<double>::infinity()) return no_id;  // it is asked for, and nothing is above
  const node_id factor = g.divide(g.full_like(norm, most), g.add(norm, g.full_like(norm, 1e-6)));
  return g.map(scalar_op::minimum, {factor, g.full_like(norm, 1)});
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
