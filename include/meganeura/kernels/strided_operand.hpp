// SPDX-License-Identifier: MIT
// How an operand of a product lies in memory, as its kernels see it.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/spirv/kernel.hpp>

#include <cstdint>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

struct strided_axis {
  std::uint32_t extent = 1, stride = 0;
};
using strided_axes = std::vector<strided_axis>;

/// The element offset of the flat index `flat` over `axes`.
[[nodiscard]] spirv::u32 offset_of(const strided_axes& axes, const spirv::u32& flat);

/// One operand seen by a tile loader; rows are m for a and n for b.
struct matmul_operand {
  strided_axes batch, rows, k;
  std::uint32_t offset = 0;
  std::uint32_t row_count = 1, k_count = 1;
  bool along_k = true;      // neighbouring loads go along k, else along rows
  std::uint32_t width = 1;  // 4: groups of four along that direction are contiguous and aligned
  bool is_aligned = true;   // else, of texels, such groups may lie across two of them
};

/// One more than the last element an operand reads.
[[nodiscard]] inline std::uint64_t span_of(const matmul_operand& plan) {
  std::uint64_t last = plan.offset;
  for (const strided_axes* axes : {&plan.batch, &plan.rows, &plan.k}) {
    for (const strided_axis& axis : *axes) last += std::uint64_t{axis.extent - 1} * axis.stride;
  }
  return last + 1;
}

/// Four numbers from place `offset` & 3 of eight on.
[[nodiscard]] inline spirv::f32x4 four_across(const spirv::f32x4& low, const spirv::f32x4& high,
                                              const spirv::u32& offset) {
  std::vector<spirv::f32> all{low[0], low[1], low[2], low[3], high[0], high[1], high[2]};
  for (const std::uint32_t by : {2u, 1u}) {
    const spirv::boolean shifts = (offset & by) != 0u;
    for (std::size_t i = 0; i + by < all.size(); ++i) all[i] = select(shifts, all[i + by], all[i]);
    all.resize(all.size() - by);
  }
  return vector(all[0], all[1], all[2], all[3]);
}

/// The same of an access, over `count` axes of `space` from `first` on.
[[nodiscard]] inline spirv::u32 group_offset(const shape& space, const index_map& map, int first, int count,
                                             const spirv::u32& flat) {
  strided_axes axes;
  bool depends = false;
  for (int i = first; i < first + count; ++i) {
    axes.push_back({static_cast<std::uint32_t>(space[i]), static_cast<std::uint32_t>(map.strides[i])});
    depends = depends || map.strides[i] != 0;
  }
  return depends ? offset_of(axes, flat) : spirv::u32(0u);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
