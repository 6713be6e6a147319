// SPDX-License-Identifier: MIT
// Definitions of matmul.hpp shared by its tiers: planning of operands, the simple tier and the choice of a schedule.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/kernels/shared_totals.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::kernels {

MEGANEURA_INLINE std::uint64_t extent_of(const std::vector<matmul_axis>& group) {
  std::uint64_t product = 1;
  for (const matmul_axis& axis : group) product *= axis.extent;
  return product;
}

MEGANEURA_INLINE std::string matmul_schedule::label() const {
  if (tier == matmul_tier::simple) return "simple";
  if (tier == matmul_tier::registers)
    return fmt::format("registers {}x{}{}{}", thread_m, thread_n,
                       slices > 1 ? fmt::format(" slices {}", slices) : std::string(), texels ? " texels" : "");
  if (tier == matmul_tier::vectors)
    return fmt::format("vectors {}x{}x{} {} slices {} together {}", tile_m, tile_n, tile_k, thread_n, slices, together);
  return fmt::format("tiled {}x{}x{} {}x{} slices {} buffers {}", tile_m, tile_n, tile_k, thread_m, thread_n, slices,
                     buffers);
}

namespace detail {

MEGANEURA_INLINE strided_axes collapse(const std::vector<matmul_axis>& group, std::uint32_t matmul_axis::*stride) {
  strided_axes merged;
  for (const matmul_axis& axis : group) {
    if (axis.extent == 1) continue;
    if (!merged.empty() && merged.back().stride == axis.*stride * axis.extent) {
      merged.back() = {merged.back().extent * axis.extent, axis.*stride};
      continue;
    }
    merged.push_back({axis.extent, axis.*stride});
  }
  if (merged.empty()) merged.push_back({});
  return merged;
}

MEGANEURA_INLINE spirv::u32 offset_of(const strided_axes& axes, const spirv::u32& flat) {
  spirv::u32 rest = flat;
  spirv::u32 sum = 0;
  for (std::size_t i = axes.size(); i-- > 0;) {
    sum = sum + (i == 0 ? rest : rest % axes[i].extent) * axes[i].stride;
    if (i != 0) rest = rest / axes[i].extent;
  }
  return sum;
}

// Groups of four along the last axis of `along` are one aligned 16-byte load.
[[nodiscard]] inline bool reads_fours(const strided_axes& along, std::initializer_list<const strided_axes*> others,
                                      std::uint32_t offset) {
  if (along.back().stride != 1 || along.back().extent % 4 != 0 || offset % 4 != 0) return false;
  for (std::size_t i = 0; i + 1 < along.size(); ++i) {
    if (along[i].stride % 4 != 0) return false;
  }
  for (const strided_axes* each : others) {
    for (const strided_axis& axis : *each) {
      if (axis.stride % 4 != 0) return false;
    }
  }
  return true;
}

MEGANEURA_INLINE matmul_operand plan_operand(const matmul_problem& problem, bool is_a) {
  const auto stride = is_a ? &matmul_axis::stride_a : &matmul_axis::stride_b;
  const auto& rows = is_a ? problem.m : problem.n;
  matmul_operand plan{collapse(problem.batch, stride), collapse(rows, stride), collapse(problem.k, stride)};
  plan.offset = is_a ? problem.offset_a : problem.offset_b;
  plan.row_count = static_cast<std::uint32_t>(extent_of(rows));
  plan.k_count = static_cast<std::uint32_t>(extent_of(problem.k));
  const bool fours_along_k = reads_fours(plan.k, {&plan.rows, &plan.batch}, plan.offset);
  const bool fours_along_rows = reads_fours(plan.rows, {&plan.k, &plan.batch}, plan.offset);
  plan.along_k = fours_along_k || (!fours_along_rows && plan.k.back().stride == 1);
  plan.width = fours_along_k || fours_along_rows ? 4 : 1;
  return plan;
}

MEGANEURA_INLINE matmul_operand plan_texels(const matmul_problem& problem, bool is_a) {
  matmul_operand plan = plan_operand(problem, is_a);
  for (const bool along_k : {true, false}) {
    const strided_axis& along = (along_k ? plan.k : plan.rows).back();
    if (plan.width == 4 || along.stride != 1 || along.extent % 4 != 0) continue;
    plan.along_k = along_k, plan.width = 4, plan.is_aligned = false;
  }
  return plan;
}

MEGANEURA_INLINE matmul_result plan_result(const matmul_problem& problem) {
  constexpr auto stride = &matmul_axis::stride_out;
  matmul_result plan{collapse(problem.batch, stride), collapse(problem.m, stride), collapse(problem.n, stride)};
  plan.width = reads_fours(plan.n, {&plan.m, &plan.batch}, problem.offset_out) ? 4 : 1;
  return plan;
}

MEGANEURA_INLINE tile_position locate_tile(const spirv::u32& linear, std::uint32_t tiles_m, std::uint32_t tiles_n) {
  const spirv::u32 batch = linear / (tiles_m * tiles_n);
  const spirv::u32 tile = linear % (tiles_m * tiles_n);
  constexpr std::uint32_t stripe = 8;
  if (tiles_m == 1 || tiles_n == 1) return {batch, tile / tiles_n, tile % tiles_n};
  const spirv::u32 first = tile / (stripe * tiles_n) * stripe;
  const spirv::u32 inside = tile % (stripe * tiles_n);
  if (tiles_m % stripe == 0) return {batch, first + inside % stripe, inside / stripe};
  const spirv::u32 height = min(spirv::u32(tiles_m) - first, spirv::u32(stripe));
  return {batch, first + inside % height, inside / height};
}

MEGANEURA_INLINE std::array<std::uint32_t, 3> spread_groups(std::uint64_t count, const device_profile& device) {
  const std::uint64_t across = std::min<std::uint64_t>(count, device.max_groups[0]);
  const std::uint64_t down = ceil_div(count, across);
  if (down > device.max_groups[1])
    fail(error_category::unsupported, "a product of {} workgroups was asked for; the device launches {} x {}", count,
         device.max_groups[0], device.max_groups[1]);
  return {static_cast<std::uint32_t>(across), static_cast<std::uint32_t>(down), 1};
}

MEGANEURA_INLINE spirv::u32 linear_group(spirv::kernel& k, const std::array<std::uint32_t, 3>& groups) {
  return groups[1] == 1 ? k.workgroup_id(0) : k.workgroup_id(1) * groups[0] + k.workgroup_id(0);
}

MEGANEURA_INLINE matmul_programs bind_programs(const matmul_problem& problem, spirv::kernel& k) {
  return problem.epilogue ? problem.epilogue(k) : matmul_programs();
}

MEGANEURA_INLINE matmul_epilogue bind_epilogue(const matmul_problem& problem, spirv::kernel& k) {
  if (problem.has_prologue) {
    fail(error_category::internal, "matmul: a product with a prologue has no schedule for matrix units");
  }
  return bind_programs(problem, k).finish;
}

MEGANEURA_INLINE std::string describe(const matmul_problem& problem) {
  const std::uint64_t batch = extent_of(problem.batch);
  const std::string size = fmt::format("{}x{}x{}", extent_of(problem.m), extent_of(problem.n), extent_of(problem.k));
  return batch == 1 ? fmt::format("{} {}", problem.name, size) : fmt::format("{} {}x{}", problem.name, batch, size);
}

MEGANEURA_INLINE std::vector<running_sum> running_sums(std::span<const spirv::var<spirv::f32>> sums) {
  std::vector<running_sum> list;
  for (const auto& sum : sums) list.push_back({sum.reference(), scalar_op::row_sum, literal(dtype::f32, 0)});
  return list;
}

// Sixteen results of an invocation at a time, so that the exchange area stays at 32 bytes an invocation; [result][lane]
// keeps the lanes of a subgroup on different banks.
MEGANEURA_INLINE void add_slices(spirv::kernel& k, const matmul_schedule& s, const spirv::u32& slice,
                                 const std::vector<spirv::var<spirv::f32>>& sums) {
  using namespace spirv;
  if (s.slices == 1) return;
  const std::uint32_t threads = s.invocations() / s.slices;
  const u32 lane = k.local_index() % threads;
  const auto exchange = k.shared<f32>(s.slices / 2 * threads * matmul_schedule::exchanged_results);
  for (std::uint32_t first = 0; first < sums.size(); first += matmul_schedule::exchanged_results) {
    const auto at = [&](const u32& from, std::uint32_t i) {
      return (from * matmul_schedule::exchanged_results + i) * threads + lane;
    };
    const auto give = [&](std::uint32_t half) {
      for (std::uint32_t i = 0; i < matmul_schedule::exchanged_results; ++i)
        exchange[at(slice - half, i)] = sums[first + i].load();
    };
    const auto take = [&] {
      for (std::uint32_t i = 0; i < matmul_schedule::exchanged_results; ++i)
        sums[first + i] += exchange[at(slice, i)].load();
    };
    add_by_halves(k, slice, s.slices, first != 0, give, take);
  }
}

MEGANEURA_INLINE kernel_dispatch make_simple_matmul(const matmul_problem& problem, const device_profile& device) {
  using namespace spirv;
  const matmul_operand a_plan = plan_operand(problem, true);
  const matmul_operand b_plan = plan_operand(problem, false);
  const matmul_result out_plan = plan_result(problem);
  kernel k(describe(problem), {64, 1, 1});
  const auto a = k.storage_buffer<f32>("a");
  const auto b = k.storage_buffer<f32>("b");
  const matmul_epilogue epilogue = bind_epilogue(problem, k);
  const auto out = k.storage_buffer<f32>("out", access::write);

  const std::uint64_t results = extent_of(problem.batch) * extent_of(problem.m) * extent_of(problem.n);
  const auto groups = spread_groups(ceil_div(results, 64), device);
  const u32 linear = linear_group(k, groups) * 64 + k.local_index();
  if_inside(k, linear, results, std::uint64_t{groups[0]} * groups[1] * 64, [&] {
    const u32 n = linear % b_plan.row_count;
    const u32 m = linear / b_plan.row_count % a_plan.row_count;
    const u32 batch = linear / (b_plan.row_count * a_plan.row_count);
    const u32 a_base = offset_of(a_plan.batch, batch) + offset_of(a_plan.rows, m) + a_plan.offset;
    const u32 b_base = offset_of(b_plan.batch, batch) + offset_of(b_plan.rows, n) + b_plan.offset;
    const auto sum = k.variable<f32>(0.0f);
    for_summed(k, 0, a_plan.k_count, 1, {}, running_sums({&sum, 1}), [&](const u32& i) {
      sum = fma(a.load(a_base + offset_of(a_plan.k, i)), b.load(b_base + offset_of(b_plan.k, i)), sum.load());
    });
    const u32 offset =
        offset_of(out_plan.batch, batch) + offset_of(out_plan.m, m) + offset_of(out_plan.n, n) + problem.offset_out;
    out[offset] = epilogue(sum.load(), {batch, m, n, offset});
  });
  return {k.finish(), groups};
}

[[nodiscard]] inline bool runs_here(const matmul_schedule& schedule, const device_profile& device) {
  return schedule.shared_bytes() <= device.max_shared_bytes && schedule.invocations() <= device.max_invocations;
}

}  // namespace detail

