// SPDX-License-Identifier: MIT
// Definitions for graph/graph.hpp: maps and views, which check their operands here, and primitives by their rules.
#pragma once
#include <meganeura/core/checked.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/geometry.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/graph/view_map.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <span>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE node_id graph::map(const scalar_program& program, std::span<const node_id> operands, dtype result) {
  expect_values("map", operands);
  expect_dtype("map", result);
  check_program(program);
  for (node_id operand : operands) {
    if (nodes_[operand].extents != nodes_[operands[0]].extents) {
      fail(error_category::invalid_argument,
           "map {}: operands must have one shape; found {} and {}; expand one of them", to_string(program),
           to_string(nodes_[operands[0]].extents), to_string(nodes_[operand].extents));
    }
  }
  if (operands.empty() || program.arguments() > static_cast<int>(operands.size()) || program.has_rows()) {
    fail(error_category::invalid_argument, "map {}: needs an operand for each argument and no row reductions; found {}",
         to_string(program), operands.size());
  }
  for (const scalar_node& each : program.nodes) {
    if (each.op != scalar_op::argument) continue;
    const auto index = static_cast<std::size_t>(each.value);
    const dtype found = nodes_[operands[index]].type;
    if (compute_type(found) == each.type) continue;
    fail(error_category::invalid_argument, "map {}: argument {} is {} and operand %{} is {}; cast the operand",
         to_string(program), index, to_string(each.type), operands[index], to_string(found));
  }
  for (const scalar_node& each : program.nodes) {
    if (each.op != scalar_op::divide || is_float(each.type)) continue;
    const scalar_node& divisor = program.nodes[each.operands[1]];
    node_id from = no_id;
    if (divisor.op == scalar_op::argument) from = operands[static_cast<std::size_t>(divisor.value)];
    while (from != no_id && nodes_[from].kind == op::view) from = operand(from, 0);
    const bool held = from != no_id && nodes_[from].kind == op::constant;
    const bool is_zero =
        held ? get<constant_attribute>(from).value == 0 : divisor.op == scalar_op::constant && divisor.value == 0;
    if (!is_zero) continue;
    fail(error_category::invalid_argument, "map {}: divides {} by the constant 0{}; give another divisor",
         to_string(program), to_string(each.type), held ? fmt::format(", %{}", from) : "");
  }
  if (result == dtype::boolean || program.type() != compute_type(result)) {
    fail(error_category::invalid_argument, "map {}: computes {} and cannot be stored as {}; convert it",
         to_string(program), to_string(program.type()), to_string(result));
  }
  return add_node(op::map, result, nodes_[operands[0]].extents, map_attribute{program}, operands);
}

MEGANEURA_INLINE node_id graph::map(scalar_op kind, std::initializer_list<node_id> operands) {
  const int arity = static_cast<int>(kind) < scalar_op_count ? info(kind).arity : 0;
  if (arity == 0 || static_cast<int>(operands.size()) != arity) {
    fail(error_category::invalid_argument, "map {}: takes {} operands; found {}", to_string(kind), arity,
         operands.size());
  }
  expect_values(info(kind).name, operands);
  dtype types[3]{};
  std::size_t count = 0;
  for (node_id operand : operands) types[count++] = compute_type(nodes_[operand].type);
  const scalar_program program = single_op_program(kind, {types, count}, types[0]);
  const dtype stored = nodes_[*operands.begin()].type;
  return map(program, {operands.begin(), operands.size()},
             compute_type(stored) == program.type() ? stored : program.type());
}

MEGANEURA_INLINE node_id graph::cast(node_id a, dtype type) {
  expect_values("cast", {a});
  expect_dtype("cast", type);
  const dtype from = nodes_[a].type;
  if (from == type) return a;
  return map(cast_program(from, type), std::span(&a, 1), type);
}

