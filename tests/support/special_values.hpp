// SPDX-License-Identifier: MIT
// Element-wise functions at special values, tables of them, and as types beside values of run time.
#pragma once
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>

#include <oracle/interpreter.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace mn = meganeura;

namespace meganeura::inline MEGANEURA_ABI::support {

using numbers = std::vector<double>;

inline constexpr double inf = INFINITY, none = NAN;  // none: not a number

// Floats rounded to f32 after every operation, integers whole.
inline numbers run_rounded(graph& g, node_id result, const oracle::tensors<double>& leaves) {
  oracle::interpreter<double> machine(g, leaves);
  machine.on_scalar = [](const scalar_node& node, dtype, double, double, double& y) {
    if (is_float(node.type)) y = static_cast<float>(y);
  };
  return machine.value(result).values;
}

// Of operands of one length each: the value and, if asked for, the gradient by the first operand.
struct evaluated {
  graph g;
  oracle::tensors<double> leaves;
  std::vector<node_value> x;

  explicit evaluated(const std::vector<numbers>& operands) {
    for (const numbers& list : operands) {
      const std::string name = "x" + std::to_string(x.size());
      const shape extents{static_cast<std::int64_t>(list.size())};
      x.emplace_back(g, g.input(name, dtype::f32, extents));
      leaves[name] = {extents, list, dtype::f32};
      for (double& number : leaves[name].values) number = static_cast<float>(number);
    }
  }
  numbers value(node_value y) { return run_rounded(g, y.id(), leaves); }
  numbers slope(node_value y, std::size_t operand = 0) {
    const node_id wrt[] = {x[operand].id()};
    return run_rounded(g, reached_gradients(g, sum(y).id(), wrt)[0], leaves);
  }
};

inline void expect_near(const char* call, const numbers& found, const numbers& expected, double tolerance = 2e-6) {
  ASSERT_EQ(found.size(), expected.size()) << call;
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE(std::string(call) + " at " + std::to_string(i));
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << found[i];
    } else if (std::isinf(expected[i]) || expected[i] == 0) {
      EXPECT_EQ(found[i], expected[i]);
    } else {
      EXPECT_NEAR(found[i] / expected[i], 1, tolerance) << found[i] << " for " << expected[i];
    }
  }
}

struct unary_case {
  const char* call;
  node_value (*build)(node_value);
  numbers x, y, slope;  // {}: not looked at
};
inline void expect_all(const std::vector<unary_case>& cases) {
  for (const unary_case& each : cases) {
    evaluated at({each.x});
    const node_value y = each.build(at.x[0]);
    expect_near(each.call, at.value(y), each.y);
    if (!each.slope.empty()) expect_near(("slope of " + std::string(each.call)).c_str(), at.slope(y), each.slope);
  }
}

struct binary_case {
  const char* call;
  node_value (*build)(node_value, node_value);
  numbers a, b, y, slope_a, slope_b;
};
inline void expect_all(const std::vector<binary_case>& cases) {
  for (const binary_case& each : cases) {
    evaluated at({each.a, each.b});
    const node_value y = each.build(at.x[0], at.x[1]);
    expect_near(each.call, at.value(y), each.y);
    if (!each.slope_a.empty()) expect_near(("by a: " + std::string(each.call)).c_str(), at.slope(y), each.slope_a);
    if (!each.slope_b.empty()) expect_near(("by b: " + std::string(each.call)).c_str(), at.slope(y, 1), each.slope_b);
  }
}

// One graph, of types as of values of run time, in every dtype of floats.
template <class Functions, dtype Type>
void expect_same_graph() {
  using made = model<Functions, meganeura::input<"x", Type, dims<2, 3>>>;
  graph g;
  const node_id typed = lower_into<made>(g, {})[0];
  const std::string before = to_text(g);
  EXPECT_EQ(Functions::forward(node_value(g, g.find_leaf("x"))).id(), typed);
  EXPECT_EQ(to_text(g), before);
}

}  // namespace meganeura::inline MEGANEURA_ABI::support

// Rows of the tables.
#define UNARY(name, ...)                                                               \
  {                                                                                    \
#name, [](mn::node_value x) -> mn::node_value { return mn::name(x); }, __VA_ARGS__ \
  }
#define BINARY(name, ...)                                                                                   \
  {                                                                                                         \
#name, [](mn::node_value l, mn::node_value r) -> mn::node_value { return mn::name(l, r); }, __VA_ARGS__ \
  }
