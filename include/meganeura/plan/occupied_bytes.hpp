// SPDX-License-Identifier: MIT
// Which bytes of the arena are taken when, and the lowest place that is free for a while.
#pragma once
#include <meganeura/core/small_vector.hpp>
#include <meganeura/plan/interval_set.hpp>
#include <meganeura/plan/layout.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

/// A segment tree over the levels of a plan, so that a search looks at a few
/// merged sets and not at every block.
class occupied_bytes {
 public:
  occupied_bytes(std::uint32_t levels, std::uint64_t page_bytes)
      : page_bytes_(page_bytes), leaves_(std::bit_ceil(levels)), whole_(2 * leaves_), any_(2 * leaves_) {}

  void insert(std::uint32_t first, std::uint32_t last, std::uint64_t begin, std::uint64_t end) {
    for_parts(first, last, [&](std::size_t part) {
      whole_[part].insert(begin, end);
      for (; part > 0 && !any_[part].covers(begin, end); part /= 2) any_[part].insert(begin, end);
    });
  }
  /// The lowest offset at which `bytes` of one page are free during all these levels.
  [[nodiscard]] std::uint64_t lowest_free(std::uint32_t first, std::uint32_t last, std::uint64_t bytes) const {
    small_vector<const interval_set*, 128> taken;  // four for each level of the tree
    const auto look_at = [&](const interval_set& each) {
      if (!each.empty()) taken.push_back(&each);
    };
    for_parts(first, last, [&](std::size_t part) { look_at(any_[part]); });
    for (std::size_t left = leaves_ + first, right = leaves_ + last; left > 0; left /= 2, right /= 2) {
      look_at(whole_[left]);
      if (right != left) look_at(whole_[right]);
    }
    std::uint64_t offset = 0;
    for (bool moved = true; moved;) {
      offset = fit_page(offset, bytes, page_bytes_);
      moved = false;
      for (const interval_set* each : taken) {
        const std::uint64_t end = each->conflict(offset, offset + bytes);
        if (end == 0) continue;
        offset = end;
        moved = true;
      }
    }
    return offset;
  }

 private:
  // The few tree nodes that make up first .. last.
  template <class Visit>
  void for_parts(std::size_t first, std::size_t last, Visit&& visit) const {
    std::size_t end = last + leaves_ + 1;
    for (first += leaves_; first < end; first /= 2, end /= 2) {
      if (first & 1) visit(first++);
      if (end & 1) visit(--end);
    }
  }
  std::uint64_t page_bytes_;
  std::size_t leaves_;
  std::vector<interval_set> whole_, any_;  // taken at all levels of the node, and at any of them
};

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
