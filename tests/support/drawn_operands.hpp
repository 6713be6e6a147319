// SPDX-License-Identifier: MIT
// Operands for the operations that examples/operations lists.
#pragma once
#include <operations/operation.hpp>
#include <oracle/tensor.hpp>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

struct drawn_operands {
  std::vector<node_value> values;
  std::vector<operations::numbers> numbers;
};

/// Inputs of `g`, named by `prefix` and their places, with numbers that `leaves` gets as well.
inline drawn_operands draw_operands(graph& g, const operations::operation& asked, const std::string& prefix,
                                    oracle::tensors<double>& leaves) {
  std::mt19937_64 random(7);
  drawn_operands result;
  for (const operations::operand& x : asked.operands) {
    const std::string name = prefix + std::to_string(result.values.size());
    result.values.emplace_back(g, g.input(name, x.type, x.extents));
    std::uniform_real_distribution<double> draw(x.low, x.high);
    operations::numbers& list = result.numbers.emplace_back(static_cast<std::size_t>(x.extents.elements()));
    for (double& number : list) number = is_float(x.type) ? static_cast<float>(draw(random)) : std::floor(draw(random));
    leaves[name] = {x.extents, list, x.type};
  }
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
