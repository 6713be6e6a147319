// SPDX-License-Identifier: MIT
// Comparisons, bounds, remainders and the parts of floats.
#include "elementwise.hpp"

#include <array>

namespace operations {

namespace {

double floor_remainder(double a, double b) { return a - std::floor(a / b) * b; }
mn::node_value as_number(mn::node_value condition, mn::node_value like) {
  return mn::select(condition, mn::sign(like) * 0 + 1, 0);
}

void add_comparisons(std::vector<operation>& list) {
  const operand some = integers(-2, 2), any = floats(-2, 2);
  BINARY("greater(a, b)", "gt", "Greater", some, some, double(a > b), as_number(mn::greater(a, b), a));
  BINARY("greater_equal(a, b)", "ge", "GreaterOrEqual", some, some, double(a >= b),
         as_number(mn::greater_equal(a, b), a));
  BINARY("not_equal(a, b)", "ne", "", some, some, double(a != b), as_number(mn::not_equal(a, b), a));
  BINARY("logical_xor(a, b)", "logical_xor", "Xor", some, some, double((a < b) != (b < 1)),
         as_number(mn::logical_xor(mn::less(a, b), mn::less(b, 1)), a));
#define CONDITION(name, torch, onnx, low, high, definition)                               \
  list.push_back(unary(                                                                   \
      #name "(x)", torch, onnx, low, high, [](double x) -> double { return definition; }, \
      [](mn::node_value x) { return as_number(mn::name(mn::sqrt(x)), x); }))
  CONDITION(isnan, "isnan", "IsNaN", -2, 2, double(x < 0));
  CONDITION(isfinite, "isfinite", "", -2, 2, double(x >= 0));
  list.push_back(unary(
      "isinf(x)", "isinf", "IsInf", -2, 2, [](double x) { return double(x >= 0); },
      [](mn::node_value x) { return as_number(mn::isinf(mn::exp(x * 6e4)), x); }));
#undef CONDITION
  BINARY("heaviside(x, at_zero)", "heaviside", "", any, any, a > 0 ? 1 : a < 0 ? 0 : b, mn::heaviside(a, b));
  BINARY("step(edge, x)", "", "", any, any, double(b >= a), mn::step(a, b));
  UNARY(binary_step, "", "", -2, 2, double(x >= 0));
  UNARY(bipolar_step, "", "", -2, 2, double(x >= 0 ? 1 : -1));
}

void add_bounds(std::vector<operation>& list) {
  const operand any = floats(-2, 2);
  TERNARY("clamp(x, low, high)", "clamp", "Clip", any, floats(-1, 0), floats(0, 1), std::fmin(std::fmax(a, b), c),
          mn::clamp(a, b, c));
  UNARY(saturate, "", "", -2, 2, std::fmin(std::fmax(x, 0), 1));
  BINARY("fmax(a, b)", "fmax", "", any, any, std::fmax(a, b), mn::fmax(a, b));
  BINARY("fmin(a, b)", "fmin", "", any, any, std::fmin(a, b), mn::fmin(a, b));
  BINARY("fdim(a, b)", "", "", any, any, std::fdim(a, b), mn::fdim(a, b));
}

void add_remainders(std::vector<operation>& list) {
  const operand many = floats(-9, 9), divisor = floats(0.5, 2);
  UNARY(fract, "", "", -3, 3, x - std::floor(x));
  BINARY("fmod(a, b)", "fmod", "Mod", many, divisor, std::fmod(a, b), mn::fmod(a, b));
  BINARY("modulo(a, b)", "remainder", "Mod", many, floats(-2, -0.5), floor_remainder(a, b), mn::modulo(a, b));
  BINARY("remainder(a, b)", "", "", many, divisor, std::remainder(a, b), mn::remainder(a, b));
  TERNARY("wrap(x, low, high)", "", "", many, floats(-2, -1), floats(0, 1), b + floor_remainder(a - b, c - b),
          mn::wrap(a, b, c));
  BINARY("ping_pong(x, length)", "", "", many, divisor, b - std::fabs(floor_remainder(a, 2 * b) - b),
         mn::ping_pong(a, b));
}

void add_parts(std::vector<operation>& list) {
  const operand any = floats(-2, 2);
  list.push_back(unary(
      "modf(x)", "", "", -9, 9, [](double x) { return x - std::trunc(x); },
      [](mn::node_value x) { return mn::modf(x).get<0>(); }));
  list.back().shapes = "[..] -> [..] each";
  list.push_back(unary(
      "frexp(x)", "frexp", "", 0.6, 0.9, [](double x) { return std::frexp(x, std::array<int, 1>{}.data()); },
      [](mn::node_value x) { return mn::frexp(x).get<0>(); }));
  list.back().shapes = "[..] -> [..] each";
  BINARY("ldexp(x, exponent)", "ldexp", "", any, any, a * std::exp2(b), mn::ldexp(a, b));
  BINARY("nextafter(a, b)", "nextafter", "", floats(0.5, 2), floats(0.5, 2), double(a < b ? 1 : -1),
         mn::reinterpret<mn::dtype::i32>(mn::nextafter(a, b)) - mn::reinterpret<mn::dtype::i32>(a));
}

}  // namespace

void add_rounding(std::vector<operation>& list) {
  add_comparisons(list);
  add_bounds(list);
  add_remainders(list);
  add_parts(list);
}

}  // namespace operations
