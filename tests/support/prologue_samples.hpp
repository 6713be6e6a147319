// SPDX-License-Identifier: MIT
// Products of what a kernel may compute as it reads: spellings and sizes.
#pragma once
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/measured_rates.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

inline std::vector<const matmul_attribute*> products(const graph& g) {
  std::vector<const matmul_attribute*> found;
  for (node_id id{0}; id < g.size(); ++id) {
    if (g[id].kind == op::matmul) found.push_back(&g.get<matmul_attribute>(id));
  }
  return found;
}

inline node_value f32_input(graph& g, const char* name, const shape& extents) {
  return {g, g.input(name, dtype::f32, extents)};
}

inline node_value sum_along(node_value x, int axis) { return unsqueeze(sum(x, axis), axis); }
inline node_value mean_along(node_value x, int axis) { return unsqueeze(mean(x, axis), axis); }

// Few kernels, whatever they take, with this one of the schedules that there are.
inline program_options options_of_one_product(const device& gpu, precision accuracy,
                                              std::optional<std::size_t> schedule) {
  program_options options{.precision = accuracy, .device_costs = false, .checks = checks::none};
  options.optimize.device = profile_of(gpu);
  options.optimize.device.launch = {1, 1};
  options.optimize.disabled = {"split_sum"};
  options.optimize.schedule = schedule;
  return options;
}

// Spellings of what is multiplied, over x [rows, terms]; `numbers` of a column.
using spelling = std::function<node_value(graph&, node_value x, node_value numbers)>;
struct named {
  const char* name;
  bool has_statistic;
  spelling make;
};

inline const std::vector<named>& spellings() {
  static const std::vector<named> all{
      {"rms norm", true,
       [](graph&, node_value x, node_value w) { return x / sqrt(mean_along(square(x), 1) + 1e-5) * w; }},
      {"reciprocal square root", true,
       [](graph&, node_value x, node_value w) { return x * (w * rsqrt(mean_along(square(x), 1) + 1e-5)); }},
      {"without weights", true, [](graph&, node_value x, node_value) { return x * rsqrt(sum_along(x * x, 1)); }},
      {"a share of the sum", true, [](graph&, node_value x, node_value) { return exp(x) / sum_along(exp(x), 1); }},
      {"elements", false, [](graph&, node_value x, node_value w) { return tanh(x) * w; }},
      {"gated", false,
       [](graph& g, node_value x, node_value) {
         const node_value up = f32_input(g, "up", g[x.id()].extents);
         return silu(x) * up;
       }},
      {"sums", false,
       [](graph& g, node_value x, node_value w) { return x + f32_input(g, "more", g[x.id()].extents) * w; }}};
  return all;
}

struct sizes {
  std::int64_t rows, terms, columns;
};

inline graph product_of(const spelling& make, const sizes& of, bool ends = false) {
  graph g;
  const node_value x = f32_input(g, "x", {of.rows, of.terms}), numbers = f32_input(g, "numbers", {of.terms});
  const node_value w = f32_input(g, "w", {of.terms, of.columns});
  node_value y = matmul(make(g, x, numbers), w);
  if (ends) y = relu(y + f32_input(g, "bias", {of.columns})) + f32_input(g, "residual", {of.rows, of.columns});
  g.add_output("y", y);
  return g;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
