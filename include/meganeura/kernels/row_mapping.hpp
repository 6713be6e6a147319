// SPDX-License-Identifier: MIT
// How the rows of a loop nest lie on invocations.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

// The power of two from `x` on, 2^31 at most: what it limits is far smaller.
[[nodiscard]] inline std::uint32_t ceil_power(std::int64_t x) {
  return static_cast<std::uint32_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(x, 1, 1LL << 31))));
}

/// How rows lie on invocations. `lanes` invocations share a row; `rows` rows share a workgroup.
struct row_mapping {
  enum style_kind : std::uint8_t {
    cluster,    // lanes neighbours inside a subgroup: shuffles, no shared memory
    workgroup,  // the whole workgroup is one row: subgroups, then one trip through shared memory
    columns     // neighbours hold neighbouring rows, lanes lie across: a tree in shared memory
  };
  style_kind style = cluster;
  std::uint32_t lanes = 1, rows = 1;
  int vector_axis = -1;
  std::int64_t row_items = 0;    // steps along one row, in vectors where vector_axis is a row axis
  std::int64_t outer_items = 0;  // rows, or groups of four rows
  int unrolled = 1;              // steps an invocation keeps in registers, or takes at once in a loop
};

[[nodiscard]] inline bool varies_along_row(const loop_nest& nest, const index_map& each) {
  for (int axis = nest.outer_axes(); axis < nest.rank; ++axis) {
    if (!is_uniform(each, axis)) return true;
  }
  return false;
}

/// The access with most elements decides the order in which a row reduced to one value is walked.
[[nodiscard]] inline int reading_guide(const region_attribute& region) {
  int guide = -1;
  std::int64_t most = 0;
  for (std::size_t k = 0; k < region.accesses.size(); ++k) {
    const index_map& each = region.accesses[k];
    if (each.source == index_map::index_source) continue;
    std::int64_t elements = 1;
    for (int axis = 0; axis < region.space.rank(); ++axis) elements *= each.strides[axis] != 0 ? region.space[axis] : 1;
    if (elements > most) most = elements, guide = static_cast<int>(k);
  }
  return guide;
}

// Reductions that pass through shared memory keep up to two arrays of four words an invocation there.
[[nodiscard]] inline std::uint32_t most_threads(const device_profile& on) {
  return std::min({std::bit_floor(on.max_invocations), std::bit_floor(on.max_shared_bytes / 32), 1024u});
}

inline void map_columns(row_mapping& map, std::int64_t length, const device_profile& on) {
  map.style = row_mapping::columns;
  const bool software = on.prefers_texel_buffers;
  const std::uint32_t width = map.vector_axis >= 0 ? 4 : 1;
  std::uint32_t threads = software ? std::min(on.subgroup_size, most_threads(on)) : std::min(256u, most_threads(on));
  map.rows = software ? threads : 32 / width;
  // Too few workgroups: narrow them to a memory sector or half of one and put more invocations on each column.
  if (!software && ceil_div(map.outer_items, map.rows) < on.compute_units) {
    map.rows = (map.outer_items * width < 4 * std::int64_t{on.compute_units} ? 4 : 8) / width;
    threads = most_threads(on);
  }
  map.rows = std::min(map.rows, ceil_power(map.outer_items));
  map.lanes = std::min(threads / map.rows, ceil_power(ceil_div(length, 4)));
  if (software && map.lanes == 1) map.rows = std::min(64u, ceil_power(map.outer_items));
}

inline void map_rows(row_mapping& map, const device_profile& on) {
  const std::uint32_t subgroup = on.subgroup_size;
  const bool many_rows = map.outer_items >= std::int64_t{on.compute_units} * 8;
  const bool is_short = map.row_items <= subgroup || (many_rows && map.row_items <= 4 * std::int64_t{subgroup});
  if (on.subgroup_shuffle && (on.prefers_texel_buffers || is_short)) {
    map.lanes = std::min(subgroup, ceil_power(on.prefers_texel_buffers ? map.row_items : ceil_div(map.row_items, 2)));
    // In software a workgroup costs more than a subgroup; with long rows that no longer counts.
    const std::uint32_t size = on.prefers_texel_buffers ? (map.row_items > 64 ? subgroup : 64) : 128;
    map.rows = std::max(1u, std::min(std::max(size, subgroup), on.max_invocations) / map.lanes);
    return;
  }
  map.style = row_mapping::workgroup;
  const bool few_rows = map.outer_items < 2 * std::int64_t{on.compute_units};
  const std::uint32_t most = std::min(few_rows ? 1024u : 256u, most_threads(on));
  map.lanes = std::clamp(ceil_power(ceil_div(map.row_items, 4)), std::min(std::max(64u, subgroup), most), most);
}

[[nodiscard]] inline row_mapping make_row_mapping(const loop_nest& nest, int guide, const device_profile& on) {
  row_mapping map;
  const index_map& leader = guide < 0 ? nest.output : nest.accesses[static_cast<std::size_t>(guide)];
  const int last_row = nest.row_axes > 0 ? nest.rank - 1 : -1;
  const int last_outer = nest.outer_axes() - 1;
  const bool along = last_row >= 0 && leader.strides[last_row] == 1;
  const bool across =
      last_row >= 0 && !along && last_outer >= 0 && leader.strides[last_outer] == 1 && nest.extents[last_outer] > 1;
  const int candidate = along ? last_row : across ? last_outer : -1;
  if (candidate >= 0 && vectorises(nest, leader, candidate)) map.vector_axis = candidate;
  const std::int64_t length = nest.count(nest.outer_axes(), nest.rank);
  map.row_items = map.vector_axis >= 0 && along ? length / 4 : length;
  map.outer_items = nest.count(0, nest.outer_axes()) / (map.vector_axis >= 0 && across ? 4 : 1);
  across ? map_columns(map, length, on) : map_rows(map, on);
  const auto varying = std::count_if(nest.accesses.begin(), nest.accesses.end(),
                                     [&](const index_map& each) { return varies_along_row(nest, each); });
  const int room = (on.prefers_texel_buffers ? 16 : 32) / (map.vector_axis >= 0 ? 4 : 1);
  map.unrolled = std::clamp(room / std::max(1, static_cast<int>(varying)), 1, on.prefers_texel_buffers ? 4 : 8);
  return map;
}

/// Whether the lanes of a row exchange values as lanes of a subgroup.
[[nodiscard]] inline bool uses_subgroups(const row_mapping& map, const device_profile& on) {
  if (map.lanes == 1) return false;
  if (map.style == row_mapping::workgroup) return on.subgroup_arithmetic;
  return on.subgroup_shuffle && (map.style == row_mapping::cluster || map.lanes * map.rows == on.subgroup_size);
}

// Twice the invocations a row; false when the workgroup is full.
[[nodiscard]] inline bool share_rows_wider(row_mapping& map, const device_profile& on) {
  const std::uint32_t most = most_threads(on);
  if (map.style == row_mapping::columns) {
    if (map.lanes >= most) return false;
    map.lanes *= 2;
    if (map.lanes * map.rows > most) map.rows /= 2;
    return true;
  }
  const std::uint32_t lanes = std::max(2 * map.lanes, std::min(2 * on.subgroup_size, most));
  if (map.lanes >= most || lanes > most) return false;
  map.style = row_mapping::workgroup;
  map.lanes = lanes;
  map.rows = 1;
  return true;
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
