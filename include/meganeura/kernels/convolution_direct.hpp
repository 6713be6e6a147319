// SPDX-License-Identifier: MIT
// Convolutions whose operands every invocation reads straight from their buffers.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/convolution_product.hpp>
#include <meganeura/kernels/shared_totals.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// Each invocation owns up to 4 m by 4 n. `lanes` of them share one such tile: each takes its part of k, and they add
/// up in shared memory.
struct direct_plan {
  std::uint32_t rows = 4, lanes = 1, size = 64;  // lanes and size are powers of two

  /// Lanes of one subgroup need no shared memory.
  [[nodiscard]] bool shuffles(const device_profile& on) const {
    return lanes > 1 && on.subgroup_shuffle && lanes <= on.subgroup_size && size % on.subgroup_size == 0;
  }
  /// Twice the lanes; false when the workgroup is full.
  [[nodiscard]] bool share_wider(const device_profile& on) {
    if (2 * lanes > std::bit_floor(on.max_invocations) || 32 * lanes > on.max_shared_bytes) return false;
    lanes *= 2;
    size = std::max(size, lanes);
    return true;
  }
};

class direct_convolution {
 public:
  direct_convolution(spirv::kernel& owner, const convolution_product& p, const direct_plan& plan,
                     convolution_memory& memory, const flat_grid& grid, std::int64_t tiles, const device_profile& on)
      : owner_(owner), p_(p), plan_(plan), memory_(memory), on_(on) {
    const std::uint32_t per_group = plan.size / plan.lanes;
    const bool shuffles = plan.shuffles(on);
    if (shuffles) owner.require_subgroup_size(on.subgroup_size);
    const spirv::u32 index = shuffles ? owner.index_by_subgroups(on.subgroup_size) : owner.local_id(0);
    const std::int64_t m_tiles = ceil_div(p.m, plan.rows), n_tiles = ceil_div(p.n, 4);
    lane_ = index % plan.lanes;
    const spirv::u32 wanted = grid.position(owner) * per_group + index / plan.lanes;
    const bool exact = std::int64_t{grid.groups[0]} * grid.groups[1] * grid.groups[2] * per_group == tiles;
    exists_ = exact ? spirv::boolean(true) : wanted < spirv::u32(tiles);
    const spirv::u32 tile = min(wanted, spirv::u32(tiles - 1));
    n_first_ = tile % spirv::u32(n_tiles) * 4u;
    m_first_ = tile / spirv::u32(n_tiles) % spirv::u32(m_tiles) * plan.rows;
    group_ = tile / spirv::u32(n_tiles * m_tiles);
  }

  void run() {
    for (std::uint32_t i = 0; i < plan_.rows; ++i) {
      a_rows_.push_back(part_of_m(p_, min(m_first_ + i, spirv::u32(p_.m - 1))) + group_ * p_.a_group());
    }
    for (std::uint32_t j = 0; j < 4; ++j) {
      n_part part = part_of_n(p_, min(n_first_ + j, spirv::u32(p_.n - 1)));
      part.b = part.b + group_ * p_.b_group();
      b_columns_.push_back(part);
    }
    for (std::uint32_t i = 0; i < plan_.rows; ++i) sums_.push_back(owner_.variable<spirv::f32x4>(0.0f));
    sum_up();
    const std::vector<spirv::f32x4> sums = shared_sums();
    owner_.if_(plan_.lanes == 1 ? exists_ : exists_ && lane_ == 0u, [&] {
      for (std::uint32_t i = 0; i < plan_.rows; ++i) memory_.finish(group_, m_first_ + i, n_first_, sums[i]);
    });
  }

