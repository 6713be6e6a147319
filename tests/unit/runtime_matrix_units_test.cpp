// SPDX-License-Identifier: MIT
// Products of graphs on matrix units: how precise they are, and what keeps them away.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/fusion/product_schedules.hpp>
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
    const node& n = g[output.node];
    const std::vector<double> found = support::loaded(run.output(output.name), n.type, n.extents).values;
    const std::vector<double>& truth = expected.at(output.name).values;
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double difference = found[i] - truth[i];
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

// Workgroups that each add up a part of the same sums, with what stands behind the product, and in the next step again.
TEST(runtime_matrix_units, parts_of_sums_meet_in_each_step) {
  const device& gpu = support::shared_unit_device();
  graph g;
  const node_id x = g.input("x", dtype::f32, {24, 192}), w = g.parameter("w", dtype::f32, {36, 192});
  const node_id v = g.parameter("v", dtype::f32, {36, 192}), b = g.parameter("b", dtype::f32, {24, 36});
  const auto product = [&](node_id of) { return g.contract(x, of, "mk", "nk", "mn"); };
  g.add_output("y", g.add(product(w), b));
  g.add_output("z", product(v));
  const oracle::tensors<double> leaves = samples::random_leaves(g);
  std::size_t in_parts = 0;
  for (std::size_t schedule = 0; schedule < 400 && in_parts < 2; ++schedule) {
    const program_options options = forced(precision::exact, schedule);
    const graph made = fusion::optimize(g, detail::optimization_on(gpu, options));
    std::uint32_t parts = 1;
    for (node_id id{0}; id < made.size(); ++id) {
      if (const auto* each = std::get_if<matmul_attribute>(&made.attribute_of(id))) parts = each->schedule.parts;
    }
    if (parts == 1) continue;
    ++in_parts;
    EXPECT_LE(worst_error(g, options), 1e-6) << schedule;
    parameters weights(gpu, g);
    weights.init();
    program run(gpu, g, weights, options);
    EXPECT_GT(run.plan().area_bytes[plan::index_of(plan::area::arrivals)], 0u);
    std::vector<std::vector<double>> results;
    for (int step = 0; step < 4; ++step) {
      for (int i = step % 2; i < 2; ++i) {  // two of them are under way at once
        support::set_inputs(run, g, leaves);
        run.submit();
      }
      for (const char* name : {"y", "z"}) {
        results.push_back(support::loaded(run.output(name), dtype::f32, {24, 36}).values);
        EXPECT_EQ(results.back(), results[1 - results.size() % 2]) << name << " of step " << step;
      }
    }
  }
  EXPECT_EQ(in_parts, 2u);
}

TEST(runtime_matrix_units, who_does_not_want_them_has_none) {
  const graph g = with_gradients(lower<net>());
  std::size_t on_units = 1;
  program_options options = forced(precision::fast, 0);
  options.optimize.matrix_units = false;
  EXPECT_LE(worst_error(g, options, &on_units), 1e-6);
  EXPECT_EQ(on_units, 0u);
  options = forced(precision::exact, 0);
  options.optimize.tolerance = egraph::exactness::exact;
  EXPECT_LE(worst_error(g, options, &on_units), 1e-6);
  EXPECT_EQ(on_units, 0u) << "another order of sums";
}

// On units although regions would be quicker for sizes of a test.
program_options forced_half(precision wanted, std::size_t schedule) {
  program_options options = forced(wanted, schedule);
  options.device_costs = false;
  options.optimize.device.scalar_flops = 1e6;
  return options;
}

// a [m, k] and b [k, n] or, `turned`, [n, k], of f16; what comes of their product is the output.
template <class Finish>
graph half_product(std::int64_t m, std::int64_t n, std::int64_t k, bool turned, const Finish& finish) {
  graph g;
  const node_id a = g.input("a", dtype::f16, {m, k});
  const node_id b = turned ? g.parameter("b", dtype::f16, {n, k}) : g.parameter("b", dtype::f16, {k, n});
  g.add_output("y", finish(g, a, b, turned ? "jk" : "kj"));
  return g;
}

// Rounded once, to f16 or not at all.
constexpr double half_error = 4e-4;

TEST(runtime_matrix_units, products_of_f16_are_read_where_they_lie) {
  const auto product = [](graph& g, node_id a, node_id b, const char* labels) {
    return g.contract(a, b, "ik", labels, "ij");
  };
  std::size_t on_units = 0;
  for (const bool turned : {false, true}) {
    for (const std::size_t schedule : {0, 5, 11}) {
      const graph g = half_product(40, 24, 48, turned, product);
      EXPECT_LE(worst_error(g, forced_half(precision::exact, schedule), &on_units), half_error);
      EXPECT_EQ(on_units, 1u);
      EXPECT_LE(worst_error(with_gradients(g), forced_half(precision::exact, schedule), &on_units), half_error);
      EXPECT_EQ(on_units, 2u) << "b's gradient too";
    }
  }
  // Results need no order of eights; of operands that have none the values are multiplied in f32.
  EXPECT_LE(worst_error(half_product(5, 7, 40, true, product), forced_half(precision::exact, 0), &on_units),
            half_error);
  EXPECT_EQ(on_units, 1u);
  EXPECT_LE(worst_error(half_product(40, 24, 20, false, product), forced_half(precision::exact, 0), &on_units),
            half_error);
  EXPECT_EQ(on_units, 1u);
  EXPECT_LE(worst_error(half_product(40, 28, 48, false, product), forced_half(precision::exact, 0), &on_units),
            half_error);
  EXPECT_EQ(on_units, 1u);
}

TEST(runtime_matrix_units, products_of_f16_end_and_begin_with_what_surrounds_them) {
  const auto map = [](graph& g, scalar_op op, node_id of, dtype type) {
    scalar_builder build;
    const scalar_ref x = build.argument(0, g[of].type);
    return g.map(build.finish(op == scalar_op::convert ? build.convert(x, type) : build.unary(op, x)),
                 std::span(&of, 1), type);
  };
  std::size_t on_units = 0;
  const graph activated = half_product(40, 24, 48, false, [&](graph& g, node_id a, node_id b, const char* labels) {
    return map(g, scalar_op::tanh, g.contract(a, b, "ik", labels, "ij"), dtype::f16);
  });
  EXPECT_LE(worst_error(activated, forced_half(precision::exact, 1), &on_units), half_error);
  EXPECT_EQ(on_units, 1u);
  // In f32 the units' roundings on the way are `fast`.
  const graph converted = half_product(40, 24, 48, true, [&](graph& g, node_id a, node_id b, const char* labels) {
    return g.contract(map(g, scalar_op::convert, a, dtype::f32), map(g, scalar_op::convert, b, dtype::f32), "ik",
                      labels, "ij");
  });
  EXPECT_LE(worst_error(converted, forced_half(precision::fast, 0), &on_units), 1e-6)
      << "products of f16 are exact in f32";
  EXPECT_EQ(on_units, 1u);
  EXPECT_LE(worst_error(converted, forced_half(precision::exact, 0), &on_units), 1e-6);
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
