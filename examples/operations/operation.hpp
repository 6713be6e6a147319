// SPDX-License-Identifier: MIT
// What is told of an operation: how it is written, its names elsewhere, and its definition in plain numbers.
#pragma once
#include <meganeura/expr/value.hpp>
#include <meganeura/operations.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace operations {

namespace mn = meganeura;

// An operand to try the operation with; its numbers are drawn between `low` and `high`, whole ones for integers.
struct operand {
  mn::shape extents;
  double low = -2, high = 2;
  mn::dtype type = mn::dtype::f32;
};

using numbers = std::vector<double>;  // a tensor in row-major order

struct operation {
  std::string call;         // "softmax<axis>(x)"
  std::string shapes;       // "[.., n, ..] -> [.., n, ..]"
  std::string torch, onnx;  // "" where there is none
  std::vector<operand> operands;
  std::function<mn::node_value(const std::vector<mn::node_value>&)> build;
  std::function<numbers(const std::vector<numbers>&)> definition;
  double tolerance = 1e-6;  // of the result, beside its largest number; constants of a graph are f32
  // What the gradient is that of, where it is another one's on purpose: of a rounding that gradients go through.
  std::function<numbers(const std::vector<numbers>&)> followed{};
};

// What operations say of themselves when they are asked to.
struct found {
  std::string dtypes, gradient;
};
[[nodiscard]] found ask(const operation& asked);

[[nodiscard]] const std::vector<operation>& all();
// The same numbers each time: for each operand, and to weigh the elements of a result with, whose sum has gradients.
[[nodiscard]] std::vector<numbers> drawn(const operation& asked);
[[nodiscard]] numbers weights(std::size_t count);
// Those with parameters: named "l", of inputs alone, without a definition.
[[nodiscard]] const std::vector<operation>& layers();
[[nodiscard]] std::string layers_markdown();
// docs/operations.md
[[nodiscard]] std::string markdown();

// One of each file.
void add_attention(std::vector<operation>& list);
void add_ctc(std::vector<operation>& list);
void add_elementwise(std::vector<operation>& list);
void add_angles(std::vector<operation>& list);
void add_rounding(std::vector<operation>& list);
void add_activations(std::vector<operation>& list);
void add_interpolation(std::vector<operation>& list);
void add_probability(std::vector<operation>& list);
void add_reductions(std::vector<operation>& list);
void add_losses(std::vector<operation>& list);
void add_windows(std::vector<operation>& list);
void add_products(std::vector<operation>& list);
void add_shape(std::vector<operation>& list);
void add_scans(std::vector<operation>& list);
void add_statistics(std::vector<operation>& list);

}  // namespace operations
