// SPDX-License-Identifier: MIT
// Activations besides those of every model.
#include "elementwise.hpp"

namespace operations {

void add_activations(std::vector<operation>& list) {
  const operand any = floats(-3, 3), slope = floats(0.1, 2);
  const auto named = [&](const char* call, const char* torch, const char* onnx, double (*of)(double),
                         mn::node_value (*build)(mn::node_value)) {
    list.push_back(unary(call, torch, onnx, -4, 4, of, build));
  };
  UNARY(softplus, "nn.functional.softplus", "Softplus", -9, 9, std::log(1 + std::exp(x)));
  UNARY(log_sigmoid, "nn.functional.logsigmoid", "", -9, 9, -std::log(1 + std::exp(-x)));
  UNARY(mish, "nn.functional.mish", "Mish", -3, 3, x * std::tanh(std::log(1 + std::exp(x))));
  UNARY(softsign, "nn.functional.softsign", "Softsign", -3, 3, x / (1 + std::fabs(x)));
  UNARY(selu, "selu", "Selu", -3, 3, 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)));
  UNARY(hard_swish, "nn.functional.hardswish", "HardSwish", -5, 5, x * std::fmin(std::fmax(x + 3, 0), 6) / 6);
  UNARY(hard_tanh, "nn.functional.hardtanh", "", -2, 2, std::fmin(std::fmax(x, -1), 1));
  UNARY(relu6, "nn.functional.relu6", "", -2, 9, std::fmin(std::fmax(x, 0), 6));
  UNARY(tanh_shrink, "nn.functional.tanhshrink", "", -2, 2, x - std::tanh(x));
  UNARY(gaussian, "", "", -2, 2, std::exp(-x * x));
  UNARY(bent_identity, "", "", -2, 2, (std::sqrt(x * x + 1) - 1) / 2 + x);
  BINARY("leaky_relu(x, slope)", "nn.functional.prelu", "PRelu", any, slope, a > 0 ? a : a * b, mn::leaky_relu(a, b));
  BINARY("elu(x, alpha)", "nn.functional.elu", "Elu", any, slope, a > 0 ? a : b * std::expm1(a), mn::elu(a, b));
  BINARY("celu(x, alpha)", "celu", "Celu", any, slope, a > 0 ? a : b * std::expm1(a / b), mn::celu(a, b));
  BINARY("hard_sigmoid(x, slope)", "nn.functional.hardsigmoid", "HardSigmoid", any, slope,
         std::fmin(std::fmax(a * b + 0.5, 0), 1), mn::hard_sigmoid(a, b));
  BINARY("soft_shrink(x, bound)", "nn.functional.softshrink", "Shrink", any, slope,
         std::copysign(std::fmax(std::fabs(a) - b, 0), a), mn::soft_shrink(a, b));
  BINARY("hard_shrink(x, bound)", "nn.functional.hardshrink", "Shrink", any, slope, std::fabs(a) <= b ? 0 : a,
         mn::hard_shrink(a, b));
  named(
      "leaky_relu(x)", "nn.functional.leaky_relu", "LeakyRelu", [](double x) { return x > 0 ? x : 0.01 * x; },
      [](mn::node_value x) { return mn::leaky_relu(x); });
  named(
      "elu(x)", "nn.functional.elu", "Elu", [](double x) { return x > 0 ? x : std::expm1(x); },
      [](mn::node_value x) { return mn::elu(x); });
  named(
      "celu(x)", "celu", "Celu", [](double x) { return x > 0 ? x : std::expm1(x); },
      [](mn::node_value x) { return mn::celu(x); });
  named(
      "hard_sigmoid(x)", "", "HardSigmoid", [](double x) { return std::fmin(std::fmax(0.2 * x + 0.5, 0), 1); },
      [](mn::node_value x) { return mn::hard_sigmoid(x); });
  named(
      "rrelu<name, low, high>(x)", "nn.functional.rrelu", "", [](double x) { return x > 0 ? x : 11.0 / 48 * x; },
      [](mn::node_value x) { return mn::rrelu<"act">(x); });
}

}  // namespace operations
