// SPDX-License-Identifier: MIT
// What each primitive demands of its operands and what its result is, other than of maps and views.
#pragma once
#include <meganeura/core/checked.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/graph/visit_op.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::detail {

/// `build` checks the operands, as many as op_info says, and adds the node; `extents` are those of the result where
/// they do not follow from the operands. Written out for primitives of which their traits do not say enough.
/// errors: invalid_argument.
template <op Kind>
struct primitive_rule {
  using traits = primitive_traits<Kind>;
  static node_id build(graph& g, std::span<const node_id> operands, const typename traits::attribute_type& value,
                       const shape&) {
    g.expect_values(to_string(Kind), operands);
    std::vector<tensor_facts> from;
    for (node_id operand : operands) from.push_back({g[operand].type, g[operand].extents});
    if (const char* rule = traits::refuses(value, from.data())) {
      std::string found;
      for (node_id operand : operands) {
        found += fmt::format("{}{} {}", found.empty() ? "" : " and ", to_string(g[operand].type),
                             to_string(g[operand].extents));
      }
      fail(error_category::invalid_argument, "{} {} of {}: {}", to_string(Kind), to_string(attribute(value)), found,
           rule);
    }
    const tensor_facts made = traits::result(value, from.data());
    return g.add_node(Kind, made.type, numeric(made.shape), value, operands);
  }
};

template <>
struct primitive_rule<op::reduce> {
  static node_id build(graph& g, std::span<const node_id> operands, const reduce_attribute& rule, const shape&) {
    const node_id a = operands[0];
    g.expect_values("reduce", {a});
    const node& operand = g[a];
    if (!info(rule.kind).exists) {
      fail(error_category::invalid_argument, "reduce of {}: kind {} does not exist; use one of reduce_kind's",
           to_string(operand.extents), static_cast<int>(rule.kind));
    }
    if (rule.axes >> operand.extents.rank()) {
      fail(error_category::invalid_argument, "reduce over axes (mask {:#x}) of {}: there is no such axis", rule.axes,
           to_string(operand.extents));
    }
    const bool sums = rule.kind == reduce_kind::sum || rule.kind == reduce_kind::product;
    if (sums && !holds_sums(operand.type)) {
      fail(error_category::invalid_argument, "{} of {}{}: that does not hold sums; cast it", info(rule.kind).name,
           to_string(operand.type), to_string(operand.extents));
    }
    if (rule.axes == 0) return is_arg(rule.kind) ? g.full(shape(operand.extents), 0, dtype::i32) : a;
    const shape result = numeric(reduced_shape(operand.extents, rule.axes));
    const dtype type = is_arg(rule.kind) ? dtype::i32 : operand.type;
    return g.add_node(op::reduce, type, result, rule, operands);
  }
};

// `letters`: how a sentence calls each label.
inline node_id build_contract(graph& g, node_id a, node_id b, const contract_attribute& labels,
                              std::string_view letters) {
  const node_id operands[] = {a, b};
  const auto name_of = [&](int label) {
    return static_cast<std::size_t>(label) < letters.size() ? letters[static_cast<std::size_t>(label)] : '?';
  };
  const auto refuse = [&](const std::string& rule) {
    const auto term = [&](const std::uint8_t(&of)[max_rank], node_id operand) {
      std::string text;
      for (int i = 0; i < g[operand].extents.rank(); ++i) text += name_of(of[i]);
      return text;
    };
    fail(error_category::invalid_argument, "contract \"{},{}->{}\" of {} and {}: {}", term(labels.a, a),
         term(labels.b, b), letters.substr(0, static_cast<std::size_t>(std::clamp(labels.result_rank, 0, max_labels))),
         to_string(g[a].extents), to_string(g[b].extents), rule);
  };
  const contraction rule = contract_rule(labels, g[a].extents, g[b].extents);
  const std::int64_t in_a = rule.left.coefficient, in_b = rule.right.coefficient;
  const char name = name_of(rule.label);
  switch (rule.fault) {
    case contraction::none:
      break;
    case contraction::result_rank:
      refuse("the result has too many or too few labels");
      break;
    case contraction::range:
      refuse("labels must be below 16, twice the largest rank");
      break;
    case contraction::twice:
      refuse(fmt::format("label {} may stand only once in a term; take a diagonal first", name));
      break;
    case contraction::extents:
      refuse(fmt::format("extents of one label must agree; {} is {} in the one and {} in the other", name, in_a, in_b));
      break;
    case contraction::nowhere:
      refuse(fmt::format("label {} of the result is in no operand", name));
      break;
    case contraction::one_sided:
      refuse(fmt::format("label {} ({}) is summed over one operand alone; reduce it first", name, in_a ? in_a : in_b));
      break;
  }
  if (g[a].type != g[b].type || !is_float(g[a].type)) {
    refuse("operands must be floats of one type; cast one of them");
  }
  return g.add_node(op::contract, g[a].type, numeric(rule.result), labels, operands);
}

