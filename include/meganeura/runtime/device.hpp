// SPDX-License-Identifier: MIT
// The device as users name it, and what kernel generators are told of it.
#pragma once
#include <meganeura/egraph/cost.hpp>
#include <meganeura/egraph/region.hpp>
#include <meganeura/kernels/target.hpp>
#include <meganeura/vulkan/device.hpp>

#include <algorithm>
#include <bit>

namespace meganeura::inline MEGANEURA_ABI {

using vulkan::device;
using vulkan::device_facts;
using vulkan::device_options;
using vulkan::enumerate_devices;

/// The plain numbers kernels are generated from: the one place where what a device can do becomes what generators see.
[[nodiscard]] inline kernels::target make_target(const device_facts& facts) {
  const std::uint32_t invocations = std::min(facts.max_workgroup_invocations, facts.max_workgroup_size[0]);
  kernels::target target{.subgroup_size = facts.subgroup_size,
                         .max_shared_bytes = facts.usable_shared_bytes(),
                         .max_invocations = std::bit_floor(invocations),
                         .compute_units = facts.compute_units,
                         .max_texel_elements = facts.max_texel_elements,
                         .max_loop_iterations = facts.quirks.max_loop_iterations,
                         .special_values = facts.has_special_values,
                         .f16 = facts.has_f16,
                         .prefers_texel_buffers = facts.quirks.prefers_texel_buffers};
  const bool one_size = facts.min_subgroup_size == facts.max_subgroup_size || facts.has_subgroup_size_control;
  const bool subgroups = one_size && facts.has_full_subgroups && facts.subgroup_size <= target.max_invocations;
  target.subgroup_arithmetic = subgroups && (facts.subgroup_operations & spirv::subgroup_arithmetic) != 0;
  target.subgroup_shuffle = subgroups && (facts.subgroup_operations & spirv::subgroup_shuffle) != 0;
  std::copy(facts.max_workgroup_count.begin(), facts.max_workgroup_count.end(), target.max_groups);
  target.cooperative_matrix_f16 =
      std::ranges::any_of(facts.cooperative_matrix_shapes, [](const vulkan::cooperative_matrix_shape& shape) {
        return shape.m == 16 && shape.n == 16 && shape.k == 16 && shape.a == vulkan::component_type::float16 &&
               shape.b == vulkan::component_type::float16 && shape.c == vulkan::component_type::float32 &&
               shape.result == vulkan::component_type::float32 && shape.scope == vulkan::matrix_scope::subgroup;
      });
  return target;
}

/// How much a kernel may read at once, so that what is fused can be bound.
[[nodiscard]] inline egraph::region_limits make_region_limits(const device_facts& facts,
                                                              egraph::region_limits limits = {}) {
  limits.buffers = std::min<std::size_t>(limits.buffers, facts.max_storage_buffers - 1);
  return limits;
}

/// Rates that extraction weighs kernels with. GPUs keep the defaults scaled by their size; a CPU driver pays more for
/// bytes and arithmetic than for launches.
[[nodiscard]] inline egraph::cost_model make_cost_model(const device_facts& facts) {
  if (facts.type == vulkan::device_type::cpu) {
    return {.bandwidth = 4e9,
            .scalar_flops = 1e9,
            .matmul_flops = 15e9,
            .launch = 15e-6,
            .full_occupancy = 64,
            .compute_units = 0};
  }
  egraph::cost_model model;  // of the H200
  const double share = facts.compute_units / static_cast<double>(model.compute_units);
  model.compute_units = facts.compute_units;
  model.bandwidth *= share;
  model.scalar_flops *= share;
  model.matmul_flops *= share;
  return model;
}

}  // namespace meganeura::inline MEGANEURA_ABI
