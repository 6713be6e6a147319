// SPDX-License-Identifier: MIT
// What rules ask about accesses of a loop nest, and of the parts of a scalar program.
#pragma once
#include <meganeura/fusion/affine.hpp>
#include <meganeura/graph/scalar.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace meganeura::inline MEGANEURA_ABI::fusion::detail {

// Whether an access moves along an axis of one of the groups that are not named.
inline bool depends_beside(const nest& loops, const index_map& access, std::initializer_list<int> groups) {
  for (int axis = 0; axis < loops.space.rank(); ++axis) {
    if (access.strides[axis] != 0 && loops.space[axis] != 1 &&
        std::ranges::find(groups, static_cast<int>(loops.group[axis])) == groups.end())
      return true;
  }
  return false;
}

// Whether places that such axes count are those of a row so long, each once.
struct counted_axis {
  std::int64_t extent, stride;
};
inline bool counts_each_once(small_vector<counted_axis, max_rank> axes, std::int64_t length) {
  std::ranges::sort(axes, {}, &counted_axis::stride);
  std::int64_t next = 1;
  for (const counted_axis& axis : axes) {
    if (axis.extent == 1) continue;
    if (axis.stride != next) return false;
    next *= axis.extent;
  }
  return next == length;
}

// Whether the loops' axes of one group, and no others, count those of a target's axes that `is_counted`, each place
// once, and none of its other axes.
template <class Counted>
bool counts_axes(const nest& loops, int group, const shape& target, const axis_map& map, const Counted& is_counted) {
  std::int64_t length = 1;
  for (int j = 0; j < target.rank(); ++j) {
    if (!is_counted(j)) continue;
    if (map.start[j] != 0) return false;
    length *= target[j];
  }
  small_vector<counted_axis, max_rank> axes;
  for (int axis = 0; axis < loops.space.rank(); ++axis) {
    if (loops.space[axis] == 1) continue;
    std::int64_t along = 0, step = 1;
    bool outside = false;
    for (int j = target.rank(); j-- > 0;) {
      if (!is_counted(j)) {
        outside = outside || map.step[j][axis] != 0;
        continue;
      }
      along += map.step[j][axis] * step;
      step *= target[j];
    }
    if (loops.group[axis] == group ? outside : along != 0) return false;
    if (loops.group[axis] == group) axes.push_back({loops.space[axis], along});
  }
  return counts_each_once(axes, length);
}
// The elements of a region's rows.
inline bool counts_rows(const nest& loops, int group, const region_attribute& region, const axis_map& map) {
  const int first = region.space.rank() - region.row_axes;
  return counts_axes(loops, group, region.space, map, [&](int axis) { return axis >= first; });
}

inline std::int64_t row_length(const region_attribute& region) {
  std::int64_t length = 1;
  for (int axis = region.space.rank() - region.row_axes; axis < region.space.rank(); ++axis)
    length *= region.space[axis];
  return length;
}

inline bool is_dense(const index_map& access, const shape& space) {
  if (access.offset != 0 || access.bounded != 0) return false;
  for (int axis = 0; axis < space.rank(); ++axis) {
    if (space[axis] != 1 && access.strides[axis] != space.stride(axis)) return false;
  }
  return true;
}

// Whether two accesses read the same of each element that has the same number in its space.
inline bool reads_alike(const index_map& a, const shape& of_a, const index_map& b, const shape& of_b) {
  if (a.offset != b.offset || a.bounded != 0 || b.bounded != 0 || of_a.elements() != of_b.elements()) return false;
  // From the last axes on, as many elements at a time as both have side by side.
  std::int64_t left_a = 1, left_b = 1, stride_a = 0, stride_b = 0;
  for (int i = of_a.rank(), j = of_b.rank();;) {
    while (left_a == 1 && i > 0) left_a = of_a[--i], stride_a = a.strides[i];
    while (left_b == 1 && j > 0) left_b = of_b[--j], stride_b = b.strides[j];
    const std::int64_t both = std::min(left_a, left_b);
    if (both == 1) return true;
    if (stride_a != stride_b || left_a % both != 0 || left_b % both != 0) return false;
    left_a /= both, left_b /= both, stride_a *= both, stride_b *= both;
  }
}

// What computes one node of a program.
inline scalar_program part(const scalar_program& program, scalar_ref root) {
  scalar_program result;
  result.nodes.append(program.nodes.begin(), program.nodes.begin() + root + 1);
  return result;
}

// The place of an operand, or of what is read, among those from `first` on, where it may be the last from now on.
template <class List, class Element>
std::size_t append_once(List& list, std::size_t first, const Element& element) {
  const auto known = std::find(list.begin() + static_cast<std::ptrdiff_t>(first), list.end(), element);
  const auto place = static_cast<std::size_t>(known - list.begin());
  if (place == list.size()) list.push_back(element);
  return place;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion::detail
