// SPDX-License-Identifier: MIT
// Products of graphs on matrix units: how precise they are, and what keeps them away.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>
#include <meganeura/runtime/program.hpp>

#include <oracle/interpreter.hpp>
#include <support/device_fixture.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/program_values.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

struct two_layers {
  static constexpr auto forward(value auto x) { return linear<"down", 20>(gelu(linear<"up", 36>(x))); }
};
using net = model<two_layers, input<"x", dtype::f32, dims<24, 40>>>;

// The output, and the gradient of its sum against some weights for every parameter.
graph with_gradients(graph g) {
  const node_id y = g.outputs()[0].node, seed = g.input("seed", g[y].type, shape(g[y].extents));
  const std::vector<node_id> leaves = g.leaves(op::parameter);
  const std::vector<node_id> found = gradients(g, std::span(&y, 1), std::span(&seed, 1), leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    g.add_output("d " + std::string(g.get<leaf_attribute>(leaves[i]).name), found[i]);
  return g;
}

std::size_t products_on_units(const graph& implementation) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < implementation.size(); ++i) {
    const auto* product = std::get_if<matmul_attribute>(&implementation.attribute_of(node_id(i)));
    count += product != nullptr && product->schedule.is_on_units();
  }
  return count;
}

// Frobenius norm of the worst output's error over that of the output.
double worst_error(const graph& g, const program_options& options, std::size_t* on_units = nullptr,
                   const device& gpu = support::shared_unit_device()) {
  const oracle::tensors<double> leaves = samples::random_leaves(g);
  parameters weights(gpu, g);
  for (const plan::named_tensor& each : weights.layout().tensors)
    weights.set_bytes(each.name, support::stored_bytes(leaves.at(each.name)));
  program run(gpu, g, weights, options);
  if (on_units != nullptr) *on_units = products_on_units(run.plan().implementation);
  support::set_inputs(run, g, leaves);
  run.submit();
  const oracle::tensors<double> expected = oracle::interpreter<double>(g, leaves).run();
  double worst = 0;
  for (const graph_output& output : g.outputs()) {
    const std::vector<float> found = run.output_as<float>(output.name);
    const std::vector<double>& truth = expected.at(output.name).values;
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double difference = static_cast<double>(found[i]) - truth[i];
      error += difference * difference, norm += truth[i] * truth[i];
    }
    worst = std::max(worst, std::sqrt(error / norm));
    if (std::isnan(error)) return 1;
  }
  return worst;
}

program_options forced(precision wanted, std::size_t schedule) {
  program_options options;
  options.precision = wanted;
  options.optimize.schedule = schedule;
  return options;
}

TEST(runtime_matrix_units, products_and_their_gradients_are_as_precise_as_asked) {
  const graph g = with_gradients(lower<net>());
  std::size_t on_units = 0;
  for (const std::size_t schedule : {0, 3}) {
    EXPECT_LE(worst_error(g, forced(precision::exact, schedule), &on_units), 1e-6);
    EXPECT_EQ(on_units, 5u) << "two products, three gradients";
    EXPECT_LE(worst_error(g, forced(precision::fast, schedule), &on_units), 1e-3);
    EXPECT_EQ(on_units, 5u);
  }
  // Units of another shape have schedules of their own, whatever costs these are chosen by: slices are multiples of 32
  // terms here.
  const device& other = support::shared_unit_device<matrix_shape{8, 16, 32}>();
  program_options options = forced(precision::exact, 0);
  options.device_costs = false;
  EXPECT_LE(worst_error(g, options, &on_units, other), 1e-6);
  EXPECT_EQ(on_units, 5u);
}

TEST(runtime_matrix_units, who_does_not_want_them_has_none) {
  const graph g = with_gradients(lower<net>());
  std::size_t on_units = 1;
  program_options options = forced(precision::fast, 0);
  options.optimize.matrix_units = false;
  EXPECT_LE(worst_error(g, options, &on_units), 1e-6);
  EXPECT_EQ(on_units, 0u);
  options = forced(precision::exact, 0);
  options.optimize.tolerance = fusion::exactness::exact;
  EXPECT_LE(worst_error(g, options, &on_units), 1e-6);
  EXPECT_EQ(on_units, 0u) << "another order of sums";
}

// On a device with units of its own.
TEST(runtime_matrix_units, the_cost_decides) {
  device_profile on;
  on.max_shared_bytes = 49152, on.max_invocations = 1024;
  on.matrix_units = matrix_units::cooperative;
  using fusion::best_product;
  EXPECT_EQ(best_product({1, 1024, 1024, 1024}, precision::exact, on).schedule.arithmetic, product_arithmetic::split);
  EXPECT_EQ(best_product({1, 1024, 1024, 1024}, precision::fast, on).schedule.arithmetic, product_arithmetic::rounded);
  EXPECT_EQ(best_product({1, 16, 16, 16}, precision::exact, on).schedule.arithmetic, product_arithmetic::fma);
  on.split.wait *= 1000;  // costs are what decides
  EXPECT_EQ(best_product({1, 1024, 1024, 1024}, precision::exact, on).schedule.arithmetic, product_arithmetic::fma);
  on.matrix_units = matrix_units::none;
  EXPECT_EQ(best_product({1, 1024, 1024, 1024}, precision::fast, on).schedule.arithmetic, product_arithmetic::fma);
}

}  // namespace