MEGANEURA_INLINE bool detail::fits_texels(const matmul_problem& problem, bool is_a, const device_profile& device) {
  const matmul_operand plan = plan_texels(problem, is_a);
  return plan.width == 4 && (span_of(plan) + 3) / 4 <= device.max_texel_elements;
}

MEGANEURA_INLINE void detail::check_extents(const matmul_problem& problem) {
  for (const auto* group : {&problem.batch, &problem.m, &problem.n, &problem.k}) {
    const std::uint64_t extent = extent_of(*group);
    if (extent == 0) {
      fail(error_category::invalid_argument, "a matrix product over an axis group of no elements was asked for");
    }
    constexpr std::uint64_t most = 0x7fffffff;
    if (extent > most) {
      fail(error_category::unsupported,
           "a matrix product over an axis group of {} elements was asked for; its kernels count up to {}: split the "
           "axes",
           extent, most);
    }
  }
}

MEGANEURA_INLINE kernel_dispatch make_matmul(const matmul_problem& problem, const matmul_schedule& schedule,
                                             const device_profile& device) {
  detail::check_extents(problem);
  if (!detail::runs_here(schedule, device)) {
    fail(error_category::unsupported,
         "schedule '{}' needs {} bytes of workgroup memory and {} invocations; the device has {} and {}",
         schedule.label(), schedule.shared_bytes(), schedule.invocations(), device.max_shared_bytes,
         device.max_invocations);
  }
  switch (schedule.tier) {
    case matmul_tier::simple:
      return detail::make_simple_matmul(problem, device);
    case matmul_tier::tiled:
      return detail::make_tiled_matmul(problem, schedule, device);
    case matmul_tier::vectors:
      return detail::make_vector_matmul(problem, schedule, device);
    case matmul_tier::registers:
      break;
  }
  return detail::make_register_matmul(problem, schedule, device);
}

