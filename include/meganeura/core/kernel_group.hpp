// SPDX-License-Identifier: MIT
// Kernels side by side, and how long they take together.
#pragma once
#include <meganeura/core/kernel_time.hpp>
#include <meganeura/core/small_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

/// A group as long as the longest of its kernels, the next of which begins a little later each time, the longest first,
/// and as the work of all of them, which waits for the first one's data.
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
  [[nodiscard]] double seconds(const launch_time& launch) const { return empty() ? 0 : seconds_with(nullptr, launch); }
  /// With one kernel more.
  [[nodiscard]] double seconds_with(const kernel_time& kernel, const launch_time& launch) const {
    return seconds_with(&kernel, launch);
  }

 private:
  // When the kernel behind so many others begins. Of two of 2.8 us each on an H100 the second ends 2 later.
  static double later(std::size_t others, const launch_time& launch) {
    return 0.5 * launch.group * static_cast<double>(others);
  }
  [[nodiscard]] double seconds_with(const kernel_time* more, const launch_time& launch) const {
    double longest = 0;
    std::size_t begun = 0;
    const auto begin = [&](double seconds) { longest = std::max(longest, seconds + later(begun++, launch)); };
    const kernel_time* waits = more;
    for (std::size_t i = alone.all.size(); i-- > 0;) {
      if (waits && alone.all[i] <= waits->alone) begin(waits->alone), waits = nullptr;
      begin(alone.all[i]);
    }
    if (waits) begin(waits->alone);
    double work = busy, first = empty() ? more->alone - more->busy : idle.all[0];
    if (more) work += more->busy, first = std::min(first, more->alone - more->busy);
    return launch.group + static_cast<double>(begun) * launch.dispatch + std::max(longest, work + first);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI
