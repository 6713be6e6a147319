// SPDX-License-Identifier: MIT
// Gradients against central differences of the f64 oracle.
#pragma once
#include <meganeura/autodiff/gradient.hpp>

#include <oracle/interpreter.hpp>

#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::oracle {

/// What `gradient_error` may return: central differences with the step below are wrong by step^2 times the third
/// derivative and by f64 rounding / step, both far below this for inputs of ordinary size.
inline constexpr double gradient_tolerance = 1e-6;
inline constexpr double difference_step = 1e-5;

/// The sum of `output` weighted with a fixed random tensor: a scalar whose gradient is not blind to signs and
/// symmetries.
[[nodiscard]] node_id weighted_sum(graph& g, node_id output, tensors<double>& leaves, std::uint64_t seed = 77);

/// The gradient of a scalar by the leaf `wrt`, one pair of evaluations an element.
[[nodiscard]] tensor<double> numeric_gradient(const graph& g, node_id loss, node_id wrt, const tensors<double>& leaves);

/// The largest relative error over all of `wrt` of the gradients of weighted_sum(output).
[[nodiscard]] double gradient_error(graph& g, node_id output, const std::vector<node_id>& wrt, tensors<double> leaves);

/// The same for the second order: gradients of weighted sums of the first gradients.
[[nodiscard]] double second_gradient_error(graph& g, node_id output, const std::vector<node_id>& wrt,
                                           tensors<double> leaves);

/// How `output` changes when the leaves of floats `wrt` move along `tangents`: the forward-mode product of the
/// Jacobian. By two products of reverse mode: seeds -> seeds J is linear, and its own gradient along the tangents is J
/// tangents.
[[nodiscard]] node_id forward_product(graph& g, node_id output, const std::vector<node_id>& wrt,
                                      const std::vector<node_id>& tangents);

/// The largest relative error of forward_product along random tangents against a central difference.
[[nodiscard]] double forward_error(graph& g, node_id output, const std::vector<node_id>& wrt, tensors<double> leaves);

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
