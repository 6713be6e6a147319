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

node_id forward_product(graph& g, node_id output, const std::vector<node_id>& wrt,
                        const std::vector<node_id>& tangents) {
  const node_id seed = g.input("seed of %" + std::to_string(output), g[output].type, shape(g[output].extents));
  const std::vector<node_id> pulled = gradients(g, std::span(&output, 1), std::span(&seed, 1), wrt);
  return gradients(g, pulled, tangents, std::span(&seed, 1))[0];
}

double forward_error(graph& g, node_id output, const std::vector<node_id>& wrt, tensors<double> leaves) {
  std::vector<node_id> tangents;
  tensors<double> along;  // by the names of the leaves
  for (node_id leaf : wrt) {
    const std::string name = g.get<leaf_attribute>(leaf).name, tangent = "tangent of " + name;
    tangents.push_back(g.input(tangent, g[leaf].type, shape(g[leaf].extents)));
    along[name] = leaves[tangent] = random_tensor(shape(g[leaf].extents), 300 + tangents.size(), -1, 1);
  }
  const node_id product = forward_product(g, output, wrt, tangents);
  leaves["seed of %" + std::to_string(output)] = random_tensor(shape(g[output].extents), 400, 0.5, 1.5);  // any
  interpreter<double> run(g, leaves);
  const tensor<double> found = run.value(product);
  tensor<double> sides[2];
  for (int side = 0; side < 2; ++side) {
    for (const auto& [name, tangent] : along) {
      tensor<double>& point = run.leaves.at(name);
      for (std::size_t i = 0; i < point.values.size(); ++i)
        point.values[i] =
            leaves.at(name).values[i] + (side == 0 ? -difference_step : difference_step) * tangent.values[i];
    }
    run.clear();
    sides[side] = run.value(output);
  }
  tensor<double> numeric = sides[1];
  for (std::size_t i = 0; i < numeric.values.size(); ++i)
    numeric.values[i] = (sides[1].values[i] - sides[0].values[i]) / (2 * difference_step);
  return relative_error(found, numeric);
}

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
