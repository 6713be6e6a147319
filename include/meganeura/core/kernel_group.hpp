// SPDX-License-Identifier: MIT
// Kernels side by side, and how long they take together.
#pragma once
#include <meganeura/core/kernel_time.hpp>
#include <meganeura/core/small_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

/// A group as long as the longest of its kernels, and as the work of all of them, which waits for the first one's data.
struct kernel_group {
  /// Numbers in their order: groups are of few kernels.
  struct sorted_numbers {
    small_vector<double, 8> all;
    void insert(double number) {
      all.push_back(number);
      for (std::size_t i = all.size() - 1; i > 0 && all[i] < all[i - 1]; --i) std::swap(all[i], all[i - 1]);
    }
    void remove(double number) {
      std::size_t at = 0;
      while (at + 1 < all.size() && all[at] != number) ++at;
      for (; at + 1 < all.size(); ++at) all[at] = all[at + 1];
      all.resize(all.size() - 1);
    }
  };

  sorted_numbers alone, idle;
  double busy = 0;

  [[nodiscard]] bool empty() const { return alone.all.empty(); }
  void add(const kernel_time& kernel) {
    alone.insert(kernel.alone);
    idle.insert(kernel.alone - kernel.busy);
    busy += kernel.busy;
  }
  void remove(const kernel_time& kernel) {
    alone.remove(kernel.alone);
    idle.remove(kernel.alone - kernel.busy);
    busy -= kernel.busy;
  }
  [[nodiscard]] double seconds(const launch_time& launch) const {
    return empty() ? 0 : launched(launch, alone.all.size(), alone.all.back(), busy + idle.all[0]);
  }
  /// With one kernel more.
  [[nodiscard]] double seconds_with(const kernel_time& kernel, const launch_time& launch) const {
    const double longest = empty() ? kernel.alone : std::max(kernel.alone, alone.all.back());
    const double first = kernel.alone - kernel.busy;
    return launched(launch, alone.all.size() + 1, longest,
                    busy + kernel.busy + (empty() ? first : std::min(first, idle.all[0])));
  }

 private:
  static double launched(const launch_time& launch, std::size_t kernels, double longest, double work) {
    return launch.group + static_cast<double>(kernels) * launch.dispatch + std::max(longest, work);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI
