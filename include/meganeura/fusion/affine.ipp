// SPDX-License-Identifier: MIT
// Definitions for fusion/affine.hpp.
#pragma once
#include <meganeura/core/insertion_sort.hpp>
#include <meganeura/fusion/affine.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace meganeura::inline MEGANEURA_ABI::fusion {

MEGANEURA_INLINE int nest::count(std::uint8_t wanted) const {
  return static_cast<int>(std::count(group, group + space.rank(), wanted));
}

namespace detail {

inline std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

template <class T>
void insert_at(T (&values)[max_rank], int at, T value) {
  std::copy_backward(values + at, values + max_rank - 1, values + max_rank);
  values[at] = value;
}

// What says nothing is zero, so that equal accesses are equal.
inline void clear_unused(index_map& access, int rank) {
  access.bounded &= (1u << rank) - 1;
  for (int i = 0; i < max_rank; ++i) {
    if (i >= rank) access.strides[i] = 0;
    if (!(access.bounded >> i & 1)) access.low[i] = access.high[i] = 0;
  }
}

// Axis i of the result is axis order[i]; axes not named disappear (their extent is 1).
inline void reorder(nest& loops, const int* order, int count) {
  bool same = count == loops.space.rank();
  for (int i = 0; i < count; ++i) same = same && order[i] == i;
  if (same) {
    for (index_map& access : loops.accesses) clear_unused(access, count);
    return;
  }
  const nest from = loops;
  loops.space = {};
  for (int i = 0; i < count; ++i) {
    loops.space.push_back(from.space[order[i]]);
    loops.group[i] = from.group[order[i]];
  }
  for (std::size_t a = 0; a < loops.accesses.size(); ++a) {
    index_map& to = loops.accesses[a];
    const index_map& old = from.accesses[a];
    to.bounded = 0;
    for (int i = 0; i < max_rank; ++i) to.strides[i] = to.low[i] = to.high[i] = 0;
    for (int i = 0; i < count; ++i) {
      to.strides[i] = old.strides[order[i]];
      if (!(old.bounded >> order[i] & 1)) continue;
      to.bounded |= 1u << i;
      to.low[i] = old.low[order[i]];
      to.high[i] = old.high[order[i]];
    }
  }
}

inline bool mergeable(const nest& loops, int axis) {
  if (loops.group[axis] != loops.group[axis + 1]) return false;
  return std::all_of(loops.accesses.begin(), loops.accesses.end(), [&](const index_map& a) {
    return !(a.bounded >> axis & 3) && a.strides[axis] == a.strides[axis + 1] * loops.space[axis + 1];
  });
}

}  // namespace detail

MEGANEURA_INLINE bool split_axis(nest& loops, int axis, std::int64_t inner) {
  if (loops.space.rank() == max_rank || inner < 1 || loops.space[axis] % inner != 0) return false;
  for (const index_map& a : loops.accesses) {
    if (a.bounded >> axis & 1) return false;
  }
  for (index_map& a : loops.accesses) {
    const std::uint32_t below = a.bounded & ((1u << axis) - 1);
    a.bounded = below | (a.bounded & ~((1u << axis) - 1)) << 1;
    detail::insert_at(a.strides, axis, a.strides[axis] * inner);
    detail::insert_at(a.low, axis, std::int64_t{0});
    detail::insert_at(a.high, axis, std::int64_t{0});
  }
  detail::insert_at(loops.group, axis, loops.group[axis]);
  shape split;
  for (int i = 0; i < loops.space.rank(); ++i) {
    split.push_back(i == axis ? loops.space[i] / inner : loops.space[i]);
    if (i == axis) split.push_back(inner);
  }
  loops.space = split;
  return true;
}

MEGANEURA_INLINE bool append_axis(nest& loops, std::int64_t extent, std::uint8_t group) {
  if (loops.space.rank() == max_rank) return false;
  loops.group[loops.space.rank()] = group;
  loops.space.push_back(extent);
  return true;
}

MEGANEURA_INLINE void normalise(nest& loops) {
  int order[max_rank]{}, count = 0;
  for (int i = 0; i < loops.space.rank(); ++i) {
    if (loops.space[i] != 1) order[count++] = i;
  }
  insertion_sort(order, order + count, [&](int x, int y) {
    if (loops.group[x] != loops.group[y]) return loops.group[x] < loops.group[y];
    for (const index_map& a : loops.accesses) {
      const std::int64_t sx = std::abs(a.strides[x]), sy = std::abs(a.strides[y]);
      if (sx != sy) return sx > sy;
    }
    return false;
  });
  detail::reorder(loops, order, count);
  for (int axis = loops.space.rank() - 2; axis >= 0; --axis) {
    if (!detail::mergeable(loops, axis)) continue;
    for (index_map& a : loops.accesses) a.strides[axis] = 0;  // the inner stride remains
    const std::int64_t merged = loops.space[axis] * loops.space[axis + 1];
    loops.space.set(axis, 1);
    loops.space.set(axis + 1, merged);
    count = 0;
    for (int i = 0; i < loops.space.rank(); ++i) {
      if (i != axis) order[count++] = i;
    }
    detail::reorder(loops, order, count);
  }
}

namespace detail {

// The digits of a flat distance along the target's axes, largest stride first.
struct target_axes {
  int order[max_rank]{};
  int count = 0;
  const index_map* layout = nullptr;

