// SPDX-License-Identifier: MIT
// The registers tier of matmul.hpp: operands read straight from their buffers, best as texels.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/kernels/register_operand.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

template <class Left>
void multiply_step(const Left& left, const register_operand& right, const spirv::u32& first_k, std::uint32_t count,
                   const matmul_schedule& s, std::vector<spirv::f32>& total) {
  const operand_values a = left.read(first_k, count), b = right.read(first_k, count);
  for (std::uint32_t kk = 0; kk < count; ++kk) {
    for (std::uint32_t i = 0; i < s.thread_m; ++i) {
      for (std::uint32_t j = 0; j < s.thread_n; ++j) {
        spirv::f32& sum = total[i * s.thread_n + j];
        sum = fma(a[kk][i], b[kk][j], sum);
      }
    }
  }
}

template <class Left>
void accumulate_rows(spirv::kernel& k, const Left& left, const register_operand& right, const matmul_schedule& s,
                     std::uint32_t k_count, const spirv::u32& slice, const std::vector<spirv::var<spirv::f32>>& sums) {
  const auto step = [&](const spirv::u32& first_k, std::uint32_t count) {
    std::vector<spirv::f32> total;
    for (const auto& sum : sums) total.push_back(sum.load());
    multiply_step(left, right, first_k, count, s, total);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].store(total[i]);
  };
  const std::uint32_t whole = k_count / 4 * 4;
  const cascade_lengths lengths{.terms = 4, .straight = straight_product(sums.size())};
  for_summed(k, slice * 4u, whole, 4 * s.slices, lengths, running_sums(sums), [&](const spirv::u32& i) { step(i, 4); });
  if (whole == k_count) return;
  k.if_(s.slices == 1 ? spirv::boolean(true) : slice == 0u, [&] {
    for (std::uint32_t rest = whole; rest < k_count; ++rest) step(rest, 1);  // only where neither operand reads along k
  });
}

MEGANEURA_INLINE kernel_dispatch make_register_matmul(const matmul_problem& problem, const matmul_schedule& s,
                                                      const device_profile& device) {
  using namespace spirv;
  const bool shares = fusion::shares_rows(static_cast<std::int64_t>(extent_of(problem.n)), s.thread_n, device);
  const bool a_texels = s.texels && (!shares || fits_texels(problem, true, device));
  const matmul_operand a_plan = a_texels ? plan_texels(problem, true) : plan_operand(problem, true);
  const matmul_operand b_plan = s.texels ? plan_texels(problem, false) : plan_operand(problem, false);
  const matmul_result out_plan = plan_result(problem);
  if (s.texels && ((a_texels && a_plan.width != 4) || b_plan.width != 4)) {
    fail(error_category::invalid_argument,
         "matmul schedule '{}' needs operands readable as groups of four; use texels = false", s.label());
  }
  if (s.thread_m == 0 || s.thread_n == 0 || s.thread_m % 4 != 0 || s.thread_n % 4 != 0) {
    fail(error_category::invalid_argument, "matmul schedule '{}': thread sizes are multiples of 4", s.label());
  }
  const std::uint32_t m_count = a_plan.row_count;
  const std::uint32_t n_count = b_plan.row_count;
  const std::uint32_t lanes = s.invocations() / s.slices;
  const std::uint32_t lanes_n = lanes_along_n(s, n_count), lanes_m = lanes / lanes_n;

  kernel k(describe(problem), {s.invocations(), 1, 1});
  if (shares) k.require_subgroup_size(lanes);
  const element_loads from_a(k, a_plan, a_texels, "a"), from_b(k, b_plan, s.texels, "b");
  const matmul_epilogue epilogue = bind_epilogue(problem, k);
  const auto out = k.storage_buffer<f32>("out", access::write);

  const std::uint32_t tiles_m = ceil_div(m_count, lanes_m * s.thread_m);
  const std::uint32_t tiles_n = ceil_div(n_count, lanes_n * s.thread_n);
  const std::uint64_t tiles = extent_of(problem.batch) * tiles_m * tiles_n;
  const auto groups = spread_groups(tiles, device);
  const u32 linear = linear_group(k, groups);
  if_inside(k, linear, tiles, std::uint64_t{groups[0]} * groups[1], [&] {
    const u32 index = shares ? k.index_by_subgroups(lanes) : k.local_index();
    const u32 lane = s.slices == 1 ? index : index % lanes, slice = s.slices == 1 ? u32(0) : index / lanes;
    // Tiles of the same columns one after the other: what they read of b stays in a core's cache, and a is read in
    // order.
    const u32 batch = linear / (tiles_m * tiles_n), tile_m = linear % tiles_m, tile_n = linear / tiles_m % tiles_n;
    const u32 first_m = (tile_m * lanes_m + lane / lanes_n) * s.thread_m;
    const u32 first_n = (tile_n * lanes_n + lane % lanes_n) * s.thread_n;
    register_operand right(from_b, s.thread_n);
    right.place(batch, first_n, lanes_n * s.thread_n);
    std::vector<var<f32>> sums;
    for (std::uint32_t i = 0; i < s.thread_m * s.thread_n; ++i) sums.push_back(k.variable<f32>(0.0f));
    const auto add_up = [&](auto left) {
      left.place(batch, first_m, lanes_m * s.thread_m);
      accumulate_rows(k, left, right, s, a_plan.k_count, slice, sums);
    };
    if (shares)
      add_up(shared_operand(k, from_a, s.thread_m, lane, lanes));
    else
      add_up(register_operand(from_a, s.thread_m));
    add_slices(k, s, slice, sums);
    const auto write_all = [&] {
      const u32 base = offset_of(out_plan.batch, batch) + problem.offset_out;
      const bool exact = m_count % (lanes_m * s.thread_m) == 0 && n_count % (lanes_n * s.thread_n) == 0;
      for (std::uint32_t i = 0; i < s.thread_m * s.thread_n; ++i) {
        const u32 m = first_m + i / s.thread_n;
        const u32 n = first_n + i % s.thread_n;
        const auto write = [&] {
          const u32 offset = base + offset_of(out_plan.m, m) + offset_of(out_plan.n, n);
          out[offset] = epilogue(sums[i].load(), {batch, m, n, offset});
        };
        if (exact)
          write();
        else
          k.if_(m < m_count && n < n_count, write);
      }
    };
    k.if_(s.slices == 1 ? spirv::boolean(true) : slice == 0u, write_all);
  });
  return {k.finish(), groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
