// SPDX-License-Identifier: MIT
// Optimisers of single elements, as users name them, with PyTorch's definitions and defaults.
#pragma once
#include <meganeura/runtime/optimizer_definition.hpp>

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// p -= learning_rate * v with v = momentum * v + (1 - dampening) * g (v = g in the first step) and g += weight_decay *
/// p before; Nesterov's moves by g + momentum * v, and needs a momentum and no dampening. source: torch.optim.SGD.
struct sgd {
  float learning_rate = 1e-2f;
  float momentum = 0;
  float weight_decay = 0;
  float dampening = 0;
  bool nesterov = false;

  static constexpr optimizer_rate<sgd> rates[] = {{"learning_rate", &sgd::learning_rate},
                                                  {"weight_decay", &sgd::weight_decay},
                                                  {"momentum", &sgd::momentum},
                                                  {"dampening", &sgd::dampening}};
  [[nodiscard]] std::string name() const {
    return nesterov ? "sgd with nesterov momentum" : momentum != 0 ? "sgd with momentum" : "sgd";
  }
  [[nodiscard]] std::string problem() const {
    if (!nesterov || (momentum != 0 && dampening == 0)) return {};
    return fmt::format("{}: momentum is {} and dampening {}; it needs a momentum above 0 and no dampening", name(),
                       momentum, dampening);
  }
  [[nodiscard]] std::vector<std::string> moments() const {
    return nesterov || momentum != 0 ? std::vector<std::string>{"m"} : std::vector<std::string>();
  }
  [[nodiscard]] std::array<float, 4> numbers(std::uint32_t step) const {
    return {learning_rate, weight_decay, momentum, step == 1 ? 1 : 1 - dampening};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    const auto &p = e.parameter, &rate = e.numbers[0], &decay = e.numbers[1], &kept = e.numbers[2];
    const auto slope = e.gradient + decay * p;
    if (e.moments.empty()) return {p - rate * slope};
    const auto velocity = kept * e.moments[0] + e.numbers[3] * slope;
    return {p - rate * (nesterov ? slope + kept * velocity : velocity), velocity};
  }
};

/// Weight decay is added to the gradient. With amsgrad it is the largest mean of squares so far that divides. source:
/// Kingma and Ba 2015, Reddi et al. 2018, torch.optim.Adam.
struct adam {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  bool amsgrad = false;

  static constexpr optimizer_rate<adam> rates[] = {{"learning_rate", &adam::learning_rate},
                                                   {"weight_decay", &adam::weight_decay},
                                                   {"beta1", &adam::beta1, true},
                                                   {"beta2", &adam::beta2, true},
                                                   {"epsilon", &adam::epsilon}};
  [[nodiscard]] std::string name() const { return amsgrad ? "adam with amsgrad" : "adam"; }
  [[nodiscard]] std::vector<std::string> moments() const {
    return amsgrad ? std::vector<std::string>{"m", "v", "v_max"} : std::vector<std::string>{"m", "v"};
  }
  /// Decay, step size, root of the second correction, beta1, 1 - beta1, beta2, 1 - beta2, epsilon: corrections in
  /// double, because 1 - beta2^1 loses half of f32's digits.
  [[nodiscard]] std::array<float, 8> numbers(std::uint32_t step) const {
    const auto correction = [&](float beta) { return 1 - std::pow(static_cast<double>(beta), step); };
    return {weight_decay,
            static_cast<float>(learning_rate / correction(beta1)),
            static_cast<float>(std::sqrt(correction(beta2))),
            beta1,
            1 - beta1,
            beta2,
            1 - beta2,
            epsilon};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    return moved(e, e.parameter, e.gradient + e.numbers[0] * e.parameter);
  }
  /// `p` moved by running means of gradients `g` and of their squares, corrected for having begun as zeros; by the
  /// largest of the latter where there is a third moment.
  [[nodiscard]] static std::vector<scalar_expression> moved(const optimizer_element& e, const scalar_expression& p,
                                                            const scalar_expression& g) {
    const auto& now = e.numbers;
    const auto m = now[3] * e.moments[0] + now[4] * g;
    const auto v = now[5] * e.moments[1] + now[6] * g * g;
    const auto step = [&](const scalar_expression& squares) {
      return now[1] * (m / (apply(scalar_op::sqrt, squares) / now[2] + now[7]));
    };
    if (e.moments.size() == 2) return {p - step(v), m, v};
    const auto largest = apply(scalar_op::maximum, e.moments[2], v);
    return {p - step(largest), m, v, largest};
  }
};

/// Weight decay shrinks the parameter directly; the rest is adam. source: Loshchilov and Hutter 2019,
/// torch.optim.AdamW.
struct adamw {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 1e-2f;
  bool amsgrad = false;

  static constexpr optimizer_rate<adamw> rates[] = {{"learning_rate", &adamw::learning_rate},
                                                    {"weight_decay", &adamw::weight_decay},
                                                    {"beta1", &adamw::beta1, true},
                                                    {"beta2", &adamw::beta2, true},
                                                    {"epsilon", &adamw::epsilon}};
  [[nodiscard]] std::string name() const { return amsgrad ? "adamw with amsgrad" : "adamw"; }
  [[nodiscard]] std::vector<std::string> moments() const { return adam{.amsgrad = amsgrad}.moments(); }
  /// As adam's, but first what a step leaves of the parameter.
  [[nodiscard]] std::array<float, 8> numbers(std::uint32_t step) const {
    auto all = adam{learning_rate, beta1, beta2, epsilon}.numbers(step);
    all[0] = static_cast<float>(1 - static_cast<double>(learning_rate) * static_cast<double>(weight_decay));
    return all;
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    return adam::moved(e, e.numbers[0] * e.parameter, e.gradient);
  }
};

