// SPDX-License-Identifier: MIT
// Graphs of chosen kernels, some at random, and whether a plan computes them.
#pragma once
#include <meganeura/fusion/structural_rules.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <support/plan_executor.hpp>
#include <support/random_graph.hpp>
#include <support/random_program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

inline index_map dense(const shape& extents, int source) {
  index_map found = fusion::detail::dense_access(extents);
  found.source = source;
  return found;
}

// A pointwise region: sin of the sum of its operands; with a second result, their sum, if that is asked for.
inline node_id region(graph& g, const std::vector<node_id>& operands, bool two = false) {
  const shape extents = g[operands[0]].extents;
  scalar_builder b;
  region_attribute made{
      .space = extents, .row_axes = 0, .per_row = false, .program = {}, .accesses = {}, .output = dense(extents, 0)};
  scalar_ref sum = b.argument(0, dtype::f32);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    made.accesses.push_back(dense(extents, static_cast<int>(i)));
    if (i > 0) sum = b.binary(scalar_op::add, sum, b.argument(static_cast<int>(i), dtype::f32));
  }
  scalar_ref results[] = {b.unary(scalar_op::sin, sum), sum};
  made.program = b.finish(std::span(results, two ? 2 : 1));
  if (two) made.further = {{.value = results[1], .output = dense(extents, 0), .type = dtype::f32, .extents = extents}};
  return g.add_node(op::region, dtype::f32, extents, made, operands);
}
inline node_id named(graph& g, node_id several, std::size_t index) {
  return g.add_node(op::result, dtype::f32, g[several].extents, result_attribute{index}, std::span(&several, 1));
}

// Kernels of one and of two results that read what others made lately and long ago, states, and gradients.
inline graph random_kernels(std::uint64_t seed, int kernels) {
  dice d(seed ^ 0x9e0);
  graph g;
  std::vector<node_id> values, pairs;
  for (const char* name : {"x", "y"}) values.push_back(g.input(name, dtype::f32, {8 * d.between(1, 40)}));
  const shape size = g[values[0]].extents;
  values[1] = g.parameter("w", dtype::f32, size);
  const node_id state = g.state("s", dtype::f32, size);
  values.push_back(state);
  for (int i = 0; i < kernels; ++i) {
    std::vector<node_id> operands;
    for (std::int64_t n = d.between(1, 3); n > 0; --n) {
      const auto back = static_cast<std::size_t>(d.below(d.chance(0.6) ? 3 : static_cast<std::int64_t>(values.size())));
      operands.push_back(values[values.size() - 1 - std::min(back, values.size() - 1)]);
    }
    const bool two = d.chance(0.3);
    const node_id made = region(g, operands, two);
    if (!two || d.chance(0.8)) values.push_back(two ? named(g, made, 1) : made);
    if (two) values.push_back(named(g, made, 0));
  }
  g.add_output("last", values.back());
  for (int i = 0; i < 2; ++i) {
    const node_id value = d.pick(values);
    if (g.find_output("other") == no_id && d.chance(0.4)) g.add_output("other", value);
  }
  if (d.chance(0.5)) g.assign(state, d.pick(values));
  pairs = {g.find_leaf("w"), d.pick(values)};
  if (d.chance(0.5)) g.optimizer_step(optimizer(sgd{.learning_rate = 0.5f}).rule(), pairs);
  return pruned(g);
}

inline void compare(const plan::execution_plan& p, const graph& source, verdict& v) {
  plan::verify(p);
  oracle::tensors<double> leaves;
  std::uint64_t seed = 0;
  for (const op kind : {op::input, op::parameter, op::state}) {
    for (node_id leaf : source.leaves(kind)) {
      const std::string& name = source.get<leaf_attribute>(leaf).name;
      leaves[name] = oracle::random_tensor<double>(source[leaf].extents, ++seed);
      round_as_memory(leaves[name]);
    }
  }
  plan_executor bytes(p, 1);
  oracle::interpreter<double> truth(source, leaves);
  truth.on_stored = [](node_id, oracle::tensor<double>& value) { round_as_memory(value); };
  for (const auto& [name, value] : leaves) bytes.set_leaf(name, value);
  for (int step = 1; step <= 2; ++step) {
    truth.clear();
    const auto expected = truth.run(), found = bytes.run({});
    for (const auto& [name, value] : expected) {
      ++v.compared;
      if (found.at(name).values != value.values) v.fail("output \"" + name + "\" of step " + std::to_string(step));
    }
    for (auto& [name, value] : truth.leaves) round_as_memory(value);
    for (const auto& [name, value] : bytes.leaves()) {
      ++v.compared;
      if (truth.leaves.at(name).values != value.values) v.fail("\"" + name + "\" after step " + std::to_string(step));
    }
  }
}
// What a plan computes is what the graph says that it was made of.
inline void expect_computes(const plan::execution_plan& p, const graph& source) {
  verdict v;
  compare(p, source, v);
  EXPECT_FALSE(v.failed()) << v.text;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
