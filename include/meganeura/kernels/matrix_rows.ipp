// SPDX-License-Identifier: MIT
// Definitions for kernels/matrix_rows.hpp.
#pragma once
#include <meganeura/kernels/matrix_rows.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels {

MEGANEURA_INLINE kernel_dispatch make_rows_trial(const device_profile& device) {
  using namespace spirv;
  kernel k("rows of matrix units", {device.subgroup_size, 1, 1});
  const detail::cooperative_rows<u32x2> units(k, device, 1);
  const memory<u32> out = k.storage_buffer<u32>("out", access::write);
  constexpr word elements = 256;
  const memory<f32> numbers = k.shared<f32>(elements);
  const memory<u32x2> halves = k.shared<u32x2>(elements / 4);
  const u32 lane = k.subgroup_lane();
  // Each element is its place.
  k.for_(0, elements, device.subgroup_size,
         [&](const u32& first) { numbers[first + lane] = convert<f32>(first + lane); });
  k.for_(0, elements / 4, device.subgroup_size, [&](const u32& first) {
    const auto number = [&](std::uint32_t i) { return convert<f32>((first + lane) * 4u + i); };
    halves[first + lane] = vector(pack_half(vector(number(0), number(1))), pack_half(vector(number(2), number(3))));
  });
  k.barrier();
  using sums = cooperative_variable<f32>;
  const sums results(cooperative_matrix<f32>::load(numbers, 0u, 16u, 16, 16, matrix_use::accumulator));
  const cooperative_variable<f16> operand(units.load(halves, {0u, 4, true}, matrix_use::a));
  const var<u32> is_right = k.variable<u32>(1u);
  word e = 0;
  // The same components, with what they would have to be.
  units.update(results, [&](word, const u32& row, const u32& column, const f32& found) {
    const f32 expected = convert<f32>(row * 16u + column);
    k.if_(found != expected || convert<f32>(operand.component(e)) != expected, [&] { is_right = 0u; });
    ++e;
    return found;
  });
  k.if_(results.length() != 8u || operand.length() != 8u, [&] { is_right = 0u; });
  out[lane] = is_right.load();
  return {k.finish(), {1, 1, 1}};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
