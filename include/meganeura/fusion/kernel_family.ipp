// SPDX-License-Identifier: MIT
// How long nodes take, and kernels that nothing is fused into.
#pragma once
#include <meganeura/fusion/cost_terms.hpp>
#include <meganeura/fusion/kernel_family.hpp>

#include <algorithm>
#include <limits>

namespace meganeura::inline MEGANEURA_ABI::fusion {

MEGANEURA_INLINE kernel_time region_time(const region_attribute& region, std::span<const std::int64_t> source_bytes,
                                         std::int64_t result_bytes, const device_profile& device) {
  double bytes = static_cast<double>(result_bytes), operations = program_cost(region.program, device);
  // A software device loads numbers that lie in no groups of four one by one, with the checks of each: 8 ns for windows
  // of an image, on lavapipe.
  constexpr double of_number = 5;
  for (const index_map& read : region.accesses) {
    if (read.source < 0) continue;
    if (device.prefers_texel_buffers && region.row_axes == 0 && !detail::lies_in_fours(read, region.space))
      operations += of_number;
    const double whole = static_cast<double>(source_bytes[static_cast<std::size_t>(read.source)]);
    const bool coalesced = detail::is_coalesced(read, region.space);
    // A second access to the same buffer mostly hits the cache when it is coalesced.
    bytes += std::min(4 * detail::touched(read, region.space), whole) * (coalesced ? 1 : device.strided_read);
  }
  const double elements = static_cast<double>(region.space.elements());
  double parallel = elements;
  if (region.row_axes > 0) {
    const auto length = static_cast<double>(detail::row_length(region));
    parallel = elements / length * std::min(length, 1024.0);
  }
  const double occupancy = std::min(1.0, parallel / device.full_occupancy);
  // A small kernel is latency-bound, not slow in proportion: its whole data passes at the pace of what is in flight.
  const double busy =
      detail::overlapped(detail::transfer_time(bytes, device), elements * operations / device.scalar_flops);
  return {busy / std::max(occupancy, 1.0 / 64) + device.region_once, busy};
}

MEGANEURA_INLINE kernel_time node_time(const engine& g, enode_id id, const device_profile& device) {
  return visit_op(g.node(id).kind, [&]<op Kind> {
    if constexpr (info(Kind).stage == op_stage::leaf || info(Kind).stage == op_stage::projection) return kernel_time();
    if constexpr (info(Kind).stage == op_stage::primitive && !info(Kind).runs) {
      constexpr double never = std::numeric_limits<double>::infinity();
      return kernel_time{never, never};
    } else {
      return detail::kernel_family<Kind>::time(g, id, device);
    }
  });
}

namespace detail {

MEGANEURA_INLINE double epilogue_cost(const engine& g, enode_id id, const epilogue& finish, const shape& space,
                                      int k_axes, const device_profile& device, double& bytes) {
  const shape result = [&] {
    shape kept = space;
    kept.pop_back(k_axes);
    return kept;
  }();
  for (const index_map& read : finish.accesses) {
    if (read.source < 0) continue;
    const class_id source = g.operand(id, static_cast<std::size_t>(read.source));
    const double elements = std::min(touched(read, space), static_cast<double>(g.extents(source).elements()));
    const bool is_multiplied =
        std::any_of(read.strides + result.rank(), read.strides + max_rank, [](auto s) { return s != 0; });
    const bool lies_well = is_multiplied ? has_unit_stride(read, space) : is_coalesced(read, result);
    bytes += bytes_of(g[source].type, elements) * (lies_well ? 1 : device.strided_read);
  }
  return program_cost(finish.program, device) * static_cast<double>(result.elements());
}

template <op Kind>
kernel_time kernel_family<Kind>::time(const engine& g, enode_id id, const device_profile& device) {
  return streaming_time(bytes_of(g, g.find(g.node(id).owner)) + bytes_of_operands(g, id), device);
}

MEGANEURA_INLINE kernel_time kernel_family<op::gather>::time(const engine& g, enode_id id,
                                                             const device_profile& device) {
  const double result = bytes_of(g, g.find(g.node(id).owner));
  const double table = std::min(bytes_of(g, g.operand(id, 0)), result), indices = bytes_of(g, g.operand(id, 1));
  return streaming_time(result + table + indices, device);
}

MEGANEURA_INLINE kernel_time kernel_family<op::narrow>::time(const engine& g, enode_id id,
                                                             const device_profile& device) {
  return streaming_time(2 * bytes_of(g, g.find(g.node(id).owner)), device);
}

MEGANEURA_INLINE kernel_time kernel_family<op::region>::time(const engine& g, enode_id id,
                                                             const device_profile& device) {
  small_vector<std::int64_t, 16> sources;
  for (class_id operand : g.operands(id)) sources.push_back(static_cast<std::int64_t>(bytes_of(g, g.find(operand))));
  const auto& region = g.get<region_attribute>(id);
  auto results = static_cast<std::int64_t>(bytes_of(g, g.find(g.node(id).owner)));
  for (const further_result& each : region.further) results += each.extents.bytes(each.type);
  return region_time(region, sources, results, device);
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