namespace detail {

[[nodiscard]] inline fusion::product_extents extents_of(const matmul_problem& problem) {
  const auto extent = [](const std::vector<matmul_axis>& group) { return static_cast<std::int64_t>(extent_of(group)); };
  return {extent(problem.batch), extent(problem.m), extent(problem.n), extent(problem.k)};
}

// Of the vectors tier: what is not the few rows.
[[nodiscard]] inline matmul_operand matrix_of(const matmul_problem& problem) {
  const matmul_operand a = plan_operand(problem, true), b = plan_operand(problem, false);
  return a.row_count <= b.row_count ? b : a;
}

// Slices whose lanes stand a power of two apart in a subgroup of a workgroup that is made of whole ones.
[[nodiscard]] inline std::uint32_t slices_together(const matmul_schedule& s, bool along_k,
                                                   const device_profile& device) {
  const std::uint32_t apart = along_k ? 1 : s.tile_n / s.thread_n;
  const bool whole = s.invocations() % device.subgroup_size == 0 && std::has_single_bit(apart);
  return whole && device.subgroup_shuffle ? std::min(s.slices, std::max(device.subgroup_size / apart, 1u)) : 1;
}

// `reads` of 16 bytes, or twice as many of 4, on an invocation's way together, where k is that long.
[[nodiscard]] inline matmul_schedule vector_schedule(const matmul_problem& problem, const fusion::vector_tiles& tiles,
                                                     std::uint32_t reads, const device_profile& device) {
  const matmul_operand a = plan_operand(problem, true), b = plan_operand(problem, false);
  const matmul_operand matrix = matrix_of(problem);
  const auto number = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  matmul_schedule s{matmul_tier::vectors};
  s.tile_m = s.thread_m = std::min(a.row_count, b.row_count);
  s.tile_n = number(tiles.columns * tiles.beside), s.thread_n = number(tiles.columns), s.slices = number(tiles.lanes);
  if (!matrix.along_k && matrix.width == 1) s.thread_n = 1, s.slices = std::max(s.slices / 4, 1u);
  const auto fits = [&] {
    s.together = slices_together(s, matrix.along_k, device);
    return runs_here(s, device);
  };
  while (!fits() && s.slices > 1) s.slices /= 2;
  while (!fits() && s.tile_n > s.thread_n) s.tile_n /= 2;
  const std::uint32_t terms = terms_at_once(a, b), once = terms * s.thread_n / matrix.width;
  const std::uint32_t most = ceil_div(a.k_count, terms * s.slices);
  s.tile_k = terms * std::clamp(reads * (matrix.width == 4 ? 1 : 2) / once, 1u, most);
  return s;
}

[[nodiscard]] inline fusion::vector_tiles chosen_vectors(const matmul_problem& problem, const device_profile& device) {
  return fusion::tiles_of_vectors(extents_of(problem), matrix_of(problem).along_k, device);
}

// The chosen one and those around it: fewer or more columns, lanes, and reads on their way.
[[nodiscard]] inline std::vector<matmul_schedule> vector_candidates(const matmul_problem& problem,
                                                                    const device_profile& device) {
  const bool along_k = matrix_of(problem).along_k;
  const fusion::vector_tiles chosen = chosen_vectors(problem, device);
  std::vector<matmul_schedule> found{vector_schedule(problem, chosen, fusion::vector_reads, device)};
  const auto add = [&](const fusion::vector_tiles& tiles, std::uint32_t reads) {
    if (tiles.lanes * tiles.beside < device.subgroup_size) return;
    const matmul_schedule s = vector_schedule(problem, tiles, reads, device);
    if (std::ranges::find(found, s) == found.end() && runs_here(s, device)) found.push_back(s);
  };
  for (const std::int64_t columns : {1, 2, 4, 8}) {
    if (!along_k && columns < 4) continue;
    for (const std::int64_t lanes : {chosen.lanes / 4, chosen.lanes / 2, chosen.lanes, 2 * chosen.lanes}) {
      for (const std::uint32_t reads : {4u, 8u, 16u}) add({columns, lanes, chosen.beside}, reads);
      for (const std::int64_t beside : {chosen.beside / 2, 2 * chosen.beside, 4 * chosen.beside})
        add({columns, lanes, beside}, fusion::vector_reads);
    }
  }
  return found;
}

// A product with few results and a long sum is as slow as its chain of dependent loads, half a microsecond each: 32
// slices shorten it.
[[nodiscard]] inline matmul_schedule preferred_tiles(const device_profile& device, const matmul_problem& problem) {
  const fusion::product_extents p = extents_of(problem);
  const fusion::product_tiles tiles = fusion::tiles_of_product(p.batch, p.m, p.n, p.k, device.compute_units);
  constexpr auto tiled = matmul_tier::tiled;
  if (tiles.side == 128) return {tiled, 128, 128, 16, 8, 8, 1, 2, false};
  if (tiles.side == 64) return {tiled, 64, 64, 16, 8, 8, 2, 2, false};
  if (tiles.side == 32) return {tiled, 32, 32, 8, 4, 4, 4, 2, false};
  if (p.k > 128 && 2 * tiles.count < device.compute_units) return {tiled, 8, 8, 8, 4, 4, 32, 1, false};
  return {tiled, 16, 16, 8, 4, 4, 8, 2, false};
}

}  // namespace detail