template <>
struct primitive_rule<op::contract> {
  static node_id build(graph& g, std::span<const node_id> operands, const contract_attribute& labels, const shape&) {
    g.expect_values("contract", operands);
    return build_contract(g, operands[0], operands[1], labels, "abcdefghijklmnop");
  }
};

[[noreturn]] inline void refuse_pad(const shape& extents) {
  fail(error_category::invalid_argument, "pad {}: needs a non-negative border for each axis; use slice to cut",
       to_string(extents));
}

template <>
struct primitive_rule<op::pad> {
  static node_id build(graph& g, std::span<const node_id> operands, const pad_attribute& border, const shape&) {
    const node_id a = operands[0];
    g.expect_values("pad", operands);
    const dtype type = g[a].type;
    expect_representable("pad", border.value, type);
    shape padded = g[a].extents;
    bool fits = true, any = false;
    for (int i = 0; fits && i < padded.rank(); ++i) {
      fits = border.low[i] >= 0 && border.high[i] >= 0;
      any = any || border.low[i] || border.high[i];
      if (fits) padded.set(i, checked_int(padded[i]) + border.low[i] + border.high[i]);
    }
    if (!fits) refuse_pad(g[a].extents);
    pad_attribute stored = border;
    stored.value = rounded_to(border.value, type);
    return any ? g.add_node(op::pad, type, padded, stored, operands) : a;
  }
};

template <>
struct primitive_rule<op::concat> {
  static node_id build(graph& g, std::span<const node_id> operands, const axis_attribute& along, const shape&) {
    const int axis = along.axis;
    g.expect_values("concat", operands);
    if (operands.empty()) fail(error_category::invalid_argument, "concat: needs at least one operand");
    shape whole = g[operands[0]].extents;
    for (std::size_t i = 1; i < operands.size(); ++i) {
      const symbolic_shape left = whole, right = g[operands[i]].extents;
      if (!can_concat(left, right, axis) || g[operands[i]].type != g[operands[0]].type) {
        fail(error_category::invalid_argument,
             "concat along axis {}: {} and {} must agree in dtype and all other extents", axis, to_string(whole),
             to_string(g[operands[i]].extents));
      }
      whole = numeric(concat_shape(left, right, axis));
    }
    return operands.size() == 1 ? operands[0] : g.add_node(op::concat, g[operands[0]].type, whole, along, operands);
  }
};

template <>
struct primitive_rule<op::gather> {
  static node_id build(graph& g, std::span<const node_id> operands, const axis_attribute& along, const shape&) {
    const node_id data = operands[0], indices = operands[1];
    const int axis = along.axis;
    g.expect_values("gather", {data, indices});
    const shape &from = g[data].extents, &at = g[indices].extents;
    if (!can_gather(from, at, axis) || g[indices].type != dtype::i32) {
      fail(error_category::invalid_argument,
           "gather from {} along axis {} by {} {}: needs an existing axis and i32 indices", to_string(from), axis,
           to_string(g[indices].type), to_string(at));
    }
    const auto* named = std::get_if<leaf_attribute>(&g.attribute_of(data));
    g.expect_indices({indices,
                      from[axis],
                      {},
                      fmt::format("gather from {}{} has {} rows", named ? '"' + named->name + "\" " : std::string(),
                                  to_string(from), from[axis])});
    const symbolic_shape result = gathered_shape(from, at, axis);
    return g.add_node(op::gather, g[data].type, numeric(result), along, operands);
  }
};

