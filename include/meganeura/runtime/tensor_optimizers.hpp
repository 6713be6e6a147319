// SPDX-License-Identifier: MIT
// Optimisers whose step depends on norms and means of whole tensors.
#pragma once
#include <meganeura/runtime/elementwise_optimizers.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// The same shape with one element along that axis.
inline shape flat_along(shape extents, int axis) {
  extents.set(axis, 1);
  return extents;
}

}  // namespace detail

/// adam's step m / (sqrt(v) + epsilon) + weight_decay * p of each tensor, made as long as the tensor: p -=
/// learning_rate *
/// (|p| / |step|) * step, the factor being 1 where either norm is 0. source: You et al. 2020, algorithm 2.
struct lamb {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-6f;
  float weight_decay = 1e-2f;

  static constexpr optimizer_rate<lamb> rates[] = {{"learning_rate", &lamb::learning_rate},
                                                   {"weight_decay", &lamb::weight_decay},
                                                   {"beta1", &lamb::beta1, true},
                                                   {"beta2", &lamb::beta2, true},
                                                   {"epsilon", &lamb::epsilon}};
  [[nodiscard]] std::string name() const { return "lamb"; }
  [[nodiscard]] std::vector<std::string> moments() const { return {}; }
  [[nodiscard]] std::vector<optimizer_state> states(const shape& of) const { return {{"m", of}, {"v", of}}; }
  [[nodiscard]] std::array<float, 9> numbers(std::uint32_t step) const {
    const auto correction = [&](float beta) { return 1 - std::pow(static_cast<double>(beta), step); };
    return {learning_rate,
            weight_decay,
            static_cast<float>(1 / correction(beta1)),
            static_cast<float>(std::sqrt(correction(beta2))),
            beta1,
            1 - beta1,
            beta2,
            1 - beta2,
            epsilon};
  }
  [[nodiscard]] std::vector<node_value> direction(const optimizer_tensor& t) const;
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    return {e.parameter - e.numbers[0] * e.gradient};
  }
};

/// p = (1 - learning_rate * weight_decay) * p - rate * u / max(1, rms(u) / clip) with u = g / sqrt(v) and a rate of
/// max(epsilon2, rms(p)) * min(learning_rate, 1 / sqrt(step)). v is a mean of squares that forgets 1 /
/// step^decay_power; of a tensor with two axes and more it is kept as those of its rows and columns, over the last two
/// axes. source: Shazeer and Stern 2018, torch.optim.Adafactor.
struct adafactor {
  float learning_rate = 1e-2f;
  float decay_power = 0.8f;  // torch's -beta2_decay
  float epsilon1 = 1.1920929e-7f, epsilon2 = 1e-3f;
  float clip = 1;
  float weight_decay = 0;

  static constexpr optimizer_rate<adafactor> rates[] = {
      {"learning_rate", &adafactor::learning_rate}, {"weight_decay", &adafactor::weight_decay},
      {"decay_power", &adafactor::decay_power},     {"epsilon1", &adafactor::epsilon1},
      {"epsilon2", &adafactor::epsilon2},           {"clip", &adafactor::clip}};
  [[nodiscard]] std::string name() const { return "adafactor"; }
  [[nodiscard]] std::string problem() const {
    return clip > 0 ? std::string() : fmt::format("adafactor: clip is {}; it must be above 0", clip);
  }
  [[nodiscard]] std::vector<std::string> moments() const { return {}; }
  [[nodiscard]] std::vector<optimizer_state> states(const shape& of) const {
    if (of.rank() < 2) return {{"v", of}};
    return {{"rows", detail::flat_along(of, of.rank() - 1)}, {"columns", detail::flat_along(of, of.rank() - 2)}};
  }
  [[nodiscard]] std::array<float, 7> numbers(std::uint32_t step) const {
    const double rate = static_cast<double>(learning_rate), root = std::sqrt(static_cast<double>(step));
    return {static_cast<float>(1 - rate * static_cast<double>(weight_decay)),
            static_cast<float>(std::min(rate, 1 / root)),
            static_cast<float>(std::pow(static_cast<double>(step), -static_cast<double>(decay_power))),
            epsilon1,
            epsilon1 * epsilon1,
            epsilon2,
            clip};
  }
  [[nodiscard]] std::vector<node_value> direction(const optimizer_tensor& t) const;
  [[nodiscard]] std::vector<scalar_expression> update(const optimizer_element& e) const {
    return {e.numbers[0] * e.parameter - e.numbers[1] * e.gradient};
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/tensor_optimizers.ipp>
#endif
