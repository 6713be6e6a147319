// SPDX-License-Identifier: MIT
// Products for the tests of their kernels, and such a kernel run on the shared device.
#pragma once
#include <meganeura/kernels/matmul.hpp>

#include <support/shared_device.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// What the kernel stores, in a buffer of so many floats that were NaN before.
inline std::vector<float> run_product(const kernels::kernel_dispatch& made,
                                      const std::vector<const std::vector<float>*>& inputs, std::size_t results) {
  const vulkan::device& device = shared_device();
  std::vector<vulkan::buffer_range> bound;
  for (const auto* values : inputs) {
    const vulkan::buffer b = device.allocate((values->size() * 4 + 15) / 16 * 16);
    device.upload(b, 0, *values);
    bound.push_back({b});
  }
  const vulkan::buffer out = device.allocate((results * 4 + 15) / 16 * 16);
  device.upload(out, 0, std::vector<float>(results, std::numeric_limits<float>::quiet_NaN()));
  bound.push_back({out});
  vulkan::recorder r(device);
  r.dispatch(device.create_pipeline(made.module), bound, made.groups, made.module.name);
  device.submit(r.finish());
  auto ticket = device.read_back(out, 0, results * 4);
  std::vector<float> found(results);
  std::memcpy(found.data(), ticket.data().data(), results * 4);
  return found;
}

/// Attention scores over [batch, sequence, heads, width]: batch = (batch, heads), m and n the sequence, k the width.
inline kernels::matmul_problem attention_scores(std::uint32_t batch, std::uint32_t heads, std::uint32_t sequence,
                                                std::uint32_t width) {
  kernels::matmul_problem p;
  p.batch = {{batch, sequence * heads * width, sequence * heads * width, heads * sequence * sequence},
             {heads, width, width, sequence * sequence}};
  p.m = {{sequence, heads * width, 0, sequence}};
  p.n = {{sequence, 0, heads * width, 1}};
  p.k = {{width, 1, 1, 0}};
  return p;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
