// SPDX-License-Identifier: MIT
// Numbers of the axes of images: of kernels, windows and borders.
#pragma once
#include <meganeura/expr/traced.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// A number for each of up to three axes: 3 for all, or {3, 5}, which three axes do not take.
struct spatial {
  static constexpr int missing = -2'147'483'647;  // less than any option may be
  int at[max_spatial];
  constexpr spatial(int all) : at{all, all, all} {}
  constexpr spatial(int first, int second, int third = missing) : at{first, second, third} {}
  [[nodiscard]] constexpr int operator[](int axis) const { return at[axis]; }
  [[nodiscard]] constexpr int or_zero(int axis) const { return at[axis] == missing ? 0 : at[axis]; }
  friend constexpr bool operator==(const spatial&, const spatial&) = default;
};

}  // namespace meganeura::inline MEGANEURA_ABI
