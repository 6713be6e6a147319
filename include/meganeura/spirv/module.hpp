// SPDX-License-Identifier: MIT
// A finished shader module as data: words plus what a pipeline and a limit check need to know about them.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/error.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::spirv {

enum class binding_kind : std::uint8_t {
  storage_buffer,
  uniform_texel_buffer,
  uniform_buffer,
  address  // of a storage buffer, which then has no descriptor: reach_by_address
};

/// Bits of module::subgroup_operations, in Vulkan's numbering (VkSubgroupFeatureFlagBits).
enum subgroup_operation : std::uint32_t {
  subgroup_basic = 1,
  subgroup_vote = 2,
  subgroup_arithmetic = 4,
  subgroup_ballot = 8,  // and broadcast
  subgroup_shuffle = 16
};

/// One compute kernel. All bindings are in descriptor set 0, numbered 0, 1, 2, ... in order; the entry point is "main".
/// Addresses have a number, too, but are push constants, 8 bytes each from 0 on, in that order.
struct module {
  std::string name;                  // for profiles and debug labels, e.g. "matmul_f32 64x128x784"
  std::vector<std::uint32_t> words;  // SPIR-V 1.3 to 1.6
  std::vector<binding_kind> bindings;
  std::array<std::uint32_t, 3> local_size{1, 1, 1};
  std::vector<std::uint32_t> specialization;  // value of constant_id 0, 1, 2, ... (kernels compiled from shaders/)
  std::uint32_t shared_bytes = 0;             // workgroup memory; must not exceed the device's limit
  std::uint32_t subgroup_size = 0;            // required size, and full subgroups; 0 = subgroups do not matter
  /// Passes of all its loops that one invocation makes at most, the last one that finds the end included; the largest
  /// number where a loop's length is only known when it runs.
  std::uint64_t loop_iterations = 0;
  bool needs_f16 = false;                      // shaderFloat16
  bool needs_int8 = false;                     // shaderInt8
  bool needs_int16 = false;                    // shaderInt16
  bool needs_bf16 = false;                     // VK_KHR_shader_bfloat16
  bool needs_16bit_storage = false;            // storageBuffer16BitAccess
  bool needs_8bit_storage = false;             // storageBuffer8BitAccess
  bool needs_cooperative_matrix = false;       // VK_KHR_cooperative_matrix and the Vulkan memory model
  bool needs_workgroup_layout = false;         // VK_KHR_workgroup_memory_explicit_layout, of 8 and 16 bits too
  bool needs_device_scope = false;             // atomics on storage buffers, barriers across workgroups
  bool needs_special_values = false;           // NaN, infinities and the sign of zero preserved in 32-bit floats
  std::uint32_t subgroup_operations = 0;       // of subgroup_operation
  bool needs_subgroup_extended_types = false;  // shaderSubgroupExtendedTypes: these of 8- and 16-bit values
};

/// The same kernel with the word to the driver that 32-bit floats may be NaN, infinite or -0: without it Vulkan allows
/// x * 0 to become 0 (VK_KHR_shader_float_controls, SignedZeroInfNanPreserve; Mesa and NVIDIA make use of that).
[[nodiscard]] module preserve_special_values(module kernel);

}  // namespace meganeura::inline MEGANEURA_ABI::spirv

#if MEGANEURA_HEADER_ONLY
#include <meganeura/spirv/module.ipp>
#endif
