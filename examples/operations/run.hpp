// SPDX-License-Identifier: MIT
// Operations of the list, run on a device with their gradients.
#pragma once
#include <meganeura/runtime/device.hpp>

#include <string>
#include <vector>

#include "operation.hpp"

namespace operations {

// What came out for drawn(operation).
struct outcome {
  mn::dtype type{};
  mn::shape extents;
  numbers result;
  std::vector<numbers> gradients;  // of the sum of the result times weights(), by each operand; none by integers
};

// A few at a time: each list becomes one program.
[[nodiscard]] std::vector<outcome> run(const mn::device& on, const std::vector<const operation*>& list);

// As JSON for tests/peers/torch_layers.py: what layers and their parameters are given and what comes out.
[[nodiscard]] std::string layers_json(const mn::device& on);
// As JSON for tests/peers/torch_operations.py: what operations are given and what comes out.
[[nodiscard]] std::string json(const mn::device& on);

}  // namespace operations
