// SPDX-License-Identifier: MIT
// Printing shapes, and the sentences of those that cannot be.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/shape.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE std::string to_string(const shape& extents) { return fmt::format("[{}]", fmt::join(extents, ", ")); }

MEGANEURA_INLINE void shape::refuse_rank(std::int64_t extent) const {
  fail(error_category::invalid_argument, "shape {}: cannot have another axis of {}; a tensor has at most {} axes",
       to_string(*this), extent, max_rank);
}

MEGANEURA_INLINE void shape::refuse_extent(int axis, std::int64_t extent) const {
  if (extent < 1) {
    std::vector<std::int64_t> asked(begin(), end());
    if (axis < rank_)
      asked[static_cast<std::size_t>(axis)] = extent;
    else
      asked.push_back(extent);
    fail(error_category::invalid_argument, "shape [{}]: axis {} cannot be {}; an extent is at least 1",
         fmt::join(asked, ", "), axis, extent);
  }
  fail(error_category::invalid_argument,
       "shape {}: {} along axis {} makes more than 2^58 elements; choose smaller extents", to_string(*this), extent,
       axis);
}

MEGANEURA_INLINE void shape::refuse_axis(int axis) const {
  fail(error_category::invalid_argument, "shape {}: there is no axis {}; the axes count from 0 and are {}",
       to_string(*this), axis, rank_);
}

}  // namespace meganeura::inline MEGANEURA_ABI
