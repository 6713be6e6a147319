// SPDX-License-Identifier: MIT
// Functions of numbers, element by element.
#include "elementwise.hpp"

#include <cstdint>

namespace operations {

namespace {

double digamma(double x) {  // the logarithmic derivative of the gamma function, by its recurrence and a difference
  const double step = 1e-4;
  return (std::lgamma(x - 2 * step) - 8 * std::lgamma(x - step) + 8 * std::lgamma(x + step) -
          std::lgamma(x + 2 * step)) /
         (12 * step);
}

void add_unary(std::vector<operation>& list) {
  list.push_back(unary(
      "-x", "neg", "Neg", -2, 2, [](double x) { return -x; }, [](mn::node_value x) { return -x; }));
  UNARY(abs, "abs", "Abs", -2, 2, std::fabs(x));
  UNARY(sign, "sign", "Sign", -2, 2, double((x > 0) - (x < 0)));
  UNARY(reciprocal, "reciprocal", "Reciprocal", 0.5, 2, 1 / x);
  UNARY(sqrt, "sqrt", "Sqrt", 0.5, 9, std::sqrt(x));
  UNARY(rsqrt, "rsqrt", "", 0.5, 9, 1 / std::sqrt(x));
  UNARY(cbrt, "", "", 0.5, 9, std::cbrt(x));
  UNARY(exp, "exp", "Exp", -2, 2, std::exp(x));
  UNARY(exp2, "exp2", "", -2, 2, std::exp2(x));
  UNARY(expm1, "expm1", "", -1, 1, std::expm1(x));
  UNARY(log, "log", "Log", 0.5, 9, std::log(x));
  UNARY(log2, "log2", "", 0.5, 9, std::log2(x));
  UNARY(log10, "log10", "", 0.5, 9, std::log10(x));
  UNARY(log1p, "log1p", "", -0.5, 1, std::log1p(x));
  UNARY(sin, "sin", "Sin", -9, 9, std::sin(x));
  UNARY(cos, "cos", "Cos", -9, 9, std::cos(x));
  UNARY(tan, "tan", "Tan", -1.3, 1.3, std::tan(x));
  UNARY(asin, "asin", "Asin", -0.9, 0.9, std::asin(x));
  UNARY(acos, "acos", "Acos", -0.9, 0.9, std::acos(x));
  UNARY(atan, "atan", "Atan", -3, 3, std::atan(x));
  UNARY(sinh, "sinh", "Sinh", -2, 2, std::sinh(x));
  UNARY(cosh, "cosh", "Cosh", -2, 2, std::cosh(x));
  UNARY(tanh, "tanh", "Tanh", -2, 2, std::tanh(x));
  UNARY(asinh, "asinh", "Asinh", -3, 3, std::asinh(x));
  UNARY(acosh, "acosh", "Acosh", 1.2, 5, std::acosh(x));
  UNARY(atanh, "atanh", "Atanh", -0.9, 0.9, std::atanh(x));
  UNARY(erf, "erf", "Erf", -2, 2, std::erf(x));
  UNARY(erfc, "erfc", "", -2, 2, std::erfc(x));
  UNARY(tgamma, "", "", 0.5, 4, std::tgamma(x));
  UNARY(lgamma, "lgamma", "", 0.5, 9, std::lgamma(x));
  UNARY(digamma, "digamma", "", 1, 9, digamma(x));
  list.push_back(unary(
      "trigamma(x)", "polygamma", "", 1, 9, [](double x) { return (digamma(x + 1e-3) - digamma(x - 1e-3)) / 2e-3; },
      [](mn::node_value x) { return mn::trigamma(x); }));
  UNARY(floor, "floor", "Floor", -3, 3, std::floor(x));
  UNARY(ceil, "ceil", "Ceil", -3, 3, std::ceil(x));
  UNARY(round, "round", "Round", -3, 3, std::nearbyint(x));
  UNARY(trunc, "trunc", "", -3, 3, std::trunc(x));
  UNARY(relu, "relu", "Relu", -2, 2, std::fmax(x, 0));
  UNARY(sigmoid, "sigmoid", "Sigmoid", -3, 3, 1 / (1 + std::exp(-x)));
  UNARY(silu, "silu", "", -3, 3, x / (1 + std::exp(-x)));
  UNARY(gelu, "gelu", "Gelu", -3, 3, x / 2 * std::erfc(-x / std::sqrt(2)));
  list.push_back(unary(
      "gelu_tanh(x)", "gelu", "Gelu", -3, 3,
      [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
      [](mn::node_value x) { return mn::gelu_tanh(x); }));
  list.push_back(unary(
      "stop_gradient(x)", "detach", "", -2, 2, [](double x) { return x; },
      [](mn::node_value x) { return mn::stop_gradient(x); }));
  list.back().followed = [](const std::vector<numbers>& x) { return numbers(x[0].size(), 0.0); };
}

void add_binary(std::vector<operation>& list) {
  const operand any = floats(-2, 2);
  BINARY("a + b", "add", "Add", any, any, a + b, a + b);
  BINARY("a - b", "sub", "Sub", any, any, a - b, a - b);
  BINARY("a * b", "mul", "Mul", any, any, a * b, a * b);
  BINARY("a / b", "div", "Div", any, floats(0.5, 2), a / b, a / b);
  BINARY("power(a, b)", "pow", "Pow", floats(0.5, 2), any, std::pow(a, b), mn::power(a, b));
  BINARY("maximum(a, b)", "maximum", "Max", any, any, std::fmax(a, b), mn::maximum(a, b));
  BINARY("minimum(a, b)", "minimum", "Min", any, any, std::fmin(a, b), mn::minimum(a, b));
  BINARY("hypot(a, b)", "hypot", "", any, floats(0.5, 2), std::hypot(a, b), mn::hypot(a, b));
  BINARY("atan2(y, x)", "atan2", "", any, floats(0.5, 2), std::atan2(a, b), mn::atan2(a, b));
  BINARY("copysign(a, b)", "copysign", "", any, any, std::copysign(a, b), mn::copysign(a, b));
  BINARY("swiglu(gate, up)", "", "", any, any, a / (1 + std::exp(-a)) * b, mn::swiglu(a, b));
  BINARY("less(a, b)", "lt", "Less", any, any, double(a < b), mn::select(mn::less(a, b), a * 0 + 1, 0));
  BINARY("less_equal(a, b)", "le", "LessOrEqual", integers(-2, 2), integers(-2, 2), double(a <= b),
         mn::select(mn::less_equal(a, b), a * 0 + 1, 0));
  BINARY("equal(a, b)", "eq", "Equal", integers(-2, 2), integers(-2, 2), double(a == b),
         mn::select(mn::equal(a, b), a * 0 + 1, 0));
}

std::int32_t whole(double x) { return static_cast<std::int32_t>(x); }

void add_bits(std::vector<operation>& list) {
  const operand some = integers(-1000, 1000), few = integers(0, 9);
  BINARY("bitwise_and(a, b)", "bitwise_and", "BitwiseAnd", some, some, whole(a) & whole(b), mn::bitwise_and(a, b));
  BINARY("bitwise_or(a, b)", "bitwise_or", "BitwiseOr", some, some, whole(a) | whole(b), mn::bitwise_or(a, b));
  BINARY("bitwise_xor(a, b)", "bitwise_xor", "BitwiseXor", some, some, whole(a) ^ whole(b), mn::bitwise_xor(a, b));
  BINARY("shift_left(a, b)", "bitwise_left_shift", "BitShift", some, few, std::ldexp(a, whole(b)),
         mn::shift_left(a, b));
  BINARY("shift_right(a, b)", "bitwise_right_shift", "BitShift", some, few, std::floor(std::ldexp(a, -whole(b))),
         mn::shift_right(a, b));
  list.push_back(unary(
      "bitwise_not(x)", "bitwise_not", "BitwiseNot", -9, 9, [](double x) { return -x - 1; },
      [](mn::node_value x) { return mn::bitwise_not(x); }, mn::dtype::i32));
  list.push_back(unary(
      "reinterpret<dtype>(x)", "Tensor.view", "", 1, 1.9, [](double x) { return 0x3f800000 + (x - 1) * 0x1p23; },
      [](mn::node_value x) { return mn::reinterpret<mn::dtype::i32>(x); }));
  list.push_back(unary(
      "cast<dtype>(x)", "Tensor.to", "Cast", -9, 9, [](double x) { return std::trunc(x); },
      [](mn::node_value x) { return mn::cast<mn::dtype::i32>(x); }));
}

void add_others(std::vector<operation>& list) {
  list.push_back({"select(condition, a, b)",
                  "[..], [..], [..] -> [..]",
                  "where",
                  "Where",
                  {{{3, 5}}, {{5}}},
                  [](const values& x) { return mn::select(mn::less(x[0], x[1]), x[0], x[1]); },
                  [](const std::vector<numbers>& x) {
                    numbers y = x[0];
                    for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::fmin(y[i], x[1][i % 5]);
                    return y;
                  }});
  BINARY("logical_and(a, b)", "logical_and", "And", integers(-2, 2), integers(-2, 2), double(a < b && b < 1),
         mn::select(mn::logical_and(mn::less(a, b), mn::less(b, 1)), a * 0 + 1, 0));
  BINARY("logical_or(a, b)", "logical_or", "Or", integers(-2, 2), integers(-2, 2), double(a < b || b < 1),
         mn::select(mn::logical_or(mn::less(a, b), mn::less(b, 1)), a * 0 + 1, 0));
  list.push_back(unary(
      "logical_not(x)", "logical_not", "Not", -2, 2, [](double x) { return double(!(x < 1)); },
      [](mn::node_value x) { return mn::select(mn::logical_not(mn::less(x, 1)), x * 0 + 1, 0); }, mn::dtype::i32));
}

}  // namespace

void add_elementwise(std::vector<operation>& list) {
  add_unary(list);
  add_binary(list);
  add_bits(list);
  add_others(list);
}

}  // namespace operations
