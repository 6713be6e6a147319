// SPDX-License-Identifier: MIT
// Central differences in f64.
#include <oracle/gradient_check.hpp>
#include <oracle/tolerance.hpp>

#include <algorithm>
#include <cmath>

namespace meganeura::inline MEGANEURA_ABI::oracle {

node_id weighted_sum(graph& g, node_id output, tensors<double>& leaves, std::uint64_t seed) {
  const shape extents = g[output].extents;
  const std::string name = "weights " + to_string(extents) + std::to_string(seed);
  leaves[name] = random_tensor(extents, seed, 0.5, 1.5);
  const node_id known = g.find_leaf(name), weights = known != no_id ? known : g.input(name, dtype::f32, extents);
  const node_id product = g.multiply(g.cast(output, dtype::f32), weights);
  return g.reduce(reduce_kind::sum, product, (1u << extents.rank()) - 1);
}

tensor<double> numeric_gradient(const graph& g, node_id loss, node_id wrt, const tensors<double>& leaves) {
  interpreter<double> run(g, leaves);
  tensor<double>& point = run.leaves.at(g.get<leaf_attribute>(wrt).name);
  tensor<double> result(point.extents);
  for (std::int64_t i = 0; i < point.extents.elements(); ++i) {
    const double center = point[i];
    double sides[2]{};
    for (int side = 0; side < 2; ++side) {
      point[i] = center + (side == 0 ? -difference_step : difference_step);
      run.clear();
      sides[side] = run.value(loss)[0];
    }
    point[i] = center;
    result[i] = (sides[1] - sides[0]) / (2 * difference_step);
  }
  return result;
}

double gradient_error(graph& g, node_id output, const std::vector<node_id>& wrt, tensors<double> leaves) {
  const node_id loss = weighted_sum(g, output, leaves);
  const std::vector<node_id> symbolic = gradients(g, loss, wrt);
  interpreter<double> run(g, leaves);
  double worst = 0;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    worst = std::max(worst, relative_error(run.value(symbolic[i]), numeric_gradient(g, loss, wrt[i], leaves)));
  }
  return worst;
}

double second_gradient_error(graph& g, node_id output, const std::vector<node_id>& wrt, tensors<double> leaves) {
  const node_id loss = weighted_sum(g, output, leaves);
  node_id total = no_id;
  std::uint64_t seed = 100;
  for (node_id first : gradients(g, loss, wrt)) {
    const node_id term = weighted_sum(g, first, leaves, seed++);
    total = total == no_id ? term : g.add(total, term);
  }
  const std::vector<node_id> symbolic = gradients(g, total, wrt);
  interpreter<double> run(g, leaves);
  double worst = 0;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const tensor<double> numeric = numeric_gradient(g, total, wrt[i], leaves);
    const tensor<double>& found = run.value(symbolic[i]);
    const bool both_zero = relative_error(found, tensor<double>(found.extents)) == 0 &&
                           std::all_of(numeric.values.begin(), numeric.values.end(),
                                       [](double value) { return std::fabs(value) < gradient_tolerance; });
    worst = std::max(worst, both_zero ? 0.0 : relative_error(found, numeric));
  }
  return worst;
}

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
