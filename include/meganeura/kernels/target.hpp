// SPDX-License-Identifier: MIT
// What a kernel generator must know of the device, as plain numbers: no Vulkan type enters here.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

struct target {
  std::uint32_t subgroup_size = 32;
  std::uint32_t max_shared_bytes = 32768;
  std::uint32_t max_invocations = 256;  // of one workgroup, all of them along x; a power of two
  std::uint32_t max_groups[3]{65535, 65535, 65535};
  std::uint32_t compute_units = 32;       // multiprocessors; an estimate where the driver does not say
  std::uint64_t max_texel_elements = 0;   // RGBA32F texels one uniform texel buffer may hold
  std::uint64_t max_loop_iterations = 0;  // of one invocation, of all its loops together; 0 = no limit
  bool subgroup_arithmetic = true;        // both: in subgroups of exactly that size, none of whose lanes is empty
  bool subgroup_shuffle = true;
  bool special_values = false;  // floats may be told to keep NaN, infinities and the sign of zero
  bool f16 = false;
  bool cooperative_matrix_f16 = false;  // 16x16x16, f16 operands, f32 accumulator, subgroup scope
  bool prefers_texel_buffers = false;   // a software rasteriser: one subgroup a workgroup, operands as texels
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
