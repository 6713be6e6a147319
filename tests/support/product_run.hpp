// SPDX-License-Identifier: MIT
// Products for the tests of their kernels, and such a kernel run on the shared device.
#pragma once
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/kernels/matmul.hpp>

#include <support/shared_device.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// What the kernel stores, in a buffer of so many floats that were NaN before. With scratch it is run a second time,
/// for which the first must have left what it needs.
inline std::vector<float> run_product(const kernels::kernel_dispatch& made,
                                      const std::vector<const std::vector<float>*>& inputs, std::size_t results,
                                      const fusion::product_scratch& scratch = {}) {
  const vulkan::device& device = shared_device();
  std::vector<vulkan::buffer_range> bound;
  for (const auto* values : inputs) {
    const vulkan::buffer b = device.allocate((values->size() * 4 + 15) / 16 * 16);
    device.upload(b, 0, *values);
    bound.push_back({b});
  }
  const auto add_nan = [&](std::size_t count) {
    const vulkan::buffer made_of_nan = device.allocate((count * 4 + 15) / 16 * 16);
    device.upload(made_of_nan, 0, std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()));
    bound.push_back({made_of_nan});
    return made_of_nan;
  };
  const vulkan::buffer out = add_nan(results);
  if (scratch.sums != 0) {
    add_nan(static_cast<std::size_t>(scratch.sums));
    const auto tiles = static_cast<std::size_t>(scratch.arrivals);
    bound.push_back({device.allocate((tiles * 4 + 15) / 16 * 16)});
    device.upload(bound.back().buffer, 0, std::vector<std::uint32_t>(tiles));
  }
  const vulkan::pipeline kernel = device.create_pipeline(made.module);
  for (int i = 0; i < (scratch.sums != 0 ? 2 : 1); ++i) {
    if (i > 0) device.upload(out, 0, std::vector<float>(results, std::numeric_limits<float>::quiet_NaN()));
    vulkan::recorder r(device);
    r.dispatch(kernel, bound, made.groups, made.module.name);
    device.submit(r.finish());
  }
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
