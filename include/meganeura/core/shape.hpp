// SPDX-License-Identifier: MIT
// Run-time shapes: up to max_rank extents, row-major, no symbols left; every shape that exists can be counted.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/dim.hpp>
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/rank.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace meganeura::inline MEGANEURA_ABI {

/// Extents of a dense row-major tensor or of an iteration space; rank 0 is a scalar with one element. A value that
/// keeps its promises: at most max_rank axes, every extent at least 1, at most max_elements elements, so that counts,
/// strides and byte counts fit into 64 bits. Whatever would break one is refused, and an axis that does not exist:
/// errors: invalid_argument.
class shape {
 public:
  /// 16 bytes an element still fit into a signed 64-bit count.
  static constexpr std::int64_t max_elements = std::int64_t{1} << 58;

  constexpr shape() = default;
  constexpr shape(std::initializer_list<std::int64_t> list) {
    for (std::int64_t extent : list) push_back(extent);
  }

  // NOLINTNEXTLINE(google-explicit-constructor): where shapes may hold symbols, this one holds none
  [[nodiscard]] constexpr operator symbolic_shape() const {
    symbolic_shape result;
    for (std::int64_t extent : *this) result.push_back(extent);
    return result;
  }

  [[nodiscard]] constexpr int rank() const { return rank_; }
  [[nodiscard]] constexpr std::int64_t operator[](int axis) const { return extents_[checked(axis)]; }
  [[nodiscard]] constexpr const std::int64_t* begin() const { return extents_; }
  [[nodiscard]] constexpr const std::int64_t* end() const { return extents_ + rank_; }
  /// Counted from the end: last() is the last extent, last(1) the one before.
  [[nodiscard]] constexpr std::int64_t last(int from_end = 0) const { return (*this)[rank_ - 1 - from_end]; }

  constexpr void push_back(std::int64_t extent) {
    if (rank_ == max_rank) refuse_rank(extent);
    if (!fits(extent, elements())) refuse_extent(rank_, extent);
    extents_[rank_++] = extent;
  }
  constexpr void pop_back(int axes = 1) {
    if (axes < 0 || axes > rank_) refuse_axis(axes);
    for (; axes > 0; --axes) extents_[--rank_] = 0;
  }
  constexpr void set(int axis, std::int64_t extent) {
    if (!fits(extent, elements() / extents_[checked(axis)])) refuse_extent(axis, extent);
    extents_[axis] = extent;
  }

  [[nodiscard]] constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (std::int64_t extent : *this) product *= extent;
    return product;
  }
  /// Of a dense tensor of that dtype.
  [[nodiscard]] constexpr std::int64_t bytes(dtype type) const { return storage_bytes(type, elements()); }

  /// Elements to skip in flat memory when the index along `axis` grows by one.
  [[nodiscard]] constexpr std::int64_t stride(int axis) const {
    std::int64_t product = 1;
    for (int i = checked(axis) + 1; i < rank_; ++i) product *= extents_[i];
    return product;
  }

  friend constexpr bool operator==(const shape& a, const shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  [[nodiscard]] constexpr int checked(int axis) const {
    if (axis < 0 || axis >= rank_) refuse_axis(axis);
    return axis;
  }
  // Without a division: shapes are made by the thousand.
  [[nodiscard]] static constexpr bool fits(std::int64_t extent, std::int64_t others) {
    std::int64_t product = 0;
    return extent >= 1 && !__builtin_mul_overflow(extent, others, &product) && product <= max_elements;
  }
  [[noreturn]] void refuse_rank(std::int64_t extent) const;
  [[noreturn]] void refuse_extent(int axis, std::int64_t extent) const;
  [[noreturn]] void refuse_axis(int axis) const;

  std::int64_t extents_[max_rank]{};
  int rank_ = 0;
};

namespace detail {
// A shape without symbols.
[[nodiscard]] constexpr shape numeric(const symbolic_shape& extents) {
  shape result;
  for (int i = 0; i < extents.rank; ++i) result.push_back(extents[i].coefficient);
  return result;
}
}  // namespace detail

/// "[32, 784]".
[[nodiscard]] std::string to_string(const shape& extents);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/core/shape.ipp>
#endif
