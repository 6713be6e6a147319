// SPDX-License-Identifier: MIT
// Optimisers as users name them, with PyTorch's definitions and defaults; their rates travel in the step values.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/step_values.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <variant>

namespace meganeura::inline MEGANEURA_ABI {

/// p -= learning_rate * v with v = momentum * v + g (v = g in the first step) and g += weight_decay * p before.
/// source: torch.optim.SGD, dampening 0, no Nesterov.
struct sgd {
  float learning_rate = 1e-2f;
  float momentum = 0;
  float weight_decay = 0;
};

/// source: Kingma and Ba 2015, torch.optim.Adam; weight decay is added to the gradient.
struct adam {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
};

/// source: Loshchilov and Hutter 2019, torch.optim.AdamW; weight decay shrinks the parameter directly.
struct adamw {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 1e-2f;
};

using optimizer = std::variant<sgd, adam, adamw>;

namespace detail {

inline const char* name_of(const optimizer& chosen) {
  if (const auto* s = std::get_if<sgd>(&chosen)) return s->momentum != 0 ? "sgd with momentum" : "sgd";
  return std::holds_alternative<adam>(chosen) ? "adam" : "adamw";
}

// Calls visit(name, rate) for every rate of an optimiser.
template <class Optimizer, class Visit>
void each_rate(Optimizer& chosen, Visit visit) {
  std::visit(
      [&](auto& o) {
        visit("learning_rate", o.learning_rate);
        visit("weight_decay", o.weight_decay);
        if constexpr (requires { o.momentum; }) {
          visit("momentum", o.momentum);
        } else {
          visit("beta1", o.beta1), visit("beta2", o.beta2), visit("epsilon", o.epsilon);
        }
      },
      chosen);
}

// Which rate no optimiser can have, as a sentence: one that is negative, not finite, or a beta of 1 or more, as
// torch.optim has it. Empty if all are fine.
inline std::string wrong_rate(const optimizer& chosen) {
  std::string problem;
  each_rate(chosen, [&](std::string_view name, float rate) {
    const bool beta = name.starts_with("beta");
    if (!problem.empty() || (rate >= 0 && rate <= std::numeric_limits<float>::max() && (!beta || rate < 1))) return;
    problem = fmt::format("{}: {} is {}; it must be {}", name_of(chosen), name, rate,
                          beta ? "at least 0 and less than 1" : "finite and at least 0");
  });
  return problem;
}

// errors: invalid_argument for a wrong rate.
inline void check_rates(const optimizer& chosen) {
  if (const std::string problem = wrong_rate(chosen); !problem.empty())
    fail(error_category::invalid_argument, "{}", problem);
}

inline optimizer_attribute attribute_of(const optimizer& chosen) {
  if (const auto* s = std::get_if<sgd>(&chosen)) return {optimizer_kind::sgd, s->momentum != 0};
  return {std::holds_alternative<adam>(chosen) ? optimizer_kind::adam : optimizer_kind::adamw, false};
}

// What step number `step` (1, 2, ...) needs to draw its random numbers.
inline kernels::step_values step_values_of(std::uint32_t step, std::uint64_t seed) {
  kernels::step_values values;
  values.step = step;
  values.seed_low = static_cast<std::uint32_t>(seed);
  values.seed_high = static_cast<std::uint32_t>(seed >> 32);
  return values;
}

// And to train; corrections in double, because 1 - beta2^1 loses half of f32's digits.
inline kernels::step_values step_values_of(const optimizer& chosen, std::uint32_t step, std::uint64_t seed) {
  kernels::step_values values = step_values_of(step, seed);
  std::visit(
      [&](const auto& o) {
        values.learning_rate = o.learning_rate;
        values.weight_decay = o.weight_decay;
        if constexpr (requires { o.momentum; }) {
          values.momentum = o.momentum;
        } else {
          values.beta1 = o.beta1, values.beta2 = o.beta2, values.epsilon = o.epsilon;
          values.bias_correction1 = static_cast<float>(1 - std::pow(static_cast<double>(o.beta1), step));
          values.bias_correction2 = static_cast<float>(1 - std::pow(static_cast<double>(o.beta2), step));
        }
      },
      chosen);
  return values;
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
