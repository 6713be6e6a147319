// SPDX-License-Identifier: MIT
// Definitions for runtime/device.hpp.
#pragma once
#include <meganeura/runtime/device.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE std::vector<matrix_shape> usable_units(const device_facts& facts) {
  using enum vulkan::component_type;
  std::vector<matrix_shape> found;
  for (const vulkan::cooperative_matrix_shape& each : facts.cooperative_matrix_shapes) {
    const matrix_shape unit{each.m, each.n, each.k};
    const bool is_typed = each.a == float16 && each.b == float16 && each.c == float32 && each.result == float32;
    if (is_typed && each.scope == vulkan::matrix_scope::subgroup && is_usable(unit, facts.subgroup_size) &&
        std::ranges::find(found, unit) == found.end())
      found.push_back(unit);
  }
  std::ranges::stable_sort(found, std::greater(), [](const matrix_shape& unit) {
    return std::pair(unit == matrix_shape{16, 16, 16}, unit.m * unit.n * unit.k);
  });
  return found;
}

namespace detail {

// GPUs have the default rates scaled by their size; a CPU's driver pays more for bytes and arithmetic than for
// launches.
inline void set_rates(device_profile& device, const device_facts& facts) {
  const double share = facts.compute_units / static_cast<double>(device.compute_units);
  device.compute_units = facts.compute_units;
  if (facts.type == vulkan::device_type::cpu) {
    device.parallel = false;
    device.bandwidth = 4e9, device.scalar_flops = 1e9, device.matmul_flops = 15e9;
    device.launch = {.dispatch = 15e-6};
    device.product_once = device.vectors_once = device.region_once = 0, device.full_occupancy = 64;
  } else {
    device.bandwidth *= share, device.scalar_flops *= share, device.matmul_flops *= share;
    device.matrix_flops *= share;
  }
}

inline void set_units(device_profile& device, const device_facts& facts, bool subgroups) {
  constexpr std::uint32_t vulkan_1_3 = 1u << 22 | 3u << 12;  // its SPIR-V is that of modules with matrices
  const bool runs = subgroups && facts.has_f16 && facts.has_memory_model && facts.api_version >= vulkan_1_3;
  const std::vector<matrix_shape> units = usable_units(facts);
  if (runs && facts.type != vulkan::device_type::cpu && !units.empty())
    device.matrix_units = matrix_units::cooperative, device.unit = units.front();
  else if (facts.emulated_units)
    device.matrix_units = matrix_units::emulated, device.unit = *facts.emulated_units;
}

}  // namespace detail

MEGANEURA_INLINE device_profile make_device_profile(const device_facts& facts) {
  const std::uint32_t invocations = std::min(facts.max_workgroup_invocations, facts.max_workgroup_size[0]);
  device_profile device{.subgroup_size = facts.subgroup_size,
                        .max_shared_bytes = facts.usable_shared_bytes(),
                        .max_invocations = std::bit_floor(invocations),
                        .max_binding_bytes = facts.max_storage_range,
                        .max_texel_elements = facts.max_texel_elements,
                        .max_loop_iterations = facts.quirks.max_loop_iterations,
                        .special_values = facts.has_special_values,
                        .f16 = facts.has_f16,
                        .prefers_texel_buffers = facts.quirks.prefers_texel_buffers};
  std::copy(facts.max_workgroup_count.begin(), facts.max_workgroup_count.end(), device.max_groups);
  const bool one_size = facts.min_subgroup_size == facts.max_subgroup_size || facts.has_subgroup_size_control;
  const bool subgroups = one_size && facts.has_full_subgroups && facts.subgroup_size <= device.max_invocations;
  device.subgroup_arithmetic = subgroups && (facts.subgroup_operations & spirv::subgroup_arithmetic) != 0;
  device.device_scope = facts.has_device_scope;
  device.subgroup_shuffle = subgroups && (facts.subgroup_operations & spirv::subgroup_shuffle) != 0;
  detail::set_units(device, facts, subgroups);
  detail::set_rates(device, facts);
  return device;
}

MEGANEURA_INLINE fusion::region_limits make_region_limits(const device_facts& facts, fusion::region_limits limits) {
  limits.buffers = std::min<std::size_t>(limits.buffers, facts.max_storage_buffers - 1);
  return limits;
}

}  // namespace meganeura::inline MEGANEURA_ABI
