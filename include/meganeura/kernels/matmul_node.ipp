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

inline spirv::u32 epilogue_offset(const matmul_attribute& node, const index_map& map, const matmul_point& point) {
  const int m = node.batch_axes, n = m + node.m_axes;
  return spirv::u32(static_cast<std::uint32_t>(map.offset)) +
         group_offset(node.space, map, 0, node.batch_axes, point.batch) +
         group_offset(node.space, map, m, node.m_axes, point.m) +
         group_offset(node.space, map, n, node.n_axes, point.n);
}

// The axis of a group along which four neighbours differ, or -1 where that may be more than one.
[[nodiscard]] inline int last_axis_of_fours(const shape& space, int first, int count) {
  for (int axis = first + count - 1; axis >= first; --axis) {
    if (space[axis] != 1) return space[axis] % 4 == 0 ? axis : -1;
  }
  return -1;
}
[[nodiscard]] inline int last_column_of_fours(const matmul_attribute& node) {
  return last_axis_of_fours(node.space, node.batch_axes + node.m_axes, node.n_axes);
}

// Whether what is read at the first of four neighbours along `axis` begins an aligned group of four.
[[nodiscard]] inline bool reads_groups(const shape& space, const index_map& map, int axis) {
  if (map.strides[axis] != 1 || map.offset % 4 != 0) return false;
  for (int i = 0; i < space.rank(); ++i) {
    if (i != axis && space[i] != 1 && map.strides[i] % 4 != 0) return false;
  }
  return true;
}

/// The operands behind those that are multiplied, and a product's programs over them.
class bound_programs {
 public:
  bound_programs(spirv::kernel& k, const matmul_attribute& node, std::span<const dtype> types)
      : k_(k), node_(node), first_(1 + node.sums()) {
    const std::size_t end = types.size() - (node.prepared ? node.sums() : 0);
    for (std::size_t i = first_; i < end; ++i) operands_.emplace_back(k, types[i], "operand" + std::to_string(i));
  }

  /// The epilogue's over one finished sum, or over four; of a pair's, over both. Each result's value.
  [[nodiscard]] std::vector<scalar_value> finish(std::span<const scalar_value> sums, const matmul_point& first) const {
    const int width = sums[0].type.components;
    const std::vector<scalar_value> nodes = emit_nodes(k_, node_.finish.program, [&](int argument) -> scalar_value {
      const auto number = static_cast<std::size_t>(argument);
      if (number < sums.size()) return sums[number];
      const index_map& map = node_.finish.accesses[number - 1];
      if (map.source == index_map::statistic_source) return widened(*first.statistic, width);
      const int axis = width == 4 ? last_column_of_fours(node_) : -1;
      const spirv::u32 offset = epilogue_offset(node_, map, first);
      return axis < 0 ? read(map, offset) : read_along(map, offset, axis);
    });
    std::vector<scalar_value> values = {widened(nodes.back(), width)};
    for (const further_result& each : node_.further) values.push_back(widened(nodes[each.value], width));
    if (node_.half_distance != 0) values.push_back(widened(nodes[node_.half], width));
    return values;
  }

  // Of the prologue.
  [[nodiscard]] spirv::u32 base(std::size_t i, const spirv::u32& batch, const spirv::u32& m) const {
    const index_map& map = node_.start.accesses[i];
    return spirv::u32(static_cast<std::uint32_t>(map.offset)) +
           group_offset(node_.space, map, 0, node_.batch_axes, batch) +
           group_offset(node_.space, map, node_.batch_axes, node_.m_axes, m);
  }
  [[nodiscard]] std::vector<bool> reads_by_row() const {
    std::vector<bool> found;
    for (const index_map& each : node_.start.accesses) {
      const auto first = each.strides + node_.batch_axes;
      found.push_back(std::any_of(first, first + node_.m_axes, [](std::int64_t stride) { return stride != 0; }));
    }
    return found;
  }
  [[nodiscard]] spirv::u32 along(std::size_t i, const spirv::u32& k) const {
    return group_offset(node_.space, node_.start.accesses[i], first_of_k(), node_.k_axes, k);
  }
  [[nodiscard]] spirv::f32 read_one(std::size_t i, const spirv::u32& offset) const {
    return spirv::f32(read(node_.start.accesses[i], offset));
  }
  [[nodiscard]] spirv::f32x4 read_four(std::size_t i, const spirv::u32& offset, bool along_k) const {
    const int first = along_k ? first_of_k() : node_.batch_axes, count = along_k ? node_.k_axes : node_.m_axes;
    const int axis = last_axis_of_fours(node_.space, first, count);
    return spirv::f32x4(widened(read_along(node_.start.accesses[i], offset, axis), 4));
  }
  [[nodiscard]] scalar_value element(const scalar_value& of, matmul_prologue::values reads) const {
    if (node_.start.program.nodes.empty()) return of;
    return widened(emitted(node_.start.program, of, reads), of.type.components);
  }
  [[nodiscard]] scalar_value statistic(const scalar_value& of, matmul_prologue::values reads) const {
    return widened(emitted(node_.start.statistic, of, reads), of.type.components);
  }

