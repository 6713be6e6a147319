// SPDX-License-Identifier: MIT
// Models on tiny shapes against float64 figures of PyTorch: outputs, loss, every parameter's gradient. Weights are made
// from names alone, bit-exact on every machine.
#pragma once
#include <meganeura/core/shape.hpp>
#include <meganeura/graph/graph.hpp>

#include <support/named_weights.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// fn(step * i), computed in double and rounded once.
[[nodiscard]] std::vector<float> wave(double (*fn)(double), double step, std::size_t count);

struct bound_values {
  std::string name;
  dtype type;
  std::vector<std::byte> bytes;
};
[[nodiscard]] bound_values bound(std::string name, const std::vector<float>& values);
[[nodiscard]] bound_values bound(std::string name, const std::vector<std::int32_t>& values);

/// The largest relative deviations allowed: of outputs and the loss, and of each gradient's length; of one that f32
/// cannot hold so well, four times what it is off by if each node is computed by itself.
struct reference_tolerance {
  double output, gradient;
  double least = 1e-4;  // of all gradients together: a shorter one is what cancellation left, and measured against this
};

/// Runs the graph's `output` and `loss` with the gradients of all parameters on a device and compares them with what
/// tests/reference/FILE.json has of the workload.
void expect_reference(const std::string& file, const std::string& workload, graph g, node_id output, node_id loss,
                      std::span<const bound_values> inputs, reference_tolerance within);

}  // namespace meganeura::inline MEGANEURA_ABI::support
