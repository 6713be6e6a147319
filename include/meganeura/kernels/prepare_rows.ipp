// SPDX-License-Identifier: MIT
// Definitions for kernels/prepare_rows.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/kernels/attention_units.hpp>
#include <meganeura/kernels/prepare_rows.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

[[nodiscard]] inline matmul_problem rows_of(const prepare_attribute& node) {
  matmul_problem problem;
  problem.offset_a = static_cast<std::uint32_t>(node.access.offset);
  for (int axis = 0; axis < node.space.rank(); ++axis) {
    const auto extent = static_cast<std::uint32_t>(node.space[axis]),
               stride = static_cast<std::uint32_t>(node.access.strides[axis]);
    (axis < node.row_axes ? problem.m : problem.k).push_back({extent, stride, 0, 0});
  }
  return problem;
}

/// One kernel. Neighbouring invocations share a row, each four of its elements; largest_of_lanes as units have it.
class row_preparation {
 public:
  row_preparation(spirv::kernel& k, const prepare_attribute& node, const device_profile& on, std::uint32_t lanes)
      : k_(k),
        node_(node),
        lanes_(lanes),
        by_shuffles_(on.subgroup_shuffle && lanes <= on.subgroup_size),
        from_(k, plan_operand(rows_of(node), true), "rows", k.local_size()[0] / lanes, lanes),
        out_(k.storage_buffer<spirv::u32>("prepared", spirv::access::write)),
        pairs_(k.view<spirv::u32x2>(out_)),
        both_(k.view<spirv::u32x4>(out_)) {
    if (by_shuffles_) k.require_subgroup_size(on.subgroup_size);
    if (!by_shuffles_) largest_ = k.shared<spirv::u32>(k.local_size()[0] / lanes);
    if (node.by_columns) {
      magnitudes_ = k.shared<spirv::u32x4>(k.local_size()[0]);
      columns_ = k.shared<spirv::u32>(2);
    }
    index_ = by_shuffles_ ? k.index_by_subgroups(on.subgroup_size) : k.local_index();
  }

  void emit(const spirv::u32& linear) {
    using namespace spirv;
    const u32 first = linear * (k_.local_size()[0] / lanes_);
    const auto count = static_cast<std::uint32_t>(node_.rows());
    const std::uint32_t fours = node_.padded / 4;
    from_.place(0u, index_);
    from_.fetch(first);
    from_.each([&](const u32& local, const u32& four, const f32x4& x) {
      const u32x4 of_four = magnitudes(x);
      const u32 largest = largest_of_lanes(max(max(of_four[0], of_four[1]), max(of_four[2], of_four[3])));
      const f16_scale scale(largest, 14);
      const boolean is_held =
          node_.by_columns ? f16_scale::exists(largest) && !has_lost_column(of_four) : f16_scale::exists(largest);
      const u32 row = first + local;
      k_.if_(row < count && four < fours, [&] {
        const f32x4 scaled = x * f32x4(scale.factor());
        std::vector<u32x2> pairs;
        each_term(scaled, node_.terms, false, [&](std::uint32_t, const u32x2& each) { pairs.push_back(each); });
        if (node_.terms == 1) pairs_[row * fours + four] = pairs[0];
        if (node_.terms == 2) both_[row * fours + four] = vector(pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]);
        k_.if_(four == 0u, [&] {
          const u32 inverse = select(largest == 0u, u32(0), bitcast<u32>(scale.inverse()));
          out_[row + count * (node_.terms * fours * 2)] = select(is_held, inverse, u32(infinity_bits));
        });
      });
    });
  }

 private:
  [[nodiscard]] spirv::u32 largest_of_lanes(const spirv::u32& x) {
    if (by_shuffles_) return largest_by_shuffles(k_, x, lanes_);
    const spirv::u32 row = index_ / lanes_;
    k_.if_(index_ % lanes_ == 0u, [&] { (*largest_)[row] = spirv::u32(0); });
    k_.barrier();
    static_cast<void>((*largest_)[row].atomic_max(x));
    k_.barrier();
    return largest_->load(row);
  }
  // Whether of the workgroup's rows a column that is not all zeros is too far below the largest number of all. Every
  // invocation, which has four columns of a row.
  [[nodiscard]] spirv::boolean has_lost_column(const spirv::u32x4& of_four) {
    using namespace spirv;
    constexpr std::uint32_t binades = 26;
    (*magnitudes_)[index_] = of_four;
    k_.if_(index_ < 2u, [&] { (*columns_)[index_] = u32(0); });
    k_.barrier();
    const boolean is_first = index_ < lanes_;
    k_.if_(is_first, [&] {
      const var<u32x4> found = k_.variable<u32x4>();
      found = of_four;
      k_.for_(lanes_, k_.local_size()[0], lanes_,
              [&](const u32& at) { found = max(found.load(), magnitudes_->load(index_ + at)); });
      (*magnitudes_)[index_] = found.load();
      const u32x4 all = found.load();
      static_cast<void>((*columns_)[0u].atomic_max(max(max(all[0], all[1]), max(all[2], all[3]))));
    });
    k_.barrier();
    k_.if_(is_first, [&] {
      const u32x4 all = magnitudes_->load(index_);
      for (std::uint32_t c = 0; c < 4; ++c) {
        k_.if_(all[c] != 0u && all[c] + (binades << 23) < columns_->load(0u), [&] { (*columns_)[1u] = u32(1); });
      }
    });
    k_.barrier();
    return columns_->load(1u) != 0u;
  }

  spirv::kernel& k_;
  const prepare_attribute& node_;
  std::uint32_t lanes_;
  bool by_shuffles_;
  row_block from_;
  spirv::memory<spirv::u32> out_;
  spirv::memory<spirv::u32x2> pairs_;
  spirv::memory<spirv::u32x4> both_;
  std::optional<spirv::memory<spirv::u32>> largest_;  // of each row
  std::optional<spirv::memory<spirv::u32x4>> magnitudes_;
  std::optional<spirv::memory<spirv::u32>> columns_;  // of all columns the largest number; whether one is lost
  spirv::u32 index_;
};

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_prepare_rows(const prepare_attribute& node, const device_profile& on) {
  const std::uint32_t lanes = std::bit_ceil(node.padded / 4);
  if (node.padded == 0 || node.padded % 8 != 0 || !fusion::can_prepare(node.padded, on))
    fail(error_category::unsupported,
         "rows of {} elements were to be prepared; there are kernels of up to four an invocation of a workgroup, in "
         "eights, and the device has {} of these",
         node.padded, on.max_invocations);
  const std::uint32_t threads = std::max(lanes, std::bit_floor(std::min(256u, on.max_invocations)));
  spirv::kernel k(fmt::format("prepare_rows {}x{}", node.rows(), node.padded), {threads, 1, 1});
  detail::row_preparation rows(k, node, on, lanes);
  const std::uint64_t count = ceil_div<std::uint64_t>(static_cast<std::uint64_t>(node.rows()), threads / lanes);
  const auto groups = detail::spread_groups(count, on);
  const spirv::u32 linear = detail::linear_group(k, groups);
  detail::if_inside(k, linear, count, std::uint64_t{groups[0]} * groups[1], [&] { rows.emit(linear); });
  return {k.finish(), groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
