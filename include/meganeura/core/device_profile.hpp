// SPDX-License-Identifier: MIT
// What the choice of kernels and their generators know of a device: plain numbers, no Vulkan type enters here.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/kernel_time.hpp>

#include <algorithm>
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

/// How long a workgroup's part of a product on matrix units takes, in seconds of a multiprocessor that has no other,
/// but for `single`, `registers` and `few`, which are a factor, a number and a share.
struct unit_costs {
  double once = 0;       // of the whole product, beside its launch: the first terms' way from memory
  double wait = 0;       // for memory, once for all steps that are on their way together
  double multiply = 0;   // a term of a result
  double load = 0;       // a term of a row or column of a subgroup's results, from workgroup memory
  double stage = 0;      // a term of a row, to workgroup memory
  double single = 0;     // how much longer that takes of numbers that are loaded one by one, of 32 neighbours
  double registers = 0;  // an invocation's, beside sums and what is on its way
  double few = 0;        // how much more work takes that few subgroups share, for 16 / subgroups
  double exchange = 0;   // a result on its way out, of each slice
  double code = 0;       // an instruction's way to the multiprocessor
  friend bool operator==(const unit_costs&, const unit_costs&) = default;
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
  bool device_scope = true;            // atomics and barriers of all workgroups
  bool fragments_by_rows = false;      // their results lie in lanes as kernels/matrix_rows.hpp says; found by a trial
  bool prefers_texel_buffers = false;  // a software rasteriser: one subgroup a workgroup, operands as texels

  // ---- how long things take; with_rates has those of a device that was measured
  bool parallel = true;               // workgroups run side by side; on a CPU nearly one after the other
  std::uint32_t compute_units = 132;  // multiprocessors; an estimate where the driver does not say
  double bandwidth = 4e12;            // bytes per second, of what caches hold
  double cache_bytes = 50e6;          // that is so much, and the rest comes at a share of the rate
  double memory_share = 0.75;         // 3.0 TB/s as measured on an H100
  double scalar_flops = 30e12;        // f32 operations per second of plain arithmetic
  double matmul_flops = 40e12;        // of products and convolutions
  launch_time launch{1.34e-6, 0.16e-6};
  double transcendental = 8;      // scalar operations one exp, log, ... is worth
  double strided_read = 4;        // how much more a read without unit stride moves
  double full_occupancy = 65536;  // invocations needed to reach the bandwidth
  double product_once = 2e-6;     // of a product of f32 multiply-adds, beside its launch: its first terms' way
  double vectors_once = 1e-6;     // and of one of few rows
  double region_once = 0.8e-6;    // of a region, beside its launch
  double matrix_flops = 275e12;   // of products on matrix units whose operands are rounded to f16, at best
  // As measured on an H100.
  unit_costs split{2.732e-6, 0.06e-6, 0.1e-12, 8e-12, 37e-12, 2, 53.1, 0.87, 221.7e-12, 3e-9};
  unit_costs rounded{2.351e-6, 0.1595e-6, 0.1e-12, 1.716e-12, 25.03e-12, 3, 60.32, 0.6001, 215.8e-12, 0.8271e-9};
  unit_costs half{0.55e-6, 0.3496e-6, 0.186e-12, 9.749e-12, 7.365e-12, 0, 33.45, 0.03206, 105.1e-12, 0.5198e-9};
  std::int64_t split_terms = 512;  // least terms of a part of a split sum: fewer do not pay for storing it
  friend bool operator==(const device_profile&, const device_profile&) = default;
};

/// What a measurement of a device finds out; everything else of a profile's times follows from it.
struct device_rates {
  double bandwidth = 0, scalar_flops = 0, matmul_flops = 0;  // as device_profile has them
  double matrix_flops = 0;                                   // the same; 0: products do not use matrix units there
  launch_time launch;
  friend bool operator==(const device_rates&, const device_rates&) = default;
};

/// The profile of such a device by what was measured of it. How long first terms are on their way grows as barriers do,
/// which wait for the same memory. Parts of products on matrix units take longer by the factor by which the whole does.
/// How many invocations reach the bandwidth follows from it alone, as the time that a load takes is much the same on
/// all GPUs (Little's law); but each multiprocessor has a subgroup.
[[nodiscard]] constexpr device_profile with_rates(device_profile device, const device_rates& measured) {
  const double latency = device.launch.group > 0 ? measured.launch.group / device.launch.group : 1;
  const double part = measured.matrix_flops > 0 ? device.matrix_flops / measured.matrix_flops : 1;
  for (double* once : {&device.product_once, &device.vectors_once, &device.region_once, &device.split.once,
                       &device.rounded.once, &device.half.once})
    *once *= latency;
  for (unit_costs* each : {&device.split, &device.rounded, &device.half}) {
    for (double* seconds : {&each->wait, &each->multiply, &each->load, &each->stage, &each->exchange, &each->code})
      *seconds *= part;
  }
  if (device.parallel) {
    constexpr device_profile known{};
    device.full_occupancy = std::max(known.full_occupancy * (measured.bandwidth / known.bandwidth),
                                     static_cast<double>(device.compute_units) * device.subgroup_size);
  }
  device.bandwidth = measured.bandwidth;
  device.scalar_flops = measured.scalar_flops;
  device.matmul_flops = measured.matmul_flops;
  if (measured.matrix_flops > 0) device.matrix_flops = measured.matrix_flops;
  device.launch = measured.launch;
  return device;
}

}  // namespace meganeura::inline MEGANEURA_ABI
