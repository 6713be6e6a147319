// SPDX-License-Identifier: MIT
// Definitions for kernels/matmul_node.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/kernels/matmul_cooperative.hpp>
#include <meganeura/kernels/matmul_node.hpp>
#include <meganeura/kernels/scalar_emit.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <memory>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

// Strides of one access over the axes of one group, as the point's flat index of that group decodes.
inline spirv::u32 group_offset(const shape& space, const index_map& map, int first, int count, const spirv::u32& flat) {
  strided_axes axes;
  bool depends = false;
  for (int i = first; i < first + count; ++i) {
    axes.push_back({static_cast<std::uint32_t>(space[i]), static_cast<std::uint32_t>(map.strides[i])});
    depends = depends || map.strides[i] != 0;
  }
  return depends ? offset_of(axes, flat) : spirv::u32(0u);
}

inline spirv::u32 epilogue_offset(const matmul_attribute& node, const index_map& map, const matmul_point& point) {
  const int m = node.batch_axes, n = m + node.m_axes;
  return spirv::u32(static_cast<std::uint32_t>(map.offset)) +
         group_offset(node.space, map, 0, node.batch_axes, point.batch) +
         group_offset(node.space, map, m, node.m_axes, point.m) +
         group_offset(node.space, map, n, node.n_axes, point.n);
}

// Declares the epilogue's operands in the kernel and returns what applies the program to a finished sum.
inline matmul_epilogue declare_epilogue(spirv::kernel& k, const matmul_attribute& node, std::span<const dtype> types) {
  auto operands = std::make_shared<std::vector<bound_tensor>>();
  for (std::size_t i = 2; i < types.size(); ++i) operands->emplace_back(k, types[i], "operand" + std::to_string(i));
  return [&k, node, operands](const spirv::f32& sum, const matmul_point& point) {
    const scalar_value value = emit(k, node.finish.program, [&](int argument) -> scalar_value {
      if (argument == 0) return sum;
      const index_map& map = node.finish.accesses[static_cast<std::size_t>(argument) - 1];
      const spirv::u32 offset = epilogue_offset(node, map, point);
      if (map.source == index_map::index_source) return spirv::bitcast<spirv::i32>(offset);
      return (*operands)[static_cast<std::size_t>(map.source) - 2].load(offset);
    });
    return spirv::f32(value);
  };
}

// Before anything is narrowed to 32 bits. make_matmul() asks again of problems that come from elsewhere.
inline void expect_countable_group(const shape& space, int first, int count) {
  constexpr std::int64_t most = 0x7fffffff;
  std::int64_t extent = 1;
  for (int i = first; i < first + count; ++i) extent *= space[i];
  if (extent <= most) return;
  fail(error_category::unsupported,
       "a matrix product over an axis group of {} elements was asked for; its kernels count up to {}: split the axes",
       extent, most);
}

}  // namespace detail

MEGANEURA_INLINE matmul_problem make_matmul_problem(const matmul_attribute& node, std::span<const dtype> types,
                                                    dtype result) {
  if (types[0] != dtype::f32 || types[1] != dtype::f32 || result != dtype::f32) {
    fail(error_category::unsupported,
         "a matrix product of {} and {} giving {} was asked for; there are f32 products only: "
         "cast the operands",
         to_string(types[0]), to_string(types[1]), to_string(result));
  }
  for (const index_map& map : node.finish.accesses) {
    if (map.bounded)
      fail(error_category::internal, "matmul: an epilogue operand has bounds; the rules must not build that");
  }
  matmul_problem problem;
  const auto value = [](std::int64_t number) { return static_cast<std::uint32_t>(number); };
  std::vector<matmul_axis>* groups[] = {&problem.batch, &problem.m, &problem.n, &problem.k};
  const int counts[] = {node.batch_axes, node.m_axes, node.n_axes, node.k_axes};
  int axis = 0;
  for (int group = 0; group < 4; ++group) {
    detail::expect_countable_group(node.space, axis, counts[group]);
    for (int i = 0; i < counts[group]; ++i, ++axis) {
      groups[group]->push_back({value(node.space[axis]), value(node.a.strides[axis]), value(node.b.strides[axis]),
                                value(node.output.strides[axis])});
    }
  }
  problem.offset_a = value(node.a.offset);
  problem.offset_b = value(node.b.offset);
  problem.offset_out = value(node.output.offset);
  if (node.finish.program.is_identity()) return problem;
  const std::vector<dtype> kept(types.begin(), types.end());
  problem.epilogue = [node, kept](spirv::kernel& k) { return detail::declare_epilogue(k, node, kept); };
  return problem;
}

MEGANEURA_INLINE kernel_dispatch make_matmul(const matmul_attribute& node, std::span<const dtype> types, dtype result,
                                             const device_profile& on) {
  const matmul_problem problem = make_matmul_problem(node, types, result);
  if (node.schedule.is_on_units()) return make_cooperative_matmul(problem, node.schedule, on);
  return make_best_matmul(problem, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