MEGANEURA_INLINE node_id graph::reduce(reduce_kind kind, node_id a, std::uint32_t axes) {
  return apply(op::reduce, reduce_attribute{kind, axes}, {a});
}

MEGANEURA_INLINE node_id graph::contract(node_id a, node_id b, const contract_attribute& labels) {
  return apply(op::contract, labels, {a, b});
}

// ---- views ----------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE node_id graph::view(node_id a, const shape& extents, const view_attribute& map) {
  expect_values("view", {a});
  view_attribute canonical{.offset = map.offset};
  checked_int low = map.offset, high = map.offset;
  for (int i = 0; i < extents.rank(); ++i) {
    if (extents[i] == 1) continue;
    canonical.strides[i] = map.strides[i];
    (map.strides[i] < 0 ? low : high) += checked_int(map.strides[i]) * (extents[i] - 1);
  }
  if (low < 0 || high >= nodes_[a].extents.elements()) {
    fail(error_category::invalid_argument, "view {} of {} as {}: reads elements {} to {} of {}; choose a smaller view",
         to_string(attribute(canonical)), to_string(nodes_[a].extents), to_string(extents), std::int64_t{low},
         std::int64_t{high}, nodes_[a].extents.elements());
  }
  if (extents == nodes_[a].extents && canonical == dense_view(extents)) return a;
  if (nodes_[a].kind == op::view) {  // view of a view: one view where the map stays affine
    view_attribute composed;
    if (compose(canonical, extents, get<view_attribute>(a), nodes_[a].extents, composed)) {
      return view(operand(a, 0), extents, composed);
    }
  }
  const node_id operands[] = {a};
  return add_node(op::view, nodes_[a].type, extents, canonical, operands);
}

MEGANEURA_INLINE node_id graph::reshape(node_id a, const shape& extents) {
  expect_values("reshape", {a});
  if (extents.elements() != nodes_[a].extents.elements()) {
    fail(error_category::invalid_argument, "reshape {} to {}: {} elements cannot become {}",
         to_string(nodes_[a].extents), to_string(extents), nodes_[a].extents.elements(), extents.elements());
  }
  return view(a, extents, dense_view(extents));
}

MEGANEURA_INLINE node_id graph::permute(node_id a, std::span<const int> axes) {
  expect_values("permute", {a});
  const shape from = nodes_[a].extents;
  const view_attribute dense = dense_view(from);
  shape extents;
  view_attribute map;
  std::uint32_t seen = 0;
  for (int axis : axes) {
    if (axis < 0 || axis >= from.rank() || (seen >> axis & 1)) break;
    seen |= 1u << axis;
    map.strides[extents.rank()] = dense.strides[axis];
    extents.push_back(from[axis]);
  }
  if (extents.rank() != from.rank() || static_cast<int>(axes.size()) != from.rank()) {
    fail(error_category::invalid_argument, "permute {} by ({}): each axis must be named exactly once", to_string(from),
         fmt::join(axes, ", "));
  }
  return view(a, extents, map);
}

MEGANEURA_INLINE node_id graph::slice(node_id a, int axis, std::int64_t start, std::int64_t count, std::int64_t step) {
  expect_values("slice", {a});
  shape extents = nodes_[a].extents;
  if (axis < 0 || axis >= extents.rank() || start < 0 || count < 1 || step < 1 ||
      start + checked_int(count - 1) * step >= extents[axis]) {
    fail(error_category::invalid_argument, "slice {} along axis {}: {} elements from {} by {} do not fit",
         to_string(extents), axis, count, start, step);
  }
  view_attribute map = dense_view(extents);
  map.offset = start * extents.stride(axis);
  map.strides[axis] *= step;
  extents.set(axis, count);
  return view(a, extents, map);
}

