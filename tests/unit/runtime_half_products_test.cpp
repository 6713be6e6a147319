// SPDX-License-Identifier: MIT
// Products of f16 and bf16 tensors and their gradients on the device, at any batch, against the interpreter.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>
#include <meganeura/runtime/program.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/device_fixture.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/program_values.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

inline constexpr dim batch = sym<"batch">;

struct linears {
  static constexpr auto forward(value auto x) { return linear<"fc", 4>(x); }
};
template <int Terms, dtype Type = dtype::f16>
using layer = model<linears, input<"x", Type, dims<batch, Terms>>>;

struct attention {
  static constexpr auto forward(value auto q, value auto k, value auto v) { return attend<>(q, k, v); }
};
template <fixed_string Name>
using heads = input<Name, dtype::f16, dims<batch, 5, 2, 4>>;
using attending = model<attention, heads<"q">, heads<"k">, heads<"v">>;

// The output, and the gradient of its sum against some weights for every leaf.
graph with_gradients(graph g) {
  const node_id y = g.outputs()[0].node, seed = g.input("seed", g[y].type, shape(g[y].extents));
  std::vector<node_id> leaves = g.leaves(op::parameter);
  for (node_id id : g.leaves(op::input)) {
    if (id != seed) leaves.push_back(id);
  }
  const std::vector<node_id> found = gradients(g, std::span(&y, 1), std::span(&seed, 1), leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    g.add_output("d " + std::string(g.get<leaf_attribute>(leaves[i]).name), found[i]);
  }
  return g;
}

void expect_agrees(const graph& g, std::int64_t length) {
  const device& gpu = support::shared_device();
  if (!support::shared_profile().f16) GTEST_SKIP() << "needs f16";
  oracle::tensors<double> leaves = samples::random_leaves(g);
  parameters weights(gpu, g);
  for (auto& [name, value] : leaves) {
    for (double& element : value.values) element = oracle::stored(element, value.type);
    if (weights.layout().find(name)) weights.set(name, std::vector<float>(value.values.begin(), value.values.end()));
  }
  program run(gpu, g, weights);
  support::set_inputs(run, g, leaves);
  run.submit({});
  const dtype type = g[g.leaves(op::input)[0]].type;
  for (const auto& [name, expected] : oracle::interpreter<double>(g, leaves).run()) {
    const auto found = support::loaded(run.output(name), expected.type, expected.extents);
    EXPECT_LE(oracle::relative_error(found, expected), oracle::tolerance(type, length)) << name;
  }
}

TEST(runtime_half_products, linear_at_any_batch) {
  for (std::int64_t rows : {1, 8, 33}) {
    expect_agrees(with_gradients(lower<layer<16>>({{"batch", rows}})), 33);
    expect_agrees(with_gradients(lower<layer<1000>>({{"batch", rows}})), 1000);
    expect_agrees(with_gradients(lower<layer<16, dtype::bf16>>({{"batch", rows}})), 33);
    expect_agrees(with_gradients(lower<layer<1000, dtype::bf16>>({{"batch", rows}})), 1000);
  }
}

TEST(runtime_half_products, long_sums) {
  expect_agrees(with_gradients(lower<layer<70000>>({{"batch", 2}})), 70000);
  expect_agrees(with_gradients(lower<layer<2>>({{"batch", 70000}})), 70000);
}

TEST(runtime_half_products, attention_at_any_batch) {
  for (std::int64_t rows : {1, 8}) expect_agrees(with_gradients(lower<attending>({{"batch", rows}})), 64);
}

TEST(runtime_half_products, results_as_f32) {
  for (std::int64_t rows : {1, 8}) {
    graph g;
    const node_id x = g.input("x", dtype::f16, {rows, 100}), w = g.parameter("w", dtype::f16, {100, 6});
    g.add_output("y", g.cast(g.contract(x, w, "mk", "kn", "mn"), dtype::f32));
    expect_agrees(g, 100);
  }
}

}  // namespace
