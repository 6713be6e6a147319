// SPDX-License-Identifier: MIT
// What of <cmath> is computed while compiling, which it cannot be in Clang 14.
#pragma once
#include <meganeura/config.hpp>

namespace meganeura::inline MEGANEURA_ABI::detail {

inline constexpr double log_of_2 = 0.69314718055994530942, two_pi = 6.283185307179586;

// log(x) = log(m) + k log(2), 1 <= m < 2, by the series of atanh.
constexpr double natural_log(double x) {
  double exponent = 0;
  for (; x >= 2; x /= 2) exponent += log_of_2;
  for (; x < 1; x *= 2) exponent -= log_of_2;
  const double t = (x - 1) / (x + 1);
  double sum = 0, power = t;
  for (int i = 1; i < 60; i += 2, power *= t * t) sum += power / i;
  return exponent + 2 * sum;
}

constexpr double square_root(double x) {
  double root = x > 1 ? x : 1;
  for (int i = 0; i < 64; ++i) root = (root + x / root) / 2;  // Newton, from above
  return root;
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
