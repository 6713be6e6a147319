// SPDX-License-Identifier: MIT
// Bytes that live at each level of a plan: added over ranges of levels, and the most of all, in logarithmic time.
#pragma once
#include <meganeura/config.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

class level_bytes {
 public:
  explicit level_bytes(std::uint32_t levels)
      : leaves_(std::bit_ceil(std::max(levels, 1u))), most_(2 * std::size_t{leaves_}), all_(2 * std::size_t{leaves_}) {}

  /// From the level `first` to `last`.
  void add(std::uint32_t first, std::uint32_t last, std::int64_t bytes) {
    if (first <= last) add(1, 0, leaves_ - 1, {first, last, bytes});
  }
  [[nodiscard]] std::int64_t operator[](std::uint32_t level) const {
    std::int64_t sum = 0;
    for (std::size_t at = leaves_ + level; at > 0; at /= 2) sum += all_[at];
    return sum;
  }
  [[nodiscard]] std::int64_t most() const { return most_[1]; }
  /// The first level that has as many.
  [[nodiscard]] std::uint32_t fullest() const {
    std::size_t at = 1;
    while (at < leaves_) at = most_[2 * at] >= most_[2 * at + 1] ? 2 * at : 2 * at + 1;
    return static_cast<std::uint32_t>(at - leaves_);
  }

 private:
  struct range_of_levels {
    std::uint32_t first, last;
    std::int64_t bytes;
  };
  // A node of a binary tree, of levels from `begin` to `end`.
  void add(std::size_t at, std::uint32_t begin, std::uint32_t end, const range_of_levels& what) {
    if (what.last < begin || end < what.first) return;
    if (what.first <= begin && end <= what.last) {
      all_[at] += what.bytes;
      most_[at] += what.bytes;
      return;
    }
    const std::uint32_t middle = begin + (end - begin) / 2;
    add(2 * at, begin, middle, what);
    add(2 * at + 1, middle + 1, end, what);
    most_[at] = all_[at] + std::max(most_[2 * at], most_[2 * at + 1]);
  }

  std::uint32_t leaves_;
  std::vector<std::int64_t> most_;  // of a node's levels, without what is added to nodes above
  std::vector<std::int64_t> all_;   // what is added to each of them
};

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