 private:
  // Lanes lie along the fast part of k as far as it goes, then across the slow part.
  void sum_up() {
    const std::uint32_t inner = p_.inner(), outer = static_cast<std::uint32_t>(p_.k / inner);
    const std::uint32_t along = std::min(plan_.lanes, std::bit_ceil(inner)), across = plan_.lanes / along;
    const cascade_lengths one{};
    const std::uint64_t passes = ceil_div(inner, along);
    const std::vector<running_sum> sums = running_sums(sums_);
    for_summed(owner_, lane_ / along, outer, across, {.terms = one.after(passes)}, sums, [&](const spirv::u32& slow) {
      // A tap's place in the image is the same for all channels: it is worked out before the loop over them.
      const bool by_filter = p_.is(convolution_attribute::filter);
      const std::array<element, 4> origin =
          by_filter ? std::array<element, 4>{} : elements(part_of_k(p_, slow, spirv::u32(0)));
      for_summed(owner_, lane_ % along, inner, along, one, sums, [&](const spirv::u32& fast) {
        const k_part k = part_of_k(p_, slow, fast);
        if (by_filter) return step(k, elements(k));
        std::array<element, 4> at = origin;
        for (element& each : at) each.address = each.address + k.b;
        step(k, at);
      });
    });
  }

  void step(const k_part& k, const std::array<element, 4>& at) {
    const spirv::f32x4 b = vector(memory_.b(at[0]), memory_.b(at[1]), memory_.b(at[2]), memory_.b(at[3]));
    for (std::size_t i = 0; i < plan_.rows; ++i) {
      sums_[i] = fma(spirv::f32x4(memory_.a(a_rows_[i] + k.a)), b, sums_[i].load());
    }
  }

  [[nodiscard]] std::array<element, 4> elements(const k_part& k) const {
    std::array<element, 4> at;
    for (std::size_t j = 0; j < 4; ++j) at[j] = element_of_b(p_, b_columns_[j], k);
    return at;
  }

  // By halves; afterwards lane 0 holds the sum of all lanes. No variable is used on both sides of a barrier: a software
  // device would keep it in memory from the first loop on.
  [[nodiscard]] std::vector<spirv::f32x4> shared_sums() {
    std::vector<spirv::f32x4> sums;
    for (const auto& own : sums_) sums.push_back(own.load());
    if (plan_.lanes == 1) return sums;
    if (plan_.shuffles(on_)) {
      for (spirv::f32x4& sum : sums) sum = shuffled(sum);
      return sums;
    }
    shared_totals totals(owner_, plan_.size);
    const spirv::u32 own = owner_.local_id(0);
    const lane_place place{.lane = lane_, .lanes = plan_.lanes, .own = own, .total = own};
    for (spirv::f32x4& sum : sums) sum = spirv::f32x4(totals.combined(scalar_op::row_sum, sum, place));
    return sums;
  }

  [[nodiscard]] spirv::f32x4 shuffled(spirv::f32x4 sum) {
    for (std::uint32_t mask = plan_.lanes / 2; mask > 0; mask /= 2) {
      const auto moved = [&](std::uint32_t c) { return owner_.subgroup_shuffle_xor(sum[c], spirv::u32(mask)); };
      sum = sum + vector(moved(0), moved(1), moved(2), moved(3));
    }
    return sum;
  }

  spirv::kernel& owner_;
  const convolution_product& p_;
  const direct_plan& plan_;
  convolution_memory& memory_;
  const device_profile& on_;
  spirv::u32 lane_, m_first_, n_first_, group_;
  spirv::boolean exists_{true};
  std::vector<spirv::u32> a_rows_;
  std::vector<n_part> b_columns_;
  std::vector<spirv::var<spirv::f32x4>> sums_;
};

[[nodiscard]] inline kernel_dispatch make_direct(const convolution_product& p, const convolve_attribute& node,
                                                 std::span<const dtype> types, const shape& result_extents,
                                                 dtype result, const direct_plan& plan, const device_profile& on) {
  const std::int64_t tiles = ceil_div(p.m, plan.rows) * ceil_div(p.n, 4) * p.groups;
  const std::uint32_t per_group = plan.size / plan.lanes;
  const flat_grid grid = make_flat_grid(tiles, per_group, on);
  spirv::kernel owner(fmt::format("convolution {}x{}x{}", p.m, p.n, p.k), {plan.size, 1, 1});
  convolution_memory memory(owner, p, node, types, result_extents, result);
  direct_convolution(owner, p, plan, memory, grid, tiles, on).run();
  return {owner.finish(), grid.groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
