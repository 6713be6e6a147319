// SPDX-License-Identifier: MIT
// Layers with parameters: their names and shapes, which are PyTorch's, and their definitions in plain numbers.
#pragma once
#include <meganeura/expr/value.hpp>
#include <meganeura/operations.hpp>

#include <oracle/tensor.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

struct layer_case {
  std::string call;
  std::vector<shape> inputs;  // of floats, "x0", "x1", ...
  std::map<std::string, shape> parameters;
  std::function<node_value(const std::vector<node_value>&)> build;
  /// Of inputs and parameters by name.
  std::function<std::vector<double>(oracle::tensors<double>&)> definition;
};

[[nodiscard]] const std::vector<layer_case>& layer_cases();

/// The layer in a graph with its output "y", its leaves drawn.
struct built_layer {
  graph g;
  oracle::tensors<double> leaves;
  explicit built_layer(const layer_case& asked);
};

}  // namespace meganeura::inline MEGANEURA_ABI::support
