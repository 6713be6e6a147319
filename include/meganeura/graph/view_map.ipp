// SPDX-License-Identifier: MIT
// Definitions for graph/view_map.hpp.
#pragma once
#include <meganeura/graph/view_map.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE view_attribute dense_view(const shape& extents) {
  view_attribute map;
  std::int64_t stride = 1;
  for (int i = extents.rank(); i-- > 0;) {
    map.strides[i] = extents[i] == 1 ? 0 : stride;
    stride *= extents[i];
  }
  return map;
}

namespace detail {

// Splits a flat stride of the middle tensor into index steps along its axes; steps may be negative (a flip).
inline bool decompose(std::int64_t stride, const shape& middle, std::int64_t (&steps)[max_rank]) {
  const std::int64_t sign = stride < 0 ? -1 : 1;
  stride *= sign;
  for (int i = 0; i < middle.rank(); ++i) {
    const std::int64_t unit = middle.stride(i);
    steps[i] = middle[i] == 1 ? 0 : sign * (stride / unit);
    if (middle[i] != 1) stride %= unit;
  }
  return stride == 0;
}

}  // namespace detail

MEGANEURA_INLINE bool compose(const view_attribute& outer, const shape& outer_extents, const view_attribute& inner,
                              const shape& middle, view_attribute& result) {
  // The index along each middle axis must stay affine and in range: start + sum step * i, within [0, extent).
  std::int64_t start[max_rank]{}, low[max_rank]{}, high[max_rank]{};
  if (!detail::decompose(outer.offset, middle, start)) return false;
  result = {.offset = inner.offset};
  for (int axis = 0; axis < middle.rank(); ++axis) {
    result.offset += start[axis] * inner.strides[axis];
    low[axis] = high[axis] = start[axis];
  }
  for (int k = 0; k < outer_extents.rank(); ++k) {
    std::int64_t steps[max_rank]{};
    if (!detail::decompose(outer.strides[k], middle, steps)) return false;
    for (int axis = 0; axis < middle.rank(); ++axis) {
      const std::int64_t reach = steps[axis] * (outer_extents[k] - 1);
      (reach < 0 ? low : high)[axis] += reach;
      result.strides[k] += steps[axis] * inner.strides[axis];
    }
  }
  for (int axis = 0; axis < middle.rank(); ++axis) {
    if (low[axis] < 0 || high[axis] >= middle[axis]) return false;
  }
  return true;
}

}  // namespace meganeura::inline MEGANEURA_ABI