MEGANEURA_INLINE std::vector<matmul_schedule> matmul_candidates(const device_profile& device,
                                                                const matmul_problem& problem) {
  std::vector<matmul_schedule> found;
  if (device.prefers_texel_buffers) {
    // A software device compiles a kernel at its first dispatch, for 100, 190, 350 and 800 ms at 4x4, 8x4, 8x8 and 16x8
    // results an invocation; what small products gain never earns that back.
    const auto add = [&](std::uint32_t rows, std::uint32_t columns, bool as_texels) {
      found.push_back({matmul_tier::registers, 0, 0, 4, rows, columns, 1, 1, as_texels});
    };
    const auto m = static_cast<std::uint32_t>(extent_of(problem.m)),
               n = static_cast<std::uint32_t>(extent_of(problem.n));
    const bool left = detail::fits_texels(problem, true, device), right = detail::fits_texels(problem, false, device);
    const auto shares = [&](std::uint32_t columns) { return fusion::shares_rows(n, columns, device); };
    const auto texels = [&](std::uint32_t columns) { return right && (left || shares(columns)); };
    const std::uint64_t work = extent_of(problem.batch) * m * n * extent_of(problem.k);
    if (work < std::uint64_t{1} << 15)
      found.push_back({});
    else if (work < std::uint64_t{1} << 22)
      add(work < std::uint64_t{1} << 20 ? 4 : 8, 4, texels(4));
    // For four values of k two loads of sixteen rows of a and four of four columns of b: no other shape of as many
    // results needs so few.
    constexpr std::uint32_t rows = 16;
    if (right && shares(4) && 8 * rows * ceil_div(m, rows) <= 9 * m) add(rows, 4, true);
    for (const std::uint32_t fewer : {8u, 4u}) {
      add(fewer, 8, texels(8));
      if (texels(8)) add(fewer, 8, false);
    }
    return found;
  }
  const auto add = [&](std::uint32_t m, std::uint32_t n, std::uint32_t k, std::uint32_t tm, std::uint32_t tn,
                       std::uint32_t slices, std::uint32_t buffers) {
    const matmul_schedule candidate{matmul_tier::tiled, m, n, k, tm, tn, slices, buffers, false};
    if (detail::runs_here(candidate, device)) found.push_back(candidate);
  };
  add(128, 128, 16, 8, 8, 1, 2);
  add(128, 128, 8, 8, 8, 1, 2);
  add(64, 128, 16, 8, 8, 1, 2);
  add(64, 64, 16, 8, 8, 1, 2);
  add(64, 64, 16, 8, 8, 2, 2);
  add(32, 32, 8, 4, 4, 4, 2);
  add(32, 32, 16, 4, 4, 4, 1);
  add(16, 16, 8, 4, 4, 8, 2);
  add(8, 8, 8, 4, 4, 32, 1);
  if (found.empty()) {  // within the least that Vulkan guarantees
    const auto occupies = [&](std::uint32_t side) {
      return extent_of(problem.batch) * ceil_div(extent_of(problem.m), side) * ceil_div(extent_of(problem.n), side) >=
             device.compute_units;
    };
    if (occupies(64)) add(64, 64, 8, 8, 8, 1, 1);
    if (occupies(32)) add(32, 32, 8, 4, 4, 1, 1);
    add(16, 16, 8, 4, 4, 4, 1);
  }
  const std::string preferred = detail::preferred_tiles(device, problem).label();
  std::stable_partition(found.begin(), found.end(), [&](const auto& s) { return s.label() == preferred; });
  if (fusion::takes_vectors(detail::extents_of(problem), device)) {
    const std::vector<matmul_schedule> vectors = detail::vector_candidates(problem, device);
    found.insert(found.begin(), vectors.begin(), vectors.end());
  }
  if (found.empty()) found.push_back({});
  return found;
}

MEGANEURA_INLINE matmul_schedule choose_matmul(const device_profile& device, const matmul_problem& problem) {
  if (fusion::takes_vectors(detail::extents_of(problem), device))
    return detail::vector_schedule(problem, detail::chosen_vectors(problem, device), fusion::vector_reads, device);
  return matmul_candidates(device, problem).front();
}

MEGANEURA_INLINE kernel_dispatch make_best_matmul(const matmul_problem& problem, const device_profile& device) {
  kernel_dispatch chosen = make_matmul(problem, choose_matmul(device, problem), device);
  if (within_loop_limit(chosen.module, device)) return chosen;
  const std::vector<matmul_schedule> candidates = matmul_candidates(device, problem);
  for (const bool wider : {false, true}) {
    for (matmul_schedule s : candidates) {
      const auto widen = [&] {
        s.slices *= 2;
        return wider && s.tier != matmul_tier::simple && detail::runs_here(s, device);
      };
      kernel_dispatch made = make_within_loop_limit([&] { return make_matmul(problem, s, device); }, widen, device);
      if (within_loop_limit(made.module, device)) return made;
    }
  }
  return chosen;
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