// What scatter_add and index_add have in common: updates of the shape that gather would return.
inline void expect_updates(graph& g, op kind, const shape& whole, int axis, node_id indices, node_id updates) {
  const shape& at = g[indices].extents;
  const symbolic_shape rows = at, table = whole;
  if (!can_gather(table, rows, axis) || g[indices].type != dtype::i32 ||
      gathered_shape(table, rows, axis) != symbolic_shape(g[updates].extents)) {
    fail(error_category::invalid_argument,
         "{} of {} into {} along axis {} by {} {}: updates must have the shape gather would return", to_string(kind),
         to_string(g[updates].extents), to_string(whole), axis, to_string(g[indices].type), to_string(at));
  }
  g.expect_indices({indices,
                    whole[axis],
                    {},
                    fmt::format("{} into {} has {} rows", to_string(kind), to_string(whole), whole[axis])});
}

template <>
struct primitive_rule<op::scatter_add> {
  static node_id build(graph& g, std::span<const node_id> operands, const axis_attribute& along, const shape& extents) {
    g.expect_values("scatter_add", operands);
    expect_updates(g, op::scatter_add, extents, along.axis, operands[0], operands[1]);
    return g.add_node(op::scatter_add, g[operands[1]].type, extents, along, operands);
  }
};

template <>
struct primitive_rule<op::index_add> {
  static node_id build(graph& g, std::span<const node_id> operands, const axis_attribute& along, const shape&) {
    const node_id x = operands[0], updates = operands[2];
    g.expect_values("index_add", operands);
    expect_updates(g, op::index_add, g[x].extents, along.axis, operands[1], updates);
    if (g[x].type != g[updates].type) {
      fail(error_category::invalid_argument, "index_add of {} {} into {} {}: dtypes must agree; cast the updates",
           to_string(g[updates].type), to_string(g[updates].extents), to_string(g[x].type), to_string(g[x].extents));
    }
    return g.add_node(op::index_add, g[x].type, shape(g[x].extents), along, operands);
  }
};

template <>
struct primitive_rule<op::take_along> {
  static node_id build(graph& g, std::span<const node_id> operands, const axis_attribute& along, const shape&) {
    const node_id data = operands[0], indices = operands[1];
    g.expect_values("take_along", operands);
    const shape &from = g[data].extents, &at = g[indices].extents;
    if (!can_take_along(from, at, along.axis) || g[indices].type != dtype::i32) {
      fail(error_category::invalid_argument,
           "take_along of {} along axis {} by {} {}: needs an existing axis and i32 indices with all other extents of "
           "the first",
           to_string(from), along.axis, to_string(g[indices].type), to_string(at));
    }
    g.expect_indices(
        {indices,
         from[along.axis],
         {},
         fmt::format("take_along of {} has {} places along axis {}", to_string(from), from[along.axis], along.axis)});
    return g.add_node(op::take_along, g[data].type, shape(at), along, operands);
  }
};

template <>
struct primitive_rule<op::scatter_along> {
  static node_id build(graph& g, std::span<const node_id> operands, const scatter_attribute& how,
                       const shape& extents) {
    const node_id indices = operands[0], updates = operands[1];
    g.expect_values("scatter_along", operands);
    const shape& at = g[indices].extents;
    const dtype type = g[updates].type;
    const bool known = how.kind == reduce_kind::sum || (how.kind == reduce_kind::max && is_integer(type));
    if (!can_take_along(extents, at, how.axis) || g[indices].type != dtype::i32 || g[updates].extents != at || !known) {
      fail(
          error_category::invalid_argument,
          "scatter_along {} of {} {} into {} by {} {}: updates must have the indices' shape, which is the result's but "
          "for the axis, the indices must be i32, and the kind is sum or, of integers, max",
          to_string(attribute(how)), to_string(type), to_string(g[updates].extents), to_string(extents),
          to_string(g[indices].type), to_string(at));
    }
    g.expect_indices({indices,
                      extents[how.axis],
                      {},
                      fmt::format("scatter_along into {} has {} places along axis {}", to_string(extents),
                                  extents[how.axis], how.axis)});
    return g.add_node(op::scatter_along, type, extents, how, operands);
  }
};

