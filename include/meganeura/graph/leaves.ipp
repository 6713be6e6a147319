// SPDX-License-Identifier: MIT
// Definitions for graph/graph.hpp: inputs, parameters, states, constants and what else reads nothing.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/graph/graph.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

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
    fail(error_category::invalid_argument, "{} \"{}\": bool tensors do not exist; use u8", to_string(kind), name);
  }
  expect_dtype(to_string(kind), type);
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
  if (begin && !before) replace_attribute(known, leaf_attribute{std::string(name), begin});
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
  expect_dtype("constant", type);
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

}  // namespace meganeura::inline MEGANEURA_ABI
