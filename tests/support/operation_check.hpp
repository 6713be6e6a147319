// SPDX-License-Identifier: MIT
// What the operations that examples/operations lists are tested by: operands, distances, differences.
#pragma once
#include <operations/operation.hpp>
#include <oracle/tensor.hpp>

#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

struct drawn_operands {
  std::vector<node_value> values;
  std::vector<operations::numbers> numbers;
};

/// Inputs of `g`, named by `prefix` and their places, with numbers that `leaves` gets as well.
inline drawn_operands draw_operands(graph& g, const operations::operation& asked, const std::string& prefix,
                                    oracle::tensors<double>& leaves) {
  drawn_operands result;
  result.numbers = operations::drawn(asked);
  for (const operations::operand& x : asked.operands) {
    const std::string name = prefix + std::to_string(result.values.size());
    leaves[name] = {x.extents, result.numbers[result.values.size()], x.type};
    result.values.emplace_back(g, g.input(name, x.type, x.extents));
  }
  return result;
}

/// The largest difference beside the largest number, or 1; NaN or infinite where one alone is.
inline double distance(const operations::numbers& found, const operations::numbers& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double scale = 1, worst = 0;
  for (const double x : expected) scale = std::isfinite(x) ? std::fmax(scale, std::fabs(x)) : scale;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) continue;
    const double difference = std::fabs(found[i] - expected[i]);
    worst = difference <= worst ? worst : difference;  // NaN stays
  }
  return worst / scale;
}

/// The gradient of the sum of the result times `weights` by one operand, from central differences of the definition, or
/// of what the gradient follows instead.
inline operations::numbers slope(const operations::operation& asked, std::vector<operations::numbers> at,
                                 std::size_t operand) {
  constexpr double step = 1e-5;
  const operations::numbers by = operations::weights(asked.definition(at).size());
  const auto& followed = asked.followed ? asked.followed : asked.definition;
  const auto sum = [&] {
    const operations::numbers list = followed(at);
    return std::inner_product(list.begin(), list.end(), by.begin(), 0.0);
  };
  operations::numbers result;
  for (double& x : at[operand]) {
    const double middle = x;
    x = middle + step;
    const double above = sum();
    x = middle - step;
    result.push_back((above - sum()) / (2 * step));
    x = middle;
  }
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
