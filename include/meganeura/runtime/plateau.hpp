// SPDX-License-Identifier: MIT
// Learning rates that fall when a number no longer gets better.
#pragma once
#include <meganeura/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace meganeura::inline MEGANEURA_ABI {

/// {.plateau = mn::plateau{.patience = 3}}: learning rates are multiplied by `factor` once more than `patience` numbers
/// in a row, those that training::observe is given, are not better than the best before by a share of `threshold` of
/// its magnitude. A NaN is never better. source: torch's ReduceLROnPlateau, with `least` for its min_lr; for negative
/// numbers that one takes the share the other way.
struct plateau {
  double factor = 0.1;             // from 0 to 1
  std::uint32_t patience = 10;     // numbers
  double threshold = 1e-4;         // from 0 to 1
  std::uint32_t cooldown = 0;      // numbers after a reduction that are not waited for
  double least = 0;                // of the product of all factors, from 0 to 1
  bool greater_is_better = false;  // as of an accuracy; a loss's are the less the better
};

/// How far that is, as checkpoints have it.
struct plateau_position {
  double factor = 1;  // of learning rates
  std::optional<double> best{};
  std::uint32_t waited = 0, cooling = 0;

  void observe(const plateau& by, double number) {
    const bool grows = best && (*best > 0) == by.greater_is_better;
    const double least_better = best ? *best * (grows ? 1 + by.threshold : 1 - by.threshold) : 0;
    const bool better = by.greater_is_better ? number > least_better : number < least_better;
    if (better || (!best && !std::isnan(number))) {
      best = number;
      waited = 0;
    } else {
      ++waited;
    }
    if (cooling > 0) {
      --cooling;
      waited = 0;
    }
    if (waited <= by.patience) return;
    factor = std::max(factor * by.factor, std::min(factor, by.least));
    cooling = by.cooldown;
    waited = 0;
  }
  friend bool operator==(const plateau_position&, const plateau_position&) = default;
};

}  // namespace meganeura::inline MEGANEURA_ABI