  target_axes(const shape& target, int axes, const index_map& positions) : layout(&positions) {
    for (int j = 0; j < axes; ++j) {
      if (target[j] > 1) order[count++] = j;
    }
    insertion_sort(order, order + count,
                   [&](int x, int y) { return std::abs(positions.strides[x]) > std::abs(positions.strides[y]); });
  }
  [[nodiscard]] bool digits(std::int64_t distance, std::int64_t (&out)[max_rank]) const {
    for (int i = 0; i < count; ++i) {
      const std::int64_t unit = layout->strides[order[i]];
      if (unit == 0) return false;  // the layout repeats elements: no inverse
      out[order[i]] = distance / unit;
      distance %= unit;
    }
    return distance == 0;
  }
};

}  // namespace detail

MEGANEURA_INLINE bool solve_index(nest& reader, std::size_t which, const shape& target, int axes,
                                  const index_map& layout, bool may_split, axis_map& result) {
  const detail::target_axes digits(target, axes, layout);
  for (int attempts = 0; attempts <= max_rank; ++attempts) {
    const index_map& from = reader.accesses[which];
    result = {};
    std::int64_t corner[max_rank]{}, extent[max_rank]{}, base = from.offset - layout.offset;
    for (int k = 0; k < reader.space.rank(); ++k) {
      const bool bounded = from.bounded >> k & 1;
      corner[k] = bounded ? from.low[k] : 0;
      extent[k] = bounded ? from.high[k] - from.low[k] : reader.space[k];
      base += corner[k] * from.strides[k];
    }
    if (!digits.digits(base, result.start)) return false;
    std::int64_t low[max_rank], high[max_rank];
    std::copy(result.start, result.start + max_rank, low);
    std::copy(result.start, result.start + max_rank, high);
    for (int k = 0; k < reader.space.rank(); ++k) {
      if (extent[k] <= 1 || from.strides[k] == 0) continue;
      std::int64_t steps[max_rank]{};
      if (!digits.digits(from.strides[k], steps)) return false;
      for (int j = 0; j < axes; ++j) {
        result.step[j][k] = steps[j];
        (steps[j] < 0 ? low : high)[j] += steps[j] * (extent[k] - 1);
      }
    }
    int split = -1;
    std::int64_t inner = 0;
    for (int j = 0; j < axes && split < 0; ++j) {
      if (low[j] >= 0 && high[j] < target[j]) continue;
      // A reader axis that runs over the end of target axis j continues on the next one: split it there.
      for (int k = 0; k < reader.space.rank() && split < 0; ++k) {
        const std::int64_t step = std::abs(result.step[j][k]);
        if (step == 0 || target[j] % step != 0) continue;
        inner = target[j] / step;
        if (extent[k] > inner && inner > 1 && extent[k] % inner == 0) split = k;
      }
      if (split < 0) return false;
    }
    if (split < 0) {
      for (int j = 0; j < axes; ++j) {
        for (int k = 0; k < reader.space.rank(); ++k) result.start[j] -= result.step[j][k] * corner[k];
      }
      return true;
    }
    if (!may_split || !split_axis(reader, split, inner)) return false;
  }
  return false;
}

namespace detail {

// Narrows result's box along reader axis k to low <= start + step * i < high; false when nothing is left.
inline bool narrow(index_map& result, int k, std::int64_t extent, std::int64_t start, std::int64_t step,
                   std::int64_t low, std::int64_t high) {
  std::int64_t first = 0, last = 0;  // first <= i < last
  if (step > 0) {
    first = -floor_divide(start - low, step);
    last = -floor_divide(start - high, step);
  } else {
    first = floor_divide(start - high, -step) + 1;
    last = floor_divide(start - low, -step) + 1;
  }
  const bool bounded = result.bounded >> k & 1;
  first = std::max(first, bounded ? result.low[k] : 0);
  last = std::min(last, bounded ? result.high[k] : extent);
  if (first >= last) return false;
  if (first == 0 && last == extent) return true;
  result.bounded |= 1u << k;
  result.low[k] = first;
  result.high[k] = last;
  return true;
}

}  // namespace detail

MEGANEURA_INLINE bool compose_access(const index_map& inner, int target_rank, const axis_map& map,
                                     const index_map& outer, const shape& reader, index_map& result) {
  result = index_map{.source = inner.source, .offset = inner.offset, .bounded = outer.bounded, .fill = outer.fill};
  std::copy(outer.low, outer.low + max_rank, result.low);
  std::copy(outer.high, outer.high + max_rank, result.high);
  if (inner.bounded) result.fill = inner.fill;
  for (int j = 0; j < target_rank; ++j) {
    result.offset += map.start[j] * inner.strides[j];
    int dependent = -1, dependents = 0;
    std::int64_t low = map.start[j], high = map.start[j];
    for (int k = 0; k < reader.rank(); ++k) {
      const std::int64_t step = map.step[j][k];
      if (step == 0) continue;
      result.strides[k] += step * inner.strides[j];
      dependent = k;
      ++dependents;
      const bool boxed = outer.bounded >> k & 1;
      const std::int64_t first = boxed ? outer.low[k] : 0, last = (boxed ? outer.high[k] : reader[k]) - 1;
      low += std::min(step * first, step * last);
      high += std::max(step * first, step * last);
    }
    if (!(inner.bounded >> j & 1) || (low >= inner.low[j] && high < inner.high[j])) continue;
    if (dependents != 1) return false;
    if (!detail::narrow(result, dependent, reader[dependent], map.start[j], map.step[j][dependent], inner.low[j],
                        inner.high[j])) {
      return false;
    }
  }
  for (int k = 0; k < reader.rank(); ++k) {
    if (reader[k] == 1) result.strides[k] = 0;
  }
  return true;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
