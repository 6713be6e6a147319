// SPDX-License-Identifier: MIT
// View adjoints: sum, one view that sorts and flips the axes, then borders of zeros.
#pragma once
#include <meganeura/autodiff/view_adjoint.hpp>
#include <meganeura/core/checked.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/insertion_sort.hpp>
#include <meganeura/core/small_vector.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::detail {

/// An axis of a view after flipping: `extent` elements, `stride` > 0 apart in the source.
struct view_axis {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
};

/// A gradient whose axes are sorted by descending positive stride; element 0 belongs to `offset` in the source.
struct sorted_gradient {
  node_id node = no_id;
  small_vector<view_axis, max_rank> axes;
  std::int64_t offset = 0;
};

// Sums over broadcast axes, then sorts and flips the rest with a single view.
inline sorted_gradient sort_axes(graph& g, node_id gradient, const view_attribute& map) {
  const shape extents = g[gradient].extents;
  std::uint32_t broadcast = 0;
  shape kept;
  small_vector<std::int64_t, max_rank> strides;
  for (int i = 0; i < extents.rank(); ++i) {
    if (extents[i] != 1 && map.strides[i] == 0) {
      broadcast |= 1u << i;
    } else {
      kept.push_back(extents[i]);
      strides.push_back(map.strides[i]);
    }
  }
  const node_id summed = g.reduce(reduce_kind::sum, gradient, broadcast);
  small_vector<int, max_rank> order;
  for (int i = 0; i < kept.rank(); ++i) {
    if (kept[i] != 1) order.push_back(i);
  }
  const auto magnitude = [&](int axis) { return std::abs(strides[static_cast<std::size_t>(axis)]); };
  insertion_sort(order.begin(), order.end(), [&](int a, int b) { return magnitude(a) > magnitude(b); });

  sorted_gradient result;
  result.offset = map.offset;
  shape sorted;
  view_attribute sorting;
  for (int axis : order) {
    const std::int64_t stride = strides[static_cast<std::size_t>(axis)], dense = kept.stride(axis);
    const std::int64_t last = kept[axis] - 1;
    sorting.strides[sorted.rank()] = stride < 0 ? -dense : dense;
    if (stride < 0) {
      sorting.offset += dense * last;
      result.offset += stride * last;
    }
    sorted.push_back(kept[axis]);
    result.axes.push_back({kept[axis], std::abs(stride)});
  }
  result.node = g.view(summed, sorted, sorting);
  return result;
}

/// What a view that keeps to the source's axes reads of each of them: `extent` elements from `start`, `step` apart.
struct axis_range {
  std::int64_t start = 0, extent = 1, step = 1;
};
using axis_ranges = small_vector<axis_range, max_rank>;

// Matches the sorted axes with those of the source, several to one where they are together a plain range of it. False
// when an axis of the view runs across axes of the source (a merge): the flat form then handles it.
inline bool match_axes(const sorted_gradient& gradient, const shape& source, axis_ranges& ranges) {
  std::int64_t offset = gradient.offset;
  std::size_t next = 0;
  for (int axis = 0; axis < source.rank(); ++axis) {
    const std::int64_t unit = source.stride(axis);
    axis_range range{.start = offset / unit};
    offset %= unit;
    std::int64_t smallest = 0;
    for (; next < gradient.axes.size() && gradient.axes[next].stride >= unit; ++next) {
      const view_axis& part = gradient.axes[next];
      if (smallest != 0 && smallest != part.stride * part.extent) return false;
      if (part.stride % unit != 0) return false;
      smallest = part.stride;
      range.extent *= part.extent;
    }
    if (smallest != 0) range.step = smallest / unit;
    if (range.start + (range.extent - 1) * range.step >= source[axis]) return false;
    ranges.push_back(range);
  }
  return next == gradient.axes.size();
}

// Puts step - 1 zeros behind each element along `axis`, then cuts the tail: extent (n - 1) * step + 1.
inline node_id spread(graph& g, node_id a, int axis, std::int64_t step) {
  const shape extents = g[a].extents;
  std::int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= extents[i];
  const std::int64_t inner = extents.stride(axis), count = extents[axis];
  const std::int64_t low[] = {0, 0, 0}, high[] = {0, step - 1, 0};
  const node_id padded = g.pad(g.reshape(a, {outer * count, 1, inner}), low, high);
  shape wide = extents;
  wide.set(axis, checked_int(count) * step);
  return g.slice(g.reshape(padded, wide), axis, 0, (count - 1) * step + 1);
}

inline node_id place_ranges(graph& g, node_id a, const axis_ranges& ranges, const shape& source) {
  shape extents;
  for (const axis_range& range : ranges) extents.push_back(range.extent);
  node_id result = g.reshape(a, extents);
  std::int64_t low[max_rank]{}, high[max_rank]{};
  for (int axis = 0; axis < source.rank(); ++axis) {
    const axis_range& range = ranges[static_cast<std::size_t>(axis)];
    if (range.extent > 1 && range.step > 1) result = spread(g, result, axis, range.step);
    low[axis] = range.start;
    high[axis] = source[axis] - range.start - ((range.extent - 1) * range.step + 1);
  }
  const auto rank = static_cast<std::size_t>(source.rank());
  return g.pad(result, {low, rank}, {high, rank});
}

// The general form, on flat memory from the smallest stride upwards. Before each level the tensor is [outer, length],
// of which the first `reach` elements are in use: that block is put into a slot as long as the next larger stride.
inline node_id place_flat(graph& g, const sorted_gradient& gradient, const shape& source) {
  std::int64_t outer = g[gradient.node].extents.elements(), length = 1, reach = 1, offset = gradient.offset;
  node_id result = g.reshape(gradient.node, {outer, 1});
  for (std::size_t level = gradient.axes.size() + 1; level-- > 0;) {
    const view_axis axis = level == 0 ? view_axis{1, source.elements()} : gradient.axes[level - 1];
    const std::int64_t slot = axis.stride;
    if (reach > slot) {
      fail(error_category::invalid_argument,
           "gradient of a view of {}: it reads overlapping windows (a window reaches {} elements, the next starts {} "
           "further); use gather, or a pooling or convolution primitive",
           to_string(source), reach, slot);
    }
    const std::int64_t low = offset % slot + reach <= slot ? offset % slot : 0;
    if (length > slot - low) {
      length = slot - low;
      result = g.slice(result, 1, 0, length);
    }
    const std::int64_t before[] = {0, low}, after[] = {0, slot - low - length};
    result = g.reshape(g.pad(result, before, after), {outer / axis.extent, axis.extent * slot});
    offset -= low;
    reach += low + (axis.extent - 1) * slot;
    outer /= axis.extent;
    length = axis.extent * slot;
  }
  return g.reshape(result, source);
}

MEGANEURA_INLINE node_id view_adjoint(graph& g, node_id gradient, const view_attribute& map, const shape& source) {
  const sorted_gradient sorted = sort_axes(g, gradient, map);
  axis_ranges ranges;
  if (match_axes(sorted, source, ranges)) return place_ranges(g, sorted.node, ranges, source);
  return place_flat(g, sorted, source);
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