 private:
  [[nodiscard]] int first_of_k() const { return node_.batch_axes + node_.m_axes + node_.n_axes; }
  [[nodiscard]] scalar_value emitted(const scalar_program& program, const scalar_value& of,
                                     matmul_prologue::values reads) const {
    return emit(k_, program,
                [&](int argument) { return argument == 0 ? of : reads[static_cast<std::size_t>(argument) - 1]; });
  }
  [[nodiscard]] const bound_tensor& operand_of(const index_map& map) const {
    return operands_[static_cast<std::size_t>(map.source) - first_];
  }
  [[nodiscard]] scalar_value read(const index_map& map, const spirv::u32& offset) const {
    if (map.source == index_map::index_source) return spirv::bitcast<spirv::i32>(offset);
    return operand_of(map).load(offset);
  }
  // Four neighbours along the axis, or one for all of them.
  [[nodiscard]] scalar_value read_along(const index_map& map, const spirv::u32& offset, int axis) const {
    if (map.strides[axis] == 0) return read(map, offset);
    if (map.source != index_map::index_source && reads_groups(node_.space, map, axis))
      return operand_of(map).load(offset / 4u, 4);
    std::array<scalar_value, 4> parts;
    for (std::uint32_t i = 0; i < 4; ++i)
      parts[i] = read(map, offset + i * static_cast<std::uint32_t>(map.strides[axis]));
    return grouped(k_, parts);
  }

  spirv::kernel& k_;
  const matmul_attribute node_;
  std::size_t first_;  // of these operands
  std::vector<bound_tensor> operands_;
};

// Declares the further operands in the kernel and returns what applies the programs.
inline matmul_programs declare_programs(spirv::kernel& k, const matmul_attribute& node, std::span<const dtype> types) {
  const auto bound = std::make_shared<const bound_programs>(k, node, types);
  const bool has_fours = last_column_of_fours(node) >= 0;
  const auto finish_one = [bound](const scalar_value& sums, const matmul_point& first) {
    return bound->finish(std::span(&sums, 1), first)[0];
  };
  matmul_epilogue::of_four four;
  if (has_fours) {
    four = [finish_one](const spirv::f32x4& sums, const matmul_point& first) {
      return spirv::f32x4(finish_one(sums, first));
    };
  }
  matmul_programs made(
      {[finish_one](const spirv::f32& sum, const matmul_point& point) { return spirv::f32(finish_one(sum, point)); },
       std::move(four)});
  if (node.paired || !node.further.empty()) {
    made.several = {has_fours, [bound](std::span<const scalar_value> sums, const matmul_point& first) {
                      return bound->finish(sums, first);
                    }};
  }
  if (node.start.is_empty()) return made;
  using values = matmul_prologue::values;
  made.start = {
      .reads = node.start.accesses.size(),
      .by_row = bound->reads_by_row(),
      .base = [bound](std::size_t i, const spirv::u32& batch, const spirv::u32& m) { return bound->base(i, batch, m); },
      .along = [bound](std::size_t i, const spirv::u32& at) { return bound->along(i, at); },
      .read_one = [bound](std::size_t i, const spirv::u32& offset) { return bound->read_one(i, offset); },
      .read_four = [bound](std::size_t i, const spirv::u32& offset,
                           bool along_k) { return bound->read_four(i, offset, along_k); },
      .value = [bound](const scalar_value& of, values reads) { return bound->element(of, reads); }};
  if (!node.start.statistic.nodes.empty())
    made.start->statistic = [bound](const scalar_value& of, values reads) { return bound->statistic(of, reads); };
  return made;
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
  const bool half = node.schedule.is_half();
  const dtype expected = half ? dtype::f16 : dtype::f32;
  const std::span<const dtype> multiplied = types.first(1 + node.sums());
  if (std::ranges::any_of(multiplied, [&](dtype each) { return each != expected; }) ||
      (result != dtype::f32 && (!half || result != dtype::f16))) {
    fail(error_category::unsupported,
         "a matrix product of {} and {} giving {} was asked for; there are those of f32 and, on matrix units, of f16: "
         "cast the operands",
         to_string(types[0]), to_string(types[1]), to_string(result));
  }
  for (const index_map& map : node.finish.accesses) {
    if (map.bounded)
      fail(error_category::internal, "matmul: an epilogue operand has bounds; the rules must not build that");
  }
  matmul_problem problem;
  if (half) problem.name = "matmul_f16";
  problem.result = result;
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
  problem.has_prologue = !node.start.is_empty();
  if (node.prepared) problem.prepared = prepared_length(static_cast<std::int64_t>(extent_of(problem.k)));
  problem.border = node.border;
  if (node.paired) problem.offset_second = value(node.finish.accesses.at(0).offset);
  for (std::size_t i = 0; i < node.further.size(); ++i) problem.stores.push_back({i + 1, 0});
  if (node.half_distance != 0) problem.stores.push_back({0, value(node.half_distance)});
  const bool stores_sums = node.finish.program.is_identity() && !node.paired && node.further.empty();
  if (stores_sums && !problem.has_prologue) return problem;
  const std::vector<dtype> kept(types.begin(), types.end());
  problem.epilogue = [node, kept](spirv::kernel& k) { return detail::declare_programs(k, node, kept); };
  return problem;
}

MEGANEURA_INLINE kernel_dispatch make_matmul(const matmul_attribute& node, std::span<const dtype> types, dtype result,
                                             const device_profile& on, matmul_problem::parameter_operands parameters) {
  matmul_problem problem = make_matmul_problem(node, types, result);
  problem.parameters = parameters;
  if ((node.paired || !node.further.empty()) && !node.schedule.is_on_units())
    fail(error_category::internal,
         "matmul: a pair or several results without matrix units; the rules must not do that");
  if (node.prepared && node.schedule.arithmetic != product_arithmetic::rounded)
    fail(error_category::internal,
         "matmul: prepared right operands need the arithmetic rounded, not {}; the rules must not do that",
         to_string(node.schedule.arithmetic));
  if (!node.border.is_empty() && node.schedule.places == place_axes::none)
    fail(error_category::internal,
         "matmul: a border that is not in memory, of windows that share no elements; the rules must not do that");
  if (node.schedule.is_on_units()) return make_cooperative_matmul(problem, node.schedule, on);
  return make_best_matmul(problem, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
