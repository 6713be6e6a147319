// SPDX-License-Identifier: MIT
// Products whose kernel has two right operands or several results: spellings.
#pragma once
#include <support/prologue_samples.hpp>

#include <functional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

struct named_pair {
  const char* name;
  std::size_t results;  // of the product's kernel
  bool has_prologue;
  bool is_paired;
  std::function<void(graph&, const sizes&)> make;
};

inline const std::vector<named_pair>& pairs() {
  // x [rows, terms] times two of [terms, columns].
  struct sides {
    node_value x, first, second;
  };
  static const auto of = [](graph& g, const sizes& size, const std::function<node_value(node_value)>& before = {}) {
    node_value x = f32_input(g, "x", {size.rows, size.terms});
    if (before) x = before(x);
    const shape right{size.terms, size.columns};
    return sides{x, matmul(x, f32_input(g, "w", right)), matmul(x, f32_input(g, "v", right))};
  };
  static const std::vector<named_pair> all{
      {"swiglu", 1, false, true,
       [](graph& g, const sizes& size) {
         const sides s = of(g, size);
         g.add_output("y", silu(s.first) * s.second);
       }},
      {"glu with biases", 1, false, true,
       [](graph& g, const sizes& size) {
         const sides s = of(g, size);
         const node_value b = f32_input(g, "b", {size.columns}), c = f32_input(g, "c", {size.columns});
         g.add_output("y", (s.first + b) * sigmoid(s.second + c));
       }},
      {"residual", 1, false, true,
       [](graph& g, const sizes& size) {
         const sides s = of(g, size);
         g.add_output("y", f32_input(g, "r", {size.rows, size.columns}) + relu(s.second) * s.first);
       }},
      {"of a norm", 1, true, true,
       [](graph& g, const sizes& size) {
         const node_value numbers = f32_input(g, "numbers", {size.terms});
         const sides s = of(g, size, [&](node_value x) { return spellings()[0].make(g, x, numbers); });
         g.add_output("y", silu(s.first) * s.second);
       }},
      {"kept", 3, false, true,
       [](graph& g, const sizes& size) {
         const sides s = of(g, size);
         g.add_output("y", silu(s.first) * s.second);
         g.add_output("first", s.first);
         g.add_output("second", s.second);
       }},
      {"one kept", 2, false, true,
       [](graph& g, const sizes& size) {
         const sides s = of(g, size);
         const node_value b = f32_input(g, "b", {size.columns}), second = s.second + b;
         g.add_output("y", tanh(s.first) * second);
         g.add_output("second", second);
       }},
      {"kept, of a norm", 3, true, true,
       [](graph& g, const sizes& size) {
         const node_value numbers = f32_input(g, "numbers", {size.terms});
         const sides s = of(g, size, [&](node_value x) { return spellings()[0].make(g, x, numbers); });
         g.add_output("y", silu(s.first) * s.second);
         g.add_output("first", s.first);
         g.add_output("second", s.second);
       }},
      {"batches", 1, false, true,
       [](graph& g, const sizes& size) {
         const node_value x = f32_input(g, "x", {3, size.rows, size.terms});
         const node_value w = f32_input(g, "w", {3, size.terms, size.columns});
         const node_value v = f32_input(g, "v", {3, size.terms, size.columns});
         g.add_output("y", silu(matmul(x, w)) * matmul(x, v));
       }},
      {"kept, of one product", 2, false, false,
       [](graph& g, const sizes& size) {
         const node_value x = f32_input(g, "x", {size.rows, size.terms});
         const node_value b = f32_input(g, "b", {size.columns});
         const node_value sum = matmul(x, f32_input(g, "w", {size.terms, size.columns})) + b;
         g.add_output("y", gelu(sum));
         g.add_output("sum", sum);
       }},
      {"two of one product", 2, false, false,
       [](graph& g, const sizes& size) {
         const node_value x = f32_input(g, "x", {size.rows, size.terms});
         const node_value sum = matmul(x, f32_input(g, "w", {size.terms, size.columns}));
         const shape own{size.rows, size.columns};
         g.add_output("y", sum * f32_input(g, "one", own));
         g.add_output("z", relu(sum) * f32_input(g, "other", own));
       }},
      {"two of one product of a norm", 2, true, false,
       [](graph& g, const sizes& size) {
         const node_value x = f32_input(g, "x", {size.rows, size.terms});
         const node_value numbers = f32_input(g, "numbers", {size.terms});
         const node_value w = f32_input(g, "w", {size.terms, size.columns});
         const node_value sum = matmul(spellings()[0].make(g, x, numbers), w);
         g.add_output("y", sum * f32_input(g, "one", {size.rows, size.columns}));
         g.add_output("z", relu(sum));
       }},
      {"of transposed weights", 1, false, true, [](graph& g, const sizes& size) {
         const node_value x = f32_input(g, "x", {size.rows, size.terms});
         const node_value w = f32_input(g, "w", {size.columns, size.terms});
         const node_value v = f32_input(g, "v", {size.columns, size.terms});
         g.add_output("y", silu(matmul(x, transpose(w))) * matmul(x, transpose(v)));
       }}};
  return all;
}

// Rotary embeddings of a product: x [rows, terms] times [terms, columns], as `heads` heads.
inline void add_rotary(graph& g, const sizes& size, std::int64_t heads, const rope_options& options,
                       const std::function<node_value(node_value)>& before = {},
                       const std::function<node_value(node_value)>& behind = {}) {
  node_value x = f32_input(g, "x", {size.rows, size.terms});
  if (before) x = before(x);
  node_value q = matmul(x, f32_input(g, "w", {size.terms, size.columns}));
  if (behind) q = behind(q);
  g.add_output("y", rope(reshape(q, shape{size.rows, heads, size.columns / heads}), options));
}

inline const std::vector<named_pair>& rotary_products() {
  static const std::vector<named_pair> all{
      {"rotary", 1, false, true, [](graph& g, const sizes& size) { add_rotary(g, size, 2, {}); }},
      {"one head", 1, false, true,
       [](graph& g, const sizes& size) { add_rotary(g, size, 1, {.theta = 500, .type = rope_type::linear}); }},
      {"interleaved", 1, false, true,
       [](graph& g, const sizes& size) { add_rotary(g, size, 2, {.interleaved = true}); }},
      {"of a norm", 1, true, true,
       [](graph& g, const sizes& size) {
         const node_value numbers = f32_input(g, "numbers", {size.terms});
         add_rotary(g, size, 2, {}, [&](node_value x) { return spellings()[0].make(g, x, numbers); });
       }},
      {"with a bias", 1, false, true,
       [](graph& g, const sizes& size) {
         const node_value bias = f32_input(g, "bias", {size.columns});
         add_rotary(g, size, 2, {}, {}, [&](node_value q) { return q + bias; });
       }},
      {"heads first", 1, false, true, [](graph& g, const sizes& size) {
         const node_value x = f32_input(g, "x", {size.rows, size.terms});
         const node_value q = matmul(x, f32_input(g, "w", {size.terms, size.columns}));
         const node_value turned = rope(reshape(q, shape{size.rows, 2, size.columns / 2}), rope_options{});
         g.add_output("y", permute(turned, 1, 0, 2));
       }}};
  return all;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
