// SPDX-License-Identifier: MIT
// Numbers of the axes of images: of kernels, windows and borders.
#pragma once
#include <meganeura/expr/traced.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// A number for each of up to three axes: 3 for all, or {3, 5}.
struct spatial {
  int at[max_spatial];
  constexpr spatial(int all) : at{all, all, all} {}
  constexpr spatial(int first, int second, int third = 0) : at{first, second, third} {}
  [[nodiscard]] constexpr int operator[](int axis) const { return at[axis]; }
  friend constexpr bool operator==(const spatial&, const spatial&) = default;
};

}  // namespace meganeura::inline MEGANEURA_ABI
