// SPDX-License-Identifier: MIT
// What the times of kernels are put together from.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/fusion/engine.hpp>

#include <algorithm>
#include <cstdlib>

namespace meganeura::inline MEGANEURA_ABI::fusion::detail {

// Transfers and arithmetic overlap, but never perfectly: less work in the shadow of the longer one still counts a
// little.
inline double overlapped(double transfer, double arithmetic) {
  return std::max(transfer, arithmetic) + 0.05 * std::min(transfer, arithmetic);
}

// Of bytes on their way, which caches hold for a while; those of a software device are memory.
inline double transfer_time(double bytes, const device_profile& device) {
  const double beyond = device.parallel ? std::max(0.0, bytes - device.cache_bytes) : 0;
  return (bytes + beyond * (1 / device.memory_share - 1)) / device.bandwidth;
}

// Of a kernel that also moves `bytes` and does `operations` for its results.
inline kernel_time finished_time(const kernel_time& sums, double bytes, double operations,
                                 const device_profile& device) {
  const double transfer = transfer_time(bytes, device), finish = operations / device.scalar_flops;
  return {overlapped(transfer, sums.alone + finish), overlapped(transfer, sums.busy + finish), sums.room};
}

// Of a kernel that only moves bytes.
inline kernel_time streaming_time(double bytes, const device_profile& device) {
  const double seconds = transfer_time(bytes, device);
  return {seconds, seconds};
}

// Elements an access touches over `space`, at most what its tensor holds.
inline double touched(const index_map& read, const shape& space) {
  double elements = 1;
  for (int k = 0; k < space.rank(); ++k) {
    if (read.strides[k] == 0) continue;
    elements *= static_cast<double>(read.bounded >> k & 1 ? read.high[k] - read.low[k] : space[k]);
  }
  return elements;
}

inline bool has_unit_stride(const index_map& read, const shape& space) {
  bool any = false;
  for (int k = 0; k < space.rank(); ++k) {
    if (std::abs(read.strides[k]) == 1) return true;
    any = any || read.strides[k] != 0;
  }
  return !any;
}

// Neighbouring invocations run along the last axis: a read striding there wastes most of each memory sector.
inline bool is_coalesced(const index_map& read, const shape& space) {
  return space.rank() == 0 || std::abs(read.strides[space.rank() - 1]) <= 1;
}

// Whether four neighbours along the last axis are one load: aligned, or all the same.
inline bool lies_in_fours(const index_map& read, const shape& space) {
  const int last = space.rank() - 1;
  if (last < 0 || read.strides[last] == 0) return true;
  bool fits =
      read.strides[last] == 1 && space[last] % 4 == 0 && read.offset % 4 == 0 && (read.bounded >> last & 1) == 0;
  for (int axis = 0; axis < last; ++axis) fits = fits && (space[axis] == 1 || read.strides[axis] % 4 == 0);
  return fits;
}

inline double bytes_of(const engine& g, class_id id) { return static_cast<double>(g.extents(id).bytes(g[id].type)); }

inline double bytes_of(dtype type, double elements) {
  return static_cast<double>(storage_bytes(type, static_cast<std::int64_t>(elements)));
}

// And adds what its operands read to `bytes`.
[[nodiscard]] double epilogue_cost(const engine& g, enode_id id, const epilogue& finish, const shape& space, int k_axes,
                                   const device_profile& device, double& bytes);

inline double bytes_of_operands(const engine& g, enode_id id) {
  double bytes = 0;
  for (class_id operand : g.operands(id)) bytes += bytes_of(g, g.find(operand));
  return bytes;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion::detail
