// SPDX-License-Identifier: MIT
// Definitions for runtime/tensor_optimizers.hpp: what costs a compiler long.
#pragma once
#include <meganeura/ops/elementwise.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/runtime/tensor_optimizers.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

inline node_value root_mean_square(const node_value& x) { return sqrt(mean(x * x)); }

inline const shape& extents_of(const node_value& x) { return x.owner()[x.id()].extents; }

inline node_value mean_along(const node_value& x, int axis) {
  return {x.owner(), x.owner().reshape(mean(x, axis), flat_along(extents_of(x), axis))};
}

}  // namespace detail

MEGANEURA_INLINE std::vector<node_value> lamb::direction(const optimizer_tensor& t) const {
  const auto& now = t.numbers;
  const node_value m = now[4] * t.states[0] + now[5] * t.gradient;
  const node_value v = now[6] * t.states[1] + now[7] * t.gradient * t.gradient;
  const node_value step = now[2] * (m / (sqrt(v) / now[3] + now[8])) + now[1] * t.parameter;
  const node_value length = detail::root_mean_square(t.parameter), own = detail::root_mean_square(step);
  return {select(logical_or(equal(length, 0.0f), equal(own, 0.0f)), 1.0f, length / own) * step, m, v};
}

MEGANEURA_INLINE std::vector<node_value> adafactor::direction(const optimizer_tensor& t) const {
  const auto& now = t.numbers;
  const int rank = detail::extents_of(t.parameter).rank();
  const node_value squares = t.gradient * t.gradient;
  const auto kept = [&](const node_value& mean, const node_value& fresh) { return mean + now[2] * (fresh - mean); };
  std::vector<node_value> all{t.gradient};
  node_value v;
  if (rank < 2) {
    v = kept(t.states[0], squares);
    all.push_back(v);
  } else {
    const node_value rows = kept(t.states[0], detail::mean_along(squares, rank - 1)),
                     columns = kept(t.states[1], detail::mean_along(squares, rank - 2));
    v = rows * columns / maximum(detail::mean_along(rows, rank - 2), now[3]);
    all.insert(all.end(), {rows, columns});
  }
  const node_value u = t.gradient / sqrt(maximum(v, now[4]));
  const node_value most = maximum(detail::root_mean_square(u) / now[6], 1.0f);
  all[0] = maximum(detail::root_mean_square(t.parameter), now[5]) / most * u;
  return all;
}

}  // namespace meganeura::inline MEGANEURA_ABI
