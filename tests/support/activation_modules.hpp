// SPDX-License-Identifier: MIT
// Activations as modules: one input, the same shape.
#pragma once
#include <meganeura/frontend.hpp>

#include <cmath>

namespace meganeura::inline MEGANEURA_ABI::support {

struct sigmoids {
  static constexpr auto forward(value auto x) { return sigmoid(x); }
};
struct silus {
  static constexpr auto forward(value auto x) { return silu(x); }
};
struct gelus {
  static constexpr auto forward(value auto x) { return gelu(x); }
};
struct tanh_gelus {
  static constexpr auto forward(value auto x) { return gelu_tanh(x); }
};

inline double exact_sigmoid(double x) { return x > 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

/// x times the share of a normal distribution below x, and its slope, in doubles.
inline double exact_gelu(double x) { return x / 2 * std::erfc(-x * std::sqrt(0.5)); }
inline double exact_gelu_slope(double x) {
  const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
  return std::erfc(-x * std::sqrt(0.5)) / 2 + (density == 0 ? 0 : x * density);
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