/// p -= learning_rate * g / (sqrt(v) + epsilon) with v = alpha * v + (1 - alpha) * g^2 and g += weight_decay * p
/// before; centered: of v less the square of the running mean of g; with momentum p moves by m = momentum * m + that
/// quotient. source: Hinton 2012, Graves 2013, torch.optim.RMSprop.
struct rmsprop {
  float learning_rate = 1e-2f;
  float alpha = 0.99f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float momentum = 0;
  bool centered = false;

  static constexpr optimizer_rate<rmsprop> rates[] = {{"learning_rate", &rmsprop::learning_rate},
                                                      {"weight_decay", &rmsprop::weight_decay},
                                                      {"alpha", &rmsprop::alpha, true},
                                                      {"epsilon", &rmsprop::epsilon},
                                                      {"momentum", &rmsprop::momentum}};
  [[nodiscard]] std::string name() const {
    return std::string(centered ? "centered rmsprop" : "rmsprop") + (momentum != 0 ? " with momentum" : "");
  }
  [[nodiscard]] std::vector<std::string> moments() const {
    std::vector<std::string> all{"v"};
    if (centered) all.emplace_back("mean");
    if (momentum != 0) all.emplace_back("m");
    return all;
  }
  [[nodiscard]] std::array<float, 6> numbers(std::uint32_t) const {
    return {learning_rate, weight_decay, alpha, 1 - alpha, epsilon, momentum};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    const auto& now = e.numbers;
    const auto slope = e.gradient + now[1] * e.parameter;
    const auto v = now[2] * e.moments[0] + now[3] * slope * slope;
    std::vector<scalar_expression> all{e.parameter, v};
    auto spread = v;
    if (centered) {
      const auto mean = now[2] * e.moments[1] + now[3] * slope;
      spread = apply(scalar_op::maximum, v - mean * mean, v.number(0));  // of equal gradients no more than rounding
      all.push_back(mean);
    }
    auto step = slope / (apply(scalar_op::sqrt, spread) + now[4]);
    if (momentum != 0) all.push_back(step = now[5] * e.moments.back() + step);
    all[0] = e.parameter - now[0] * step;
    return all;
  }
};

/// p -= rate * g / (sqrt(v) + epsilon) with v += g^2, g += weight_decay * p before and a rate of learning_rate / (1 +
/// learning_rate_decay * (step - 1)). source: Duchi et al. 2011, torch.optim.Adagrad.
struct adagrad {
  float learning_rate = 1e-2f;
  float learning_rate_decay = 0;
  float weight_decay = 0;
  float initial_accumulator_value = 0;  // of v, whose moment is the sum without it
  float epsilon = 1e-10f;

  static constexpr optimizer_rate<adagrad> rates[] = {
      {"learning_rate", &adagrad::learning_rate},
      {"learning_rate_decay", &adagrad::learning_rate_decay},
      {"weight_decay", &adagrad::weight_decay},
      {"initial_accumulator_value", &adagrad::initial_accumulator_value},
      {"epsilon", &adagrad::epsilon}};
  [[nodiscard]] std::string name() const { return "adagrad"; }
  [[nodiscard]] std::vector<std::string> moments() const { return {"v"}; }
  [[nodiscard]] std::array<float, 4> numbers(std::uint32_t step) const {
    const double slower = 1 + static_cast<double>(learning_rate_decay) * (step - 1.0);
    return {static_cast<float>(learning_rate / slower), weight_decay, initial_accumulator_value, epsilon};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    const auto& now = e.numbers;
    const auto slope = e.gradient + now[1] * e.parameter;
    const auto v = e.moments[0] + slope * slope;
    return {e.parameter - now[0] * (slope / (apply(scalar_op::sqrt, now[2] + v) + now[3])), v};
  }
};

/// p -= learning_rate * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p), then m = beta2 * m + (1 - beta2) * g;
/// the sign of 0 is 0. source: Chen et al. 2023, algorithm 2.
struct lion {
  float learning_rate = 1e-4f;
  float beta1 = 0.9f, beta2 = 0.99f;
  float weight_decay = 0;

  static constexpr optimizer_rate<lion> rates[] = {{"learning_rate", &lion::learning_rate},
                                                   {"weight_decay", &lion::weight_decay},
                                                   {"beta1", &lion::beta1, true},
                                                   {"beta2", &lion::beta2, true}};
  [[nodiscard]] std::string name() const { return "lion"; }
  [[nodiscard]] std::vector<std::string> moments() const { return {"m"}; }
  [[nodiscard]] std::array<float, 6> numbers(std::uint32_t) const {
    return {learning_rate, weight_decay, beta1, 1 - beta1, beta2, 1 - beta2};
  }
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    const auto &p = e.parameter, &g = e.gradient, &m = e.moments[0];
    const auto direction = apply(scalar_op::sign, e.numbers[2] * m + e.numbers[3] * g);
    return {p - e.numbers[0] * (direction + e.numbers[1] * p), e.numbers[4] * m + e.numbers[5] * g};
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI
