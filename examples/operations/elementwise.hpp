// SPDX-License-Identifier: MIT
// Short ways to write rows of functions that go element by element.
#pragma once
#include "operation.hpp"

#include <algorithm>
#include <cmath>

namespace operations {

using values = std::vector<mn::node_value>;

// [..] -> [..]
inline operation unary(const char* call, const char* torch, const char* onnx, double low, double high,
                       double (*of)(double), mn::node_value (*build)(mn::node_value), mn::dtype type = mn::dtype::f32) {
  const auto definition = [of](const std::vector<numbers>& x) {
    numbers y(x[0].size());
    std::transform(x[0].begin(), x[0].end(), y.begin(), of);
    return y;
  };
  return {call,
          "[..] -> [..]",
          torch,
          onnx,
          {{{3, 5}, low, high, type}},
          [build](const values& x) { return build(x[0]); },
          definition};
}

// [..], [..] -> [..], broadcast: the second is a row.
inline operation binary(const char* call, const char* torch, const char* onnx, operand a, operand b,
                        double (*of)(double, double), mn::node_value (*build)(mn::node_value, mn::node_value)) {
  a.extents = {3, 5}, b.extents = {5};
  const auto definition = [of](const std::vector<numbers>& x) {
    numbers y(x[0].size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = of(x[0][i], x[1][i % 5]);
    return y;
  };
  return {call,      "[..], [..] -> [..]", torch, onnx, {a, b}, [build](const values& x) { return build(x[0], x[1]); },
          definition};
}

// [..], [..], [..] -> [..], broadcast: the first is a matrix, the second a row, the third a number.
inline operation ternary(const char* call, const char* torch, const char* onnx, operand a, operand b, operand c,
                         double (*of)(double, double, double),
                         mn::node_value (*build)(mn::node_value, mn::node_value, mn::node_value)) {
  a.extents = {3, 5}, b.extents = {5}, c.extents = {1};
  const auto definition = [of](const std::vector<numbers>& x) {
    numbers y(x[0].size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = of(x[0][i], x[1][i % 5], x[2][0]);
    return y;
  };
  return {call,      "[..], [..], [..] -> [..]",
          torch,     onnx,
          {a, b, c}, [build](const values& x) { return build(x[0], x[1], x[2]); },
          definition};
}

inline operand floats(double low, double high) { return {{}, low, high}; }
inline operand integers(double low, double high) { return {{}, low, high, mn::dtype::i32}; }

#define UNARY(name, torch, onnx, low, high, definition)                                   \
  list.push_back(unary(                                                                   \
      #name "(x)", torch, onnx, low, high, [](double x) -> double { return definition; }, \
      [](mn::node_value x) { return mn::name(x); }))
#define BINARY(call, torch, onnx, a_range, b_range, definition, built)                              \
  list.push_back(binary(                                                                            \
      call, torch, onnx, a_range, b_range, [](double a, double b) -> double { return definition; }, \
      [](mn::node_value a, mn::node_value b) -> mn::node_value { return built; }))
#define TERNARY(call, torch, onnx, a_range, b_range, c_range, definition, built)                                       \
  list.push_back(ternary(                                                                                              \
      call, torch, onnx, a_range, b_range, c_range, [](double a, double b, double c) -> double { return definition; }, \
      [](mn::node_value a, mn::node_value b, mn::node_value c) -> mn::node_value { return built; }))

}  // namespace operations
