// SPDX-License-Identifier: MIT
// Run-time shapes: up to max_rank extents, row-major, no symbols left.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>
#include <initializer_list>

namespace meganeura::inline MEGANEURA_ABI {

/// The largest number of axes of a tensor and of a kernel's iteration space.
inline constexpr int max_rank = 8;

/// Extents of a dense row-major tensor; rank 0 is a scalar with one element. A plain value, usable in constant
/// expressions. Callers keep rank <= max_rank; graph building checks it and reports a sentence.
struct shape {
  std::int64_t extents[max_rank]{};
  int rank = 0;

  constexpr shape() = default;
  constexpr shape(std::initializer_list<std::int64_t> list) {
    for (std::int64_t extent : list) push_back(extent);
  }

  [[nodiscard]] constexpr std::int64_t operator[](int axis) const { return extents[axis]; }
  [[nodiscard]] constexpr std::int64_t& operator[](int axis) { return extents[axis]; }
  [[nodiscard]] constexpr const std::int64_t* begin() const { return extents; }
  [[nodiscard]] constexpr const std::int64_t* end() const { return extents + rank; }
  constexpr void push_back(std::int64_t extent) { extents[rank++] = extent; }

  [[nodiscard]] constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (std::int64_t extent : *this) product *= extent;
    return product;
  }

  /// Elements to skip in flat memory when the index along `axis` grows by one.
  [[nodiscard]] constexpr std::int64_t stride(int axis) const {
    std::int64_t product = 1;
    for (int i = axis + 1; i < rank; ++i) product *= extents[i];
    return product;
  }

  friend constexpr bool operator==(const shape&, const shape&) = default;
};

}  // namespace meganeura::inline MEGANEURA_ABI
