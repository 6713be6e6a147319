// SPDX-License-Identifier: MIT
// What the choice of kernels and their generators know of a device: plain numbers, no Vulkan type enters here.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/kernel_time.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

enum class matrix_units : std::uint8_t {
  none,
  emulated,    // what kernels for them compute, in workgroup memory: slow, for tests
  cooperative  // VK_KHR_cooperative_matrix, f16 operands, f32 accumulator, subgroup scope
};

/// What a matrix unit computes at once: result[m, n] += a[m, k] b[k, n].
struct matrix_shape {
  std::uint32_t m = 16, n = 16, k = 16;
  friend bool operator==(const matrix_shape&, const matrix_shape&) = default;
};

/// Whether kernels can use such units: they stage groups of eight elements, give a subgroup up to 64 rows and columns
/// of results, and count on lanes that hold equally many of a unit's.
[[nodiscard]] constexpr bool is_usable(const matrix_shape& unit, std::uint32_t subgroup_size) {
  const auto suits = [](std::uint32_t extent) { return extent == 8 || extent == 16 || extent == 32; };
  return suits(unit.m) && suits(unit.n) && suits(unit.k) && unit.m * unit.n % subgroup_size == 0;
}

/// How long a workgroup's part of a product on matrix units takes, in seconds of a multiprocessor that has no other.
struct unit_costs {
  double once = 0;       // of the whole product, beside its launch: the first terms' way from memory
  double wait = 0;       // for memory, once for all steps that are on their way together
  double multiply = 0;   // a term of a result
  double stage = 0;      // a term of a row
  double registers = 0;  // an invocation's, beside sums and what is on its way
  double few = 0;        // how much more work takes that few subgroups share, for 16 / subgroups
  double exchange = 0;   // a result on its way out, of each slice
  double code = 0;       // an instruction's way to the multiprocessor
};

/// What a device can do, and how long it takes. Without a device at hand: modest limits, and rates near an H200's.
struct device_profile {
  // ---- limits
  std::uint32_t subgroup_size = 32;
  std::uint32_t max_shared_bytes = 32768;
  std::uint32_t max_invocations = 256;  // of one workgroup, all of them along x; a power of two
  std::uint32_t max_groups[3]{65535, 65535, 65535};
  std::uint64_t max_binding_bytes = 0xffffffff;  // of a storage buffer; what is longer is reached by address
  std::uint64_t max_texel_elements = 0;          // RGBA32F texels one uniform texel buffer may hold
  std::uint64_t max_loop_iterations = 0;         // of one invocation, of all its loops together; 0 = no limit

  // ---- what it has
  bool subgroup_arithmetic = true;  // both: in subgroups of exactly that size, none of whose lanes is empty
  bool subgroup_shuffle = true;
  bool special_values = false;  // floats may be told to keep NaN, infinities and the sign of zero
  bool f16 = false;
  meganeura::matrix_units matrix_units = meganeura::matrix_units::none;
  matrix_shape unit{};                 // where there are any
  bool prefers_texel_buffers = false;  // a software rasteriser: one subgroup a workgroup, operands as texels

  // ---- how long things take: measurements may replace these
  bool parallel = true;               // workgroups run side by side; on a CPU nearly one after the other
  std::uint32_t compute_units = 132;  // multiprocessors; an estimate where the driver does not say
  double bandwidth = 4e12;            // bytes per second
  double scalar_flops = 30e12;        // f32 operations per second of plain arithmetic
  double matmul_flops = 40e12;        // of products and convolutions
  launch_time launch{1.34e-6, 0.16e-6};
  double transcendental = 8;      // scalar operations one exp, log, ... is worth
  double strided_read = 4;        // how much more a read without unit stride moves
  double full_occupancy = 65536;  // invocations needed to reach the bandwidth
  double product_once = 2e-6;     // of a product of f32 multiply-adds, beside its launch: its first terms' way
  double vectors_once = 1e-6;     // and of one of few rows
  double region_once = 0.8e-6;    // of a region, beside its launch
  double matrix_flops = 275e12;   // of f16 products on matrix units, at best
  unit_costs split{2.732e-6, 0.0756e-6, 0.4994e-12, 56.34e-12,
                   53.1,     0.5944,    221.7e-12,  2.122e-9};  // both as measured on an H100
  unit_costs rounded{2.107e-6, 0.2707e-6, 0.1044e-12, 34.37e-12, 45.44, 0.5388, 144.1e-12, 1.537e-9};
  std::int64_t split_terms = 512;  // least terms of a part of a split sum: fewer do not pay for storing it
};

}  // namespace meganeura::inline MEGANEURA_ABI
