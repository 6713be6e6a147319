// SPDX-License-Identifier: MIT
// Generators of matrix products on matrix units: f16 operands, or f32 operands split into f16 terms.
#pragma once
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/spirv/cooperative.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// What stands in the operands' buffers and how it meets the matrix unit. The result is always f32.
enum class cooperative_operands : std::uint8_t {
  half,     // f16 in memory
  rounded,  // f32 in memory, rounded to f16: one product; |x| < 65504
  // f32 in memory as hi + 2^-11 lo, both f16: three products, error at or below that of f32 arithmetic as long as
  // operands lie between 2^-14 and 2^15 (scale by a power of two beforehand where they do not).
  split
};

/// Staging in one buffer of workgroup memory with a prefetch into registers: occupancy, not depth, decides on the
/// hardware measured (double buffering was slower).
struct cooperative_schedule {
  cooperative_operands operands = cooperative_operands::half;
  std::uint32_t tile_m = 128, tile_n = 256, tile_k = 32;
  std::uint32_t subgroup_m = 64, subgroup_n = 64;  // results of a subgroup, multiples of 16
  std::uint32_t subgroup_size = 32;
  // split: sum the main product outside the matrix unit, which truncates, after every 16 values of k.
  bool sum_outside = true;

  [[nodiscard]] std::uint32_t subgroups() const { return tile_m / subgroup_m * (tile_n / subgroup_n); }
  [[nodiscard]] std::uint32_t invocations() const { return subgroups() * subgroup_size; }
  [[nodiscard]] std::string label() const;
};

/// Workgroup memory of the module make_cooperative_matmul would return, in bytes.
[[nodiscard]] std::uint32_t cooperative_shared_bytes(const matmul_problem& problem,
                                                     const cooperative_schedule& schedule);

/// As make_matmul, strides and offsets counted in elements of the operands. Any size; whole tiles without an epilogue
/// are stored straight from the matrix unit. f16 operands need aligned groups of eight along k or along m (n for b).
/// errors: invalid_argument for a schedule that does not fit; unsupported beyond the device's limits.
[[nodiscard]] kernel_dispatch make_cooperative_matmul(const matmul_problem& problem,
                                                      const cooperative_schedule& schedule,
                                                      const device_profile& device);

/// Whether a cooperative schedule can run this problem on this device.
[[nodiscard]] bool cooperative_fits(const matmul_problem& problem, const cooperative_schedule& schedule,
                                    const device_profile& device);

/// Schedules worth measuring, the one measurements favour first; empty where the device has no matrix units.
[[nodiscard]] std::vector<cooperative_schedule> cooperative_candidates(const device_profile& device,
                                                                       const matmul_problem& problem,
                                                                       cooperative_operands operands);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/matmul_cooperative.ipp>
#endif