// What narrow and update_rows have in common: `rows` rows of `whole` from a position on.
inline void expect_rows(graph& g, op kind, const shape& whole, const shape& rows, int axis, node_id position) {
  const node& at = g[position];
  if (!are_rows_of(whole, rows, axis) || at.type != dtype::i32 || at.extents.rank() != 0) {
    fail(error_category::invalid_argument,
         "{} of {} along axis {} by rows {} from {} {} on: the rows must have the other extents of the first and at "
         "most as many rows, and the position must be one i32",
         to_string(kind), to_string(whole), axis, to_string(rows), to_string(at.type), to_string(at.extents));
  }
  const std::int64_t places = whole[axis] - rows[axis] + 1;
  g.expect_indices(
      {position,
       places,
       {},
       fmt::format("{} takes {} of the {} rows of {}", to_string(kind), rows[axis], whole[axis], to_string(whole))});
}

template <>
struct primitive_rule<op::narrow> {
  static node_id build(graph& g, std::span<const node_id> operands, const axis_attribute& along, const shape& extents) {
    const node_id data = operands[0], position = operands[1];
    g.expect_values("narrow", operands);
    expect_rows(g, op::narrow, g[data].extents, extents, along.axis, position);
    return g.add_node(op::narrow, g[data].type, extents, along, operands);
  }
};

template <>
struct primitive_rule<op::update_rows> {
  static node_id build(graph& g, std::span<const node_id> operands, const axis_attribute& along, const shape&) {
    const node_id x = operands[0], rows = operands[1], position = operands[2];
    g.expect_values("update_rows", operands);
    expect_rows(g, op::update_rows, g[x].extents, g[rows].extents, along.axis, position);
    if (g[x].type != g[rows].type) {
      fail(error_category::invalid_argument, "update_rows of {} {} by {} {}: dtypes must agree; cast the rows",
           to_string(g[x].type), to_string(g[x].extents), to_string(g[rows].type), to_string(g[rows].extents));
    }
    return g.add_node(op::update_rows, g[x].type, shape(g[x].extents), along, operands);
  }
};

inline void expect_countable(const char* what, int axis, std::int64_t value) {
  if (value <= max_places) return;
  fail(error_category::invalid_argument,
       "the {} along spatial axis {} is {}, and places along an axis are counted up to {}: choose a smaller one", what,
       axis, value, max_places);
}

inline void expect_countable(int axis, const window_axis& w) {
  if (w.window < 1 || w.dilation < 1 || w.stride < 1 || w.pad_low < 0 || w.pad_high < 0) return;
  expect_countable("window", axis, w.window);
  expect_countable("dilation", axis, w.dilation);
  expect_countable("stride", axis, w.stride);
  expect_countable("low padding", axis, w.pad_low);
  expect_countable("high padding", axis, w.pad_high);
  expect_countable("dilated window", axis, w.reach());
  expect_countable("padded extent", axis, w.padded());
}

inline bool convolution_fits(const convolution_attribute& c, const shape& x, const shape& w, const shape& y) {
  if (c.per_image) {
    const bool is_known = c.form == convolution_attribute::filter && x.rank() > 1 && y.rank() > 1 && x[0] == y[0];
    return is_known && convolution_fits(images_as_groups(c, x[0]), images_as_groups(x), w, images_as_groups(y));
  }
  for (int i = 0; i < std::clamp(c.spatial, 0, std::min({max_spatial, x.rank() - 2, w.rank() - 2})); ++i) {
    expect_countable(i, {x[i + 2], w[i + 2], c.dilation[i], c.stride[i], c.pad_low[i], c.pad_high[i]});
  }
  return y.rank() > 0 && convolution_shape(c, x, w) == symbolic_shape(y);
}

// Of rank 0 where a window does not fit into the padded operand.
inline symbolic_shape checked_window_shape(const window_attribute& w, const shape& x) {
  for (int i = 0; i < w.spatial && w.spatial <= std::min(max_spatial, x.rank()); ++i) {
    expect_countable(i, {x[x.rank() - w.spatial + i], w.window[i], 1, w.stride[i], w.pad_low[i], w.pad_high[i]});
  }
  return window_shape(w, x);
}

