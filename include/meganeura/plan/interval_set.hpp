// SPDX-License-Identifier: MIT
// Bytes of one area as a set of intervals.
#pragma once
#include <meganeura/config.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

/// Disjoint intervals that do not touch, in order: flat, because searches are many and sets small.
class interval_set {
 public:
  void insert(std::uint64_t begin, std::uint64_t end) {
    const auto first = std::partition_point(parts_.begin(), parts_.end(), [&](const auto& p) { return p.end < begin; });
    auto last = first;
    for (; last != parts_.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    if (first == last) {
      parts_.insert(first, {begin, end});
    } else {
      *first = {begin, end};
      parts_.erase(first + 1, last);
    }
  }
  /// The end of an interval that shares bytes with begin .. end; 0 if none does.
  [[nodiscard]] std::uint64_t conflict(std::uint64_t begin, std::uint64_t end) const {
    const auto at = std::partition_point(parts_.begin(), parts_.end(), [&](const auto& p) { return p.begin < end; });
    return at != parts_.begin() && std::prev(at)->end > begin ? std::prev(at)->end : 0;
  }
  [[nodiscard]] bool covers(std::uint64_t begin, std::uint64_t end) const {
    const auto at = std::partition_point(parts_.begin(), parts_.end(), [&](const auto& p) { return p.begin <= begin; });
    return at != parts_.begin() && std::prev(at)->end >= end;
  }
  void clear() { parts_.clear(); }
  [[nodiscard]] bool empty() const { return parts_.empty(); }

 private:
  struct interval {
    std::uint64_t begin, end;
  };
  std::vector<interval> parts_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