MEGANEURA_INLINE node_id graph::flip(node_id a, int axis) {
  expect_values("flip", {a});
  const shape& extents = nodes_[a].extents;
  if (axis < 0 || axis >= extents.rank()) {
    fail(error_category::invalid_argument, "flip {} along axis {}: there is no such axis", to_string(extents), axis);
  }
  view_attribute map = dense_view(extents);
  map.offset = map.strides[axis] * (extents[axis] - 1);
  map.strides[axis] = -map.strides[axis];
  return view(a, shape(extents), map);
}

MEGANEURA_INLINE node_id graph::expand(node_id a, const shape& extents) {
  expect_values("expand", {a});
  const shape from = nodes_[a].extents;
  const view_attribute dense = dense_view(from);
  view_attribute map;
  if (!detail::can_expand(from, extents)) {
    fail(error_category::invalid_argument, "expand {} to {}: trailing extents must be equal or 1", to_string(from),
         to_string(extents));
  }
  for (int i = 0; i < from.rank(); ++i) map.strides[i + extents.rank() - from.rank()] = dense.strides[i];
  return view(a, extents, map);
}

MEGANEURA_INLINE node_id graph::expand_axes(node_id a, const shape& extents, std::uint32_t new_axes) {
  expect_values("expand_axes", {a});
  const shape from = nodes_[a].extents;
  const view_attribute dense = dense_view(from);
  view_attribute map;
  int used = 0;
  bool fits = true;
  for (int i = 0; i < extents.rank(); ++i) {
    if (new_axes >> i & 1) continue;
    fits = fits && used < from.rank() && from[used] == extents[i];
    map.strides[i] = fits ? dense.strides[used] : 0;
    ++used;
  }
  if (!fits || used != from.rank()) {
    fail(error_category::invalid_argument,
         "expand_axes {} to {} (new axes {:#x}): the other extents must be the operand's", to_string(from),
         to_string(extents), new_axes);
  }
  return view(a, extents, map);
}

MEGANEURA_INLINE node_id graph::concat(std::span<const node_id> operands, int axis) {
  return apply(op::concat, axis_attribute{axis}, operands);
}

// ---- primitives by their rules
// ---------------------------------------------------------------------------------------

MEGANEURA_INLINE node_id graph::gather(node_id data, node_id indices, int axis) {
  return apply(op::gather, axis_attribute{axis}, {data, indices});
}

MEGANEURA_INLINE node_id graph::scatter_add(node_id indices, node_id updates, int axis, const shape& extents) {
  return apply(op::scatter_add, axis_attribute{axis}, {indices, updates}, extents);
}

MEGANEURA_INLINE node_id graph::convolution(node_id a, node_id b, const convolution_attribute& c,
                                            const shape& extents) {
  return apply(op::convolution, c, {a, b}, extents);
}

MEGANEURA_INLINE node_id graph::window_reduce(node_id a, const window_attribute& w) {
  return apply(op::window_reduce, w, {a});
}

MEGANEURA_INLINE node_id graph::window_scatter(std::span<const node_id> operands, const window_attribute& w,
                                               const shape& extents) {
  return apply(op::window_scatter, w, operands, extents);
}

MEGANEURA_INLINE node_id graph::stop_gradient(node_id a) { return apply(op::stop_gradient, no_attribute{}, {a}); }

// ---- helpers --------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE node_id graph::full(shape extents, double value, dtype type) {
  return expand(constant(value, type), extents);
}

MEGANEURA_INLINE node_id graph::full_like(node_id like, double value) {
  expect_values("full_like", {like});
  return full(shape(nodes_[like].extents), value, nodes_[like].type);
}

MEGANEURA_INLINE node_id graph::coordinates(shape extents, int axis) {
  if (axis < 0 || axis >= extents.rank()) {
    fail(error_category::invalid_argument, "coordinates of {} along axis {}: there is no such axis", to_string(extents),
         axis);
  }
  return expand_axes(iota(extents[axis]), extents, ((1u << extents.rank()) - 1) & ~(1u << axis));
}

}  // namespace meganeura::inline MEGANEURA_ABI