template <>
struct primitive_rule<op::convolution> {
  static node_id build(graph& g, std::span<const node_id> operands, const convolution_attribute& c,
                       const shape& extents) {
    const node_id a = operands[0], b = operands[1];
    g.expect_values("convolution", {a, b});
    if (c.form > convolution_attribute::filter) {
      fail(error_category::invalid_argument, "convolution: form {} does not exist; use output, input or filter",
           static_cast<int>(c.form));
    }
    const shape &first = g[a].extents, &second = g[b].extents;
    if (g[a].type != g[b].type || !is_float(g[a].type)) {
      fail(error_category::invalid_argument,
           "convolution of {} {} and {} {}: both must be floats of one dtype; cast them", to_string(g[a].type),
           to_string(first), to_string(g[b].type), to_string(second));
    }
    if (!is_geometry(c)) {
      fail(error_category::invalid_argument,
           "convolution {}: it has 1 to {} spatial axes, and stride, dilation and groups are at least 1, padding 0",
           to_string(attribute(c)), max_spatial);
    }
    const bool fits = c.form == convolution_attribute::output  ? convolution_fits(c, first, second, extents)
                      : c.form == convolution_attribute::input ? convolution_fits(c, extents, second, first)
                                                               : convolution_fits(c, first, extents, second);
    if (!fits) {
      fail(error_category::invalid_argument,
           "convolution {} of {} and {} giving {}: shapes must be x [n, c, in..], w [o, c / groups, k..], y [n, o, "
           "out..]",
           to_string(attribute(c)), to_string(first), to_string(second), to_string(extents));
    }
    return g.add_node(op::convolution, g[a].type, extents, c, operands);
  }
};

template <>
struct primitive_rule<op::window_reduce> {
  static node_id build(graph& g, std::span<const node_id> operands, const window_attribute& w, const shape&) {
    const node_id a = operands[0];
    g.expect_values("window_reduce", {a});
    const shape& x = g[a].extents;
    if (w.kind != reduce_kind::max && w.kind != reduce_kind::sum) {
      fail(error_category::invalid_argument, "window_reduce {} of {}: the kind must be max or sum",
           to_string(attribute(w)), to_string(x));
    }
    const symbolic_shape y = checked_window_shape(w, x);
    if (y.rank == 0) {
      fail(error_category::invalid_argument, "window_reduce {} of {}: the window must fit into the padded operand",
           to_string(attribute(w)), to_string(x));
    }
    return g.add_node(op::window_reduce, g[a].type, numeric(y), w, operands);
  }
};

template <>
struct primitive_rule<op::window_scatter> {
  static node_id build(graph& g, std::span<const node_id> operands, const window_attribute& w, const shape& extents) {
    g.expect_values("window_scatter", operands);
    const bool is_max = w.kind == reduce_kind::max;
    const bool fits = operands.size() == (is_max ? 2u : 1u) && (is_max || w.kind == reduce_kind::sum) &&
                      (!is_max || g[operands[0]].extents == extents) && g[operands.back()].extents.rank() > 0 &&
                      checked_window_shape(w, extents) == symbolic_shape(g[operands.back()].extents);
    if (!fits) {
      fail(error_category::invalid_argument, "window_scatter {} into {}: the last operand must have the pooled shape",
           to_string(attribute(w)), to_string(extents));
    }
    if (g[operands[0]].type != g[operands.back()].type) {
      fail(error_category::invalid_argument,
           "window_scatter {} into {}: the operand and the pooled operand must have one dtype; found {} and {}; cast "
           "one",
           to_string(attribute(w)), to_string(extents), to_string(g[operands[0]].type),
           to_string(g[operands.back()].type));
    }
    return g.add_node(op::window_scatter, g[operands.back()].type, extents, w, operands);
  }
};

template <>
struct primitive_rule<op::custom_gradient> {
  static node_id build(graph& g, std::span<const node_id> operands, const no_attribute&, const shape&) {
    const node_id y = operands[0], x = operands[1], gradient = operands[2], seed = operands[3];
    g.expect_values("custom_gradient", operands);
    const auto alike = [&](node_id a, node_id b) { return g[a].type == g[b].type && g[a].extents == g[b].extents; };
    if (g[seed].kind != op::adjoint || !alike(y, seed) || !alike(x, gradient) || !is_float(g[y].type) ||
        !is_float(g[x].type)) {
      const auto text = [&](node_id id) { return to_string(g[id].type) + (' ' + to_string(g[id].extents)); };
      fail(
          error_category::invalid_argument,
          "custom_gradient of {} by {}: found a gradient {} and, of the kind {}, {}; both are floats, the gradient has "
          "the operand's dtype and shape, and the last is an adjoint of the first one's",
          text(y), text(x), text(gradient), to_string(g[seed].kind), text(seed));
    }
    return g.add_node(op::custom_gradient, g[y].type, shape(g[y].extents), no_attribute{}, operands);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/primitive_rules.ipp>
#endif
