// SPDX-License-Identifier: MIT
// Building, checking and printing of graphs.
#pragma once
#include <meganeura/core/checked.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/hash.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/graph/visit_op.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace meganeura::inline MEGANEURA_ABI {

// ---- attribute pool -------------------------------------------------------------------------------------------------

MEGANEURA_INLINE attribute_pool::attribute_pool(const attribute_pool&) = default;
MEGANEURA_INLINE attribute_pool::attribute_pool(attribute_pool&&) noexcept = default;
MEGANEURA_INLINE attribute_pool& attribute_pool::operator=(const attribute_pool&) = default;
MEGANEURA_INLINE attribute_pool& attribute_pool::operator=(attribute_pool&&) noexcept = default;
MEGANEURA_INLINE attribute_pool::~attribute_pool() = default;
MEGANEURA_INLINE attribute_pool::attribute_pool() { intern(no_attribute{}); }

MEGANEURA_INLINE attribute_id attribute_pool::intern(attribute_ref value) {
  const std::uint64_t key = value.hash();
  const attribute_id known = ids_.find(key, [&](attribute_id id) { return value.equals(values_[id]); });
  if (known != no_id) return known;
  const auto id = static_cast<attribute_id>(values_.size());
  values_.push_back(value.copy());
  ids_.insert(key, id);
  return id;
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

namespace detail {
inline std::uint64_t node_key(op kind, dtype type, const shape& extents, attribute_id attribute,
                              std::span<const node_id> operands) {
  std::uint64_t key = hash_combine(static_cast<std::uint64_t>(kind) << 8 | static_cast<std::uint64_t>(type), attribute);
  for (std::int64_t extent : extents) key = hash_combine(key, static_cast<std::uint64_t>(extent));
  for (node_id operand : operands) key = hash_combine(key, operand);
  return key;
}
}  // namespace detail

MEGANEURA_INLINE node_id graph::add_node(op kind, dtype type, const shape& extents, attribute_ref value,
                                         std::span<const node_id> operands) {
  const attribute_id interned = attributes_.intern(value);
  const std::uint64_t key = detail::node_key(kind, type, extents, interned, operands);
  const node_id known = ids_.find(key, [&](node_id each) {
    const node& n = nodes_[each];
    return n.kind == kind && n.type == type && n.attribute == interned && n.extents == extents &&
           std::ranges::equal(this->operands(each), operands) && !is_dropped(each);
  });
  if (known != no_id) return known;
  const bool is_effect = info(kind).stage == op_stage::effect;
  if (is_effect) expect_unwritten(operands);
  const auto id = static_cast<node_id>(nodes_.size());
  nodes_.push_back({kind, type, extents, interned, static_cast<std::uint32_t>(operands_.size()),
                    static_cast<std::uint32_t>(operands.size()), path_});
  // `operands` may be a view into operands_ itself: copy before growing.
  const small_vector<node_id, 8> copy(operands.begin(), operands.end());
  operands_.insert(operands_.end(), copy.begin(), copy.end());
  ids_.insert(key, id);
  if (const auto* leaf = std::get_if<leaf_attribute>(&attributes_[interned])) {
    leaf_names_.insert(hash_string(leaf->name), id);
  }
  if (is_effect) {
    effects_.push_back(id);
    for (std::size_t i = 0; i < copy.size(); i += 2) writers_.emplace(copy[i], id);
  }
  return id;
}

MEGANEURA_INLINE void graph::expect_values(std::string_view asked, std::span<const node_id> operands) const {
  for (node_id operand : operands) {
    if (operand == no_id) {
      fail(error_category::invalid_argument,
           "{}: an operand is no node (no_id), as find_leaf and find_output give for a name that they do not know",
           asked);
    }
    if (operand >= size()) {
      fail(error_category::invalid_argument, "{}: operand %{} does not exist; the graph has {} nodes", asked, operand,
           size());
    }
    if (const op kind = nodes_[operand].kind; info(kind).stage == op_stage::effect) {
      fail(error_category::invalid_argument,
           "{}: operand %{} is an {}, which has no value; use what it reads, or the state or parameter that it writes",
           asked, operand, to_string(kind));
    }
  }
}

MEGANEURA_INLINE void graph::drop_effects() {
  effects_.clear();
  writers_.clear();
}

// An effect that drop_effects took away: it stays a node, which no new one is equal to.
MEGANEURA_INLINE bool graph::is_dropped(node_id id) const {
  if (info(nodes_[id].kind).stage != op_stage::effect) return false;
  const auto found = writers_.find(operands(id)[0]);
  return found == writers_.end() || found->second != id;
}

MEGANEURA_INLINE void graph::add_output(std::string_view name, node_id node) {
  expect_values(fmt::format("output \"{}\"", name), {node});
  if (name.empty()) fail(error_category::invalid_argument, "output \"\" of %{}: the name is empty; give it one", node);
  if (nodes_[node].type == dtype::boolean) {
    fail(error_category::invalid_argument, "output \"{}\" of %{}: it is bool, which is not stored; cast it to u32",
         name, node);
  }
  if (find_output(name) != no_id) {
    fail(error_category::invalid_argument, "output \"{}\" exists already; give it another name", name);
  }
  outputs_.push_back({std::string(name), node});
  output_names_.emplace(std::string(name), node);
}

MEGANEURA_INLINE void graph::tap(std::string_view name, node_id node) {
  expect_values(fmt::format("tap \"{}\"", name), {node});
  const auto [known, is_new] = tap_names_.emplace(std::string(name), node);
  if (is_new) {
    taps_.push_back({std::string(name), node});
  } else if (known->second != node) {
    fail(error_category::invalid_argument, "tap \"{}\" of %{}: %{} is tapped by that name; give it another one", name,
         node, known->second);
  }
}

MEGANEURA_INLINE void graph::expect_indices(index_range expected) {
  expect_values("expect_indices", {expected.indices});
  const bool known = std::ranges::any_of(index_ranges_, [&](const index_range& each) {
    return each.indices == expected.indices && each.count == expected.count && each.ignored == expected.ignored;
  });
  if (!known) index_ranges_.push_back(std::move(expected));
}

MEGANEURA_INLINE std::vector<node_id> graph::leaves(op kind) const {
  std::vector<node_id> found;
  for (node_id id{0}; id < size(); ++id) {
    if (nodes_[id].kind == kind) found.push_back(id);
  }
  return found;
}

MEGANEURA_INLINE node_id graph::find_leaf(std::string_view name) const {
  return leaf_names_.find(hash_string(name), [&](node_id id) { return get<leaf_attribute>(id).name == name; });
}

MEGANEURA_INLINE node_id graph::find_output(std::string_view name) const {
  const auto found = output_names_.find(name);
  return found == output_names_.end() ? no_id : found->second;
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

namespace detail {

inline void expect_dtype(std::string_view asked, dtype type) {
  if (exists(type)) return;
  std::string names;
  for (const dtype_info& row : dtype_table) {
    if (row.bits != 0) names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  fail(error_category::invalid_argument, "{}: dtype {} does not exist; use one of {}", asked, static_cast<int>(type),
       names);
}

inline shape leaf_shape(op kind, std::string_view name, std::initializer_list<std::int64_t> extents) try {
  return shape(extents);
} catch (const error& problem) {
  fail(problem.category(), "{} {}: {}", to_string(kind), quote(name), problem.what());
}

inline void expect_beginning(op kind, std::string_view name, dtype type, const shape& extents,
                             const initializer& begin) {
  const bool has_axes = begin.draw != initial_draw::orthogonal || extents.rank() >= 2;
  const bool can_draw = begin.draw == initial_draw::none || (is_float(type) && kind == op::parameter);
  if (!has_axes || !can_draw) {
    fail(error_category::invalid_argument, "{} {} {} {}: cannot begin as {}, which takes {}", to_string(kind),
         quote(name), to_string(type), to_string(extents), to_string(begin),
         can_draw ? "two axes or more" : "a parameter of floats; begin it as a constant");
  }
  expect_representable(fmt::format("{} {}", to_string(kind), quote(name)), begin.centre, type);
}

}  // namespace detail

MEGANEURA_INLINE node_id graph::leaf(op kind, std::string_view name, dtype type, const shape& extents,
                                     const beginning& begin) {
  if (name.empty()) {
    fail(error_category::invalid_argument, "{} \"\" {} {}: the name is empty; give it one", to_string(kind),
         to_string(type), to_string(extents));
  }
  if (type == dtype::boolean) {
    fail(error_category::invalid_argument, "{} \"{}\": bool tensors do not exist; use f32 or i32", to_string(kind),
         name);
  }
  detail::expect_dtype(to_string(kind), type);
  const node_id known = find_leaf(name);
  if (known != no_id &&
      (nodes_[known].kind != kind || nodes_[known].type != type || nodes_[known].extents != extents)) {
    fail(error_category::invalid_argument, "{} \"{}\" {} {}: the name is taken by a {} {} {}; choose another name",
         to_string(kind), name, to_string(type), to_string(extents), to_string(nodes_[known].kind),
         to_string(nodes_[known].type), to_string(nodes_[known].extents));
  }
  if (begin) detail::expect_beginning(kind, name, type, extents, *begin);
  if (known == no_id) return add_node(kind, type, extents, leaf_attribute{std::string(name), begin}, {});
  const beginning before = get<leaf_attribute>(known).begin;
  if (begin && before && *begin != *before) {
    fail(error_category::invalid_argument, "{} {}: begins as {} and was said to begin as {}; say one", to_string(kind),
         quote(name), to_string(*begin), to_string(*before));
  }
  if (begin && !before) {
    nodes_[known].attribute = attributes_.intern(leaf_attribute{std::string(name), begin});
    ids_.insert(detail::node_key(kind, type, extents, nodes_[known].attribute, {}), known);
  }
  return known;
}

MEGANEURA_INLINE node_id graph::input(std::string_view name, dtype type, const shape& extents) {
  if (const node_id known = find_leaf(name); known != no_id && nodes_[known].kind == op::input) {
    fail(error_category::invalid_argument,
         "input \"{}\" {} {}: there is an input of that name, {} {}; choose another name, or use find_leaf(\"{}\")",
         name, to_string(type), to_string(extents), to_string(nodes_[known].type), to_string(nodes_[known].extents),
         name);
  }
  return leaf(op::input, name, type, extents);
}
MEGANEURA_INLINE node_id graph::parameter(std::string_view name, dtype type, const shape& extents, beginning begin) {
  return leaf(op::parameter, name, type, extents, begin);
}
MEGANEURA_INLINE node_id graph::state(std::string_view name, dtype type, const shape& extents, beginning begin) {
  return leaf(op::state, name, type, extents, begin);
}
MEGANEURA_INLINE node_id graph::input(std::string_view name, dtype type, extent_list extents) {
  return input(name, type, detail::leaf_shape(op::input, name, extents));
}
MEGANEURA_INLINE node_id graph::parameter(std::string_view name, dtype type, extent_list extents, beginning begin) {
  return parameter(name, type, detail::leaf_shape(op::parameter, name, extents), begin);
}
MEGANEURA_INLINE node_id graph::state(std::string_view name, dtype type, extent_list extents, beginning begin) {
  return state(name, type, detail::leaf_shape(op::state, name, extents), begin);
}
MEGANEURA_INLINE node_id graph::constant(double value, dtype type) {
  detail::expect_dtype("constant", type);
  expect_representable("constant", value, type);
  return add_node(op::constant, type, {}, constant_attribute{rounded_to(value, type)}, {});
}
MEGANEURA_INLINE node_id graph::iota(std::int64_t count) {
  if (count > std::int64_t{1} << 31) {
    fail(error_category::invalid_argument, "iota of {}: i32 counts to 2^31 only", count);
  }
  return add_node(op::iota, dtype::i32, {count}, no_attribute{}, {});
}
MEGANEURA_INLINE node_id graph::random(std::string_view stream, distribution kind, const shape& extents) {
  if (kind != distribution::uniform && kind != distribution::normal) {
    fail(error_category::invalid_argument, "random \"{}\": distribution {} does not exist; use uniform or normal",
         stream, static_cast<int>(kind));
  }
  return add_node(op::random, dtype::f32, extents, random_attribute{std::string(stream), kind}, {});
}

// ---- map, reduce, contract ------------------------------------------------------------------------------------------

MEGANEURA_INLINE node_id graph::map(const scalar_program& program, std::span<const node_id> operands, dtype result) {
  expect_values("map", operands);
  detail::expect_dtype("map", result);
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
  detail::expect_dtype("cast", type);
  const dtype from = nodes_[a].type;
  if (from == type) return a;
  scalar_builder builder;
  const node_id operands[] = {a};
  return map(builder.finish(builder.convert(builder.argument(0, from), type)), operands, type);
}

MEGANEURA_INLINE node_id graph::reduce(reduce_kind kind, node_id a, std::uint32_t axes) {
  return apply(op::reduce, reduce_attribute{kind, axes}, {a});
}

MEGANEURA_INLINE node_id graph::contract(node_id a, node_id b, const contract_attribute& labels) {
  return apply(op::contract, labels, {a, b});
}

// ---- views ----------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE view_attribute dense_view(const shape& extents) {
  view_attribute map;
  std::int64_t stride = 1;
  for (int i = extents.rank(); i-- > 0;) {
    map.strides[i] = extents[i] == 1 ? 0 : stride;
    stride *= extents[i];
  }
  return map;
}

namespace detail {

// Splits a flat stride of the middle tensor into index steps along its axes; steps may be negative (a flip).
inline bool decompose(std::int64_t stride, const shape& middle, std::int64_t (&steps)[max_rank]) {
  const std::int64_t sign = stride < 0 ? -1 : 1;
  stride *= sign;
  for (int i = 0; i < middle.rank(); ++i) {
    const std::int64_t unit = middle.stride(i);
    steps[i] = middle[i] == 1 ? 0 : sign * (stride / unit);
    if (middle[i] != 1) stride %= unit;
  }
  return stride == 0;
}

}  // namespace detail

MEGANEURA_INLINE bool compose(const view_attribute& outer, const shape& outer_extents, const view_attribute& inner,
                              const shape& middle, view_attribute& result) {
  // The index along each middle axis must stay affine and in range: start + sum step * i, within [0, extent).
  std::int64_t start[max_rank]{}, low[max_rank]{}, high[max_rank]{};
  if (!detail::decompose(outer.offset, middle, start)) return false;
  result = {.offset = inner.offset};
  for (int axis = 0; axis < middle.rank(); ++axis) {
    result.offset += start[axis] * inner.strides[axis];
    low[axis] = high[axis] = start[axis];
  }
  for (int k = 0; k < outer_extents.rank(); ++k) {
    std::int64_t steps[max_rank]{};
    if (!detail::decompose(outer.strides[k], middle, steps)) return false;
    for (int axis = 0; axis < middle.rank(); ++axis) {
      const std::int64_t reach = steps[axis] * (outer_extents[k] - 1);
      (reach < 0 ? low : high)[axis] += reach;
      result.strides[k] += steps[axis] * inner.strides[axis];
    }
  }
  for (int axis = 0; axis < middle.rank(); ++axis) {
    if (low[axis] < 0 || high[axis] >= middle[axis]) return false;
  }
  return true;
}

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

// ---- effects --------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE void graph::expect_unwritten(std::span<const node_id> operands) const {
  for (std::size_t i = 0; i < operands.size(); i += 2) {
    const auto found = writers_.find(operands[i]);
    if (found == writers_.end()) continue;
    fail(error_category::invalid_argument,
         "{} \"{}\" is written by %{} already, and a step writes it once; combine the two",
         to_string(nodes_[operands[i]].kind), get<leaf_attribute>(operands[i]).name, found->second);
  }
}

MEGANEURA_INLINE node_id graph::assign(node_id state, node_id value) {
  expect_values("assign", {state, value});
  if (nodes_[state].kind != op::state || nodes_[state].extents != nodes_[value].extents ||
      nodes_[state].type != nodes_[value].type) {
    fail(error_category::invalid_argument,
         "assign {} {} {}: the target must be a state of the value's dtype and shape {} {}",
         to_string(nodes_[state].kind), to_string(nodes_[state].type), to_string(nodes_[state].extents),
         to_string(nodes_[value].type), to_string(nodes_[value].extents));
  }
  const node_id operands[] = {state, value};
  return add_node(op::assign, nodes_[state].type, {}, no_attribute{}, operands);
}

namespace detail {

inline void check_rule(const optimizer_attribute& rule) {
  check_program(rule.program);
  const std::size_t results = rule.moments.size() + 1, tensors = results + 1;
  if (rule.results.size() != results) {
    fail(error_category::invalid_argument,
         "optimizer_step: {} keeps {} moments and its program makes {} values; it has to make the new parameter and "
         "each new moment",
         rule.name, rule.moments.size(), rule.results.size());
  }
  const std::span<const scalar_node> nodes = rule.program.nodes;
  for (scalar_ref result : rule.results) {
    if (result < nodes.size() && nodes[result].type == dtype::f32) continue;
    fail(error_category::invalid_argument, "optimizer_step: {} names node {} of its program, which is no f32 value",
         rule.name, result);
  }
  for (const scalar_node& node : nodes) {
    if (is_row_reduction(node.op)) {
      fail(error_category::invalid_argument, "optimizer_step: {} has a {}; its program sees one element at a time",
           rule.name, info(node.op).name);
    }
    if (node.op != scalar_op::argument) continue;
    if (node.type == dtype::f32 && node.value < static_cast<double>(tensors + max_optimizer_numbers)) continue;
    fail(error_category::invalid_argument,
         "optimizer_step: {} reads argument {} as {}; there are parameter, gradient, {} moments and {} numbers of the "
         "step, all f32",
         rule.name, node.value, to_string(node.type), rule.moments.size(), max_optimizer_numbers);
  }
}

}  // namespace detail

MEGANEURA_INLINE node_id graph::optimizer_step(const optimizer_attribute& rule,
                                               std::span<const node_id> parameters_and_gradients) {
  expect_values("optimizer_step", parameters_and_gradients);
  if (parameters_and_gradients.empty()) {
    fail(error_category::invalid_argument,
         "optimizer_step: there is nothing to update; give pairs of a parameter and its gradient");
  }
  if (parameters_and_gradients.size() % 2 != 0) {
    fail(error_category::invalid_argument,
         "optimizer_step: operands must be pairs of a parameter and its gradient; found {}",
         parameters_and_gradients.size());
  }
  for (std::size_t i = 0; i < parameters_and_gradients.size(); i += 2) {
    const node &parameter = nodes_[parameters_and_gradients[i]], &gradient = nodes_[parameters_and_gradients[i + 1]];
    if (parameter.kind == op::parameter && parameter.extents == gradient.extents && parameter.type == dtype::f32 &&
        gradient.type == dtype::f32) {
      continue;
    }
    fail(error_category::invalid_argument, "optimizer_step: operand {} must be an f32 parameter and {} its gradient", i,
         i + 1);
  }
  std::unordered_map<node_id, std::size_t> places;
  for (std::size_t i = 0; i < parameters_and_gradients.size(); i += 2) {
    const auto [first, fresh] = places.emplace(parameters_and_gradients[i], i);
    if (fresh) continue;
    fail(error_category::invalid_argument,
         "optimizer_step: operands {} and {} are one parameter, \"{}\"; add its gradients", first->second, i,
         get<leaf_attribute>(first->first).name);
  }
  detail::check_rule(rule);
  return add_node(op::optimizer_step, dtype::f32, {}, rule, parameters_and_gradients);
}

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

MEGANEURA_INLINE std::vector<tensor_type> graph::results(node_id id) const {
  std::vector<tensor_type> all = {{nodes_[id].type, nodes_[id].extents}};
  if (const auto* region = std::get_if<region_attribute>(&attribute_of(id))) {
    for (const further_result& each : region->further) all.push_back({each.type, each.extents});
  }
  return all;
}

MEGANEURA_INLINE std::vector<bool> graph::pullbacks() const {
  const auto followed = [&](node_id id) {
    return operands(id).first(nodes_[id].kind == op::custom_gradient ? 1 : nodes_[id].operand_count);
  };
  std::vector<bool> left_out(size(), false), read(size(), false), needed(size(), false);
  for (node_id id{0}; id < size(); ++id) {
    left_out[id] = nodes_[id].kind == op::adjoint ||
                   std::ranges::any_of(followed(id), [&](node_id from) { return left_out[from]; });
    for (node_id from : operands(id)) read[from] = true;
  }
  for (const graph_output& output : outputs_) needed[output.node] = true;
  for (node_id effect : effects_) needed[effect] = true;
  for (node_id id = static_cast<node_id>(size()); id-- > 0;) {
    left_out[id] = !needed[id] && (read[id] || left_out[id]);
    if (left_out[id]) continue;
    for (node_id from : followed(id)) needed[from] = true;
  }
  return left_out;
}

MEGANEURA_INLINE double graph::flops() const {
  const std::vector<bool> left_out = pullbacks();
  double total = 0;
  for (node_id id{0}; id < size(); ++id) total += left_out[id] ? 0.0 : flops(id);
  return total;
}

MEGANEURA_INLINE double graph::flops(node_id id) const {
  const node& n = nodes_[id];
  if (n.kind == op::map) {
    const auto counts = [](const scalar_node& each) { return info(each.op).arity > 0 && each.type != dtype::boolean; };
    return static_cast<double>(n.extents.elements() *
                               std::ranges::count_if(get<map_attribute>(id).program.nodes, counts));
  }
  return visit_op(n.kind, [&]<op Kind> {
    if constexpr (detail::has_flops<Kind>) {
      symbolic_shape from[2];
      for (std::size_t i = 0; i < n.operand_count; ++i) from[i] = nodes_[operand(id, i)].extents;
      const auto extent = [](const dim& each) { return static_cast<double>(each.coefficient); };
      using traits = detail::primitive_traits<Kind>;
      return traits::flops(get<typename traits::attribute_type>(id), from, n.extents, extent);
    }
    return 0.0;
  });
}

// ---- printing, pruning ----------------------------------------------------------------------------------------------

MEGANEURA_INLINE std::string to_text(const graph& g) {
  std::string text;
  for (node_id id{0}; id < g.size(); ++id) {
    std::string operands;
    for (node_id operand : g.operands(id)) operands += fmt::format("{}%{}", operands.empty() ? "" : ", ", operand);
    const std::string path = g.path_of(id);
    text +=
        fmt::format("%{} = {} {}{} ({}) {}{}{}\n", id, to_string(g[id].kind), to_string(g[id].type),
                    to_string(g[id].extents), operands, to_string(g.attribute_of(id)), path.empty() ? "" : " @ ", path);
  }
  for (const graph_output& output : g.outputs()) text += fmt::format("output \"{}\" = %{}\n", output.name, output.node);
  return text;
}

namespace detail {

inline std::string dot_quoted(const std::string& text) {
  std::string result;
  for (char character : text) {
    if (character == '"' || character == '\\') result += '\\';
    result += character;
  }
  return result;
}

// The nodes of one module, then the modules inside of it, each a cluster; those without any node are left out.
inline std::string dot_nodes(const graph& g, const std::vector<std::vector<node_id>>& nodes_of, path_id path) {
  std::string text;
  for (node_id id : nodes_of[path]) {
    text += fmt::format("  n{} [label=\"{} {}{}\\n{}\"];\n", id, to_string(g[id].kind), to_string(g[id].type),
                        to_string(g[id].extents), dot_quoted(to_string(g.attribute_of(id))));
  }
  for (path_id child : g.paths().children(path)) text += dot_nodes(g, nodes_of, child);
  if (text.empty() || path == path_pool::root) return text;
  return fmt::format("  subgraph cluster_{} {{\n  label=\"{}\";\n{}  }}\n", path, dot_quoted(g.paths().text(path)),
                     text);
}

}  // namespace detail

MEGANEURA_INLINE std::string to_dot(const graph& g) {
  std::string text = "digraph meganeura {\n  node [shape=box, fontname=monospace];\n";
  std::vector<std::vector<node_id>> nodes_of(g.paths().size());
  for (node_id id{0}; id < g.size(); ++id) nodes_of[g[id].path].push_back(id);
  text += detail::dot_nodes(g, nodes_of, path_pool::root);
  text += detail::dot_nodes(g, nodes_of, path_pool::backward(path_pool::root));
  for (node_id id{0}; id < g.size(); ++id) {
    for (node_id operand : g.operands(id)) text += fmt::format("  n{} -> n{};\n", operand, id);
  }
  for (std::size_t i = 0; i < g.outputs().size(); ++i) {
    text += fmt::format("  out{} [label=\"{}\", shape=ellipse];\n  n{} -> out{};\n", i,
                        detail::dot_quoted(g.outputs()[i].name), g.outputs()[i].node, i);
  }
  return text + "}\n";
}

MEGANEURA_INLINE graph pruned(const graph& g) {
  std::vector<bool> needed(g.size(), false);
  for (const graph_output& output : g.outputs()) needed[output.node] = true;
  for (node_id effect : g.effects()) needed[effect] = true;
  for (node_id id = static_cast<node_id>(g.size()); id-- > 0;) {
    if (!needed[id]) continue;
    for (node_id operand : g.operands(id)) needed[operand] = true;
  }
  graph result(g.paths());
  std::vector<node_id> copies(g.size(), no_id);
  for (node_id id{0}; id < g.size(); ++id) {
    if (!needed[id]) continue;
    small_vector<node_id, 8> operands;
    for (node_id operand : g.operands(id)) operands.push_back(copies[operand]);
    const graph::scope in(result, g[id].path);
    copies[id] = result.add_node(g[id].kind, g[id].type, g[id].extents, g.attribute_of(id), operands);
  }
  for (const graph_output& output : g.outputs()) result.add_output(output.name, copies[output.node]);
  for (index_range range : g.index_ranges()) {
    range.indices = copies[range.indices];
    if (range.indices != no_id) result.expect_indices(std::move(range));
  }
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI

#include <meganeura/graph/primitive_rules.hpp>
