// SPDX-License-Identifier: MIT
// The gradient of each primitive. Derivatives of scalar programs are scalar programs: see scalar_gradient.hpp.
#pragma once
#include <meganeura/autodiff/gradient_sweep.hpp>
#include <meganeura/autodiff/scalar_gradient.hpp>
#include <meganeura/autodiff/view_adjoint.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/view_map.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

/// Is every element of the node one known float (a constant, however it was expanded)?
inline bool uniform_value(const graph& g, node_id id, double& value) {
  while (g[id].kind == op::view) id = g.operand(id, 0);
  if (g[id].kind != op::constant || !is_float(g[id].type)) return false;
  value = g.get<constant_attribute>(id).value;
  return true;
}

/// May a derivative look at the stored result instead of computing it again? A bound that is rounded up would look
/// exceeded.
inline bool keeps_bounds(const scalar_program& program, dtype stored) {
  const scalar_op kind = program.nodes.back().op;
  if (!is_narrow(stored) || (kind != scalar_op::minimum && kind != scalar_op::maximum)) return true;
  return std::all_of(program.nodes.begin(), program.nodes.end(), [stored](const scalar_node& node) {
    // f16: integers up to 2^11 over 2^10; a plain, sufficient test
    const double most = std::ldexp(1.0, info(stored).digits), scaled = std::fabs(node.value) * most / 2;
    return node.op != scalar_op::constant || (scaled == std::floor(scaled) && scaled <= most);
  });
}

/// Is everything but the result an argument or a constant? Then the stored result is the value of the only operation.
inline bool is_one_operation(const scalar_program& program) {
  return std::all_of(program.nodes.begin(), program.nodes.end() - 1,
                     [](const scalar_node& node) { return info(node.op).arity == 0; });
}

/// A map under construction whose operands are named by node; constants melt into the program.
class map_writer {
 public:
  explicit map_writer(graph& g) : graph_(g) {}
  [[nodiscard]] scalar_builder& builder() { return builder_; }

  [[nodiscard]] scalar_ref operand(node_id id) {
    double value = 0;
    if (uniform_value(graph_, id, value)) return builder_.constant(value);
    return variable(id);
  }
  /// The same, but an argument even if it is constant.
  [[nodiscard]] scalar_ref variable(node_id id) {
    const auto found = std::find(sources_.begin(), sources_.end(), id);
    const auto index = static_cast<int>(found - sources_.begin());
    if (found == sources_.end()) sources_.push_back(id);
    return builder_.argument(index, graph_[id].type);
  }

  /// Arguments are numbered as they occur, so that a single operation looks like one made by graph::map.
  [[nodiscard]] node_id finish(scalar_ref result, const shape& extents, dtype type) {
    scalar_program program = builder_.finish(result);
    if (program.nodes.back().op == scalar_op::constant)
      return graph_.full(extents, rounded_to(program.nodes.back().value, type), type);  // 1e6 is infinity in f16
    small_vector<node_id, 8> used;
    for (scalar_node& node : program.nodes) {
      if (node.op != scalar_op::argument) continue;
      used.push_back(sources_[static_cast<std::size_t>(node.value)]);
      node.value = static_cast<double>(used.size() - 1);
    }
    if (program.is_identity() && graph_[used[0]].type == type) return used[0];
    return graph_.map(program, used, type);
  }

 private:
  graph& graph_;
  scalar_builder builder_;
  small_vector<node_id, 8> sources_;
};

template <>
struct gradient_rule<op::map> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph& g, node_id id, std::size_t index) {
    const scalar_program& program = g.get<map_attribute>(id).program;
    program_flags arguments(g.operands(id).size());
    arguments[index] = true;
    return smooth_nodes(program, arguments).back();
  }
  void propagate(node_id id, node_id g) {
    const small_vector<node_id, 8> operands(graph_.operands(id).begin(), graph_.operands(id).end());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool first = std::find(operands.begin(), operands.end(), operands[i]) == operands.begin() + i;
      if (first && is_active(operands[i])) map_operand(id, g, operands, operands[i]);
    }
  }

 private:
  // All arguments that are `target` together. A single operation may read its own result instead of computing it again
  // (exp, tanh, sqrt, a quotient); longer programs repeat their arithmetic, which is cheaper than reading more memory.
  void map_operand(node_id id, node_id g, std::span<const node_id> operands, node_id target) {
    const scalar_program program = graph_.get<map_attribute>(id).program;
    program_flags arguments(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) arguments[i] = operands[i] == target;
    if (!smooth_nodes(program, arguments).back()) return;

    map_writer writer(graph_);
    scalar_builder& builder = writer.builder();
    const bool single = is_one_operation(program) && keeps_bounds(program, graph_[id].type);
    small_vector<scalar_ref, 64> forward;
    for (const scalar_node& node : program.nodes) {
      scalar_ref inputs[3]{};
      const int arity = info(node.op).arity;
      for (int k = 0; k < arity; ++k) inputs[k] = forward[node.operands[k]];
      if (node.op == scalar_op::argument) {
        const node_id source = operands[static_cast<std::size_t>(node.value)];
        forward.push_back(source == target ? writer.variable(source) : writer.operand(source));
      } else if (node.op == scalar_op::constant) {
        forward.push_back(builder.constant(node.value, node.type));
      } else if (single && arity > 0 && is_float(node.type)) {
        forward.push_back(writer.variable(id));
      } else {
        forward.push_back(builder.apply(node.op, {inputs, static_cast<std::size_t>(arity)}, node.type));
      }
    }
    const scalar_ref result = scalar_gradient(builder, program, forward, writer.operand(g), arguments);
    add(target, writer.finish(result, extents(target), graph_[target].type));
  }
};

// g at the place of each row that `index` names, 0 elsewhere. By position and not by value: x computed in another
// kernel, or by another spelling, may differ from the extremum in its last bit.
inline node_id routed(graph& nodes, node_id index, node_id g, node_id x, std::uint32_t axes) {
  const shape full = nodes[x].extents;
  shape row;
  for (int i = 0; i < full.rank(); ++i) {
    if (axes >> i & 1) row.push_back(full[i]);
  }
  const std::uint32_t kept = ((1u << full.rank()) - 1) & ~axes;
  const node_id places = nodes.expand_axes(nodes.reshape(nodes.iota(row.elements()), row), full, kept);
  map_writer writer(nodes);
  scalar_builder& b = writer.builder();
  const scalar_ref here =
      b.binary(scalar_op::equal, writer.variable(places), writer.variable(nodes.expand_axes(index, full, axes)));
  const scalar_ref moved = writer.operand(nodes.expand_axes(g, full, axes));
  return writer.finish(b.select(here, moved, b.constant(0)), full, nodes[x].type);
}

template <>
struct gradient_rule<op::reduce> : gradient_step {
  using gradient_step::gradient_step;
  void propagate(node_id id, node_id g) { add(graph_.operand(id, 0), reduced(id, g)); }

 private:
  [[nodiscard]] node_id reduced(node_id id, node_id g) {
    const reduce_attribute attribute = graph_.get<reduce_attribute>(id);
    const node_id x = graph_.operand(id, 0);
    const shape full = extents(x);
    const auto expanded = [&](node_id a) { return graph_.expand_axes(a, full, attribute.axes); };
    const auto to_place = [&](reduce_kind place) {
      return routed(graph_, graph_.reduce(place, x, attribute.axes), g, x, attribute.axes);
    };
    switch (attribute.kind) {
      case reduce_kind::sum:
        return expanded(g);
      case reduce_kind::product:
        return reduce_product(x, g, attribute.axes);
      case reduce_kind::max:
        return to_place(reduce_kind::arg_max);
      case reduce_kind::min:
        return to_place(reduce_kind::arg_min);
      case reduce_kind::arg_max:
      case reduce_kind::arg_min:
        break;
    }
    fail(error_category::unsupported, "gradients: {} has no rule", info(attribute.kind).name);
  }

  // The product of all other elements, also where some are 0: with p the product of the non-zero ones, it is p / x if
  // none is 0, p at the only zero, and 0 otherwise.
  [[nodiscard]] node_id reduce_product(node_id x, node_id g, std::uint32_t axes) {
    const shape full = extents(x);
    const auto replaced_zeros = [&](double at_zero, bool keep_others) {
      map_writer writer(graph_);
      scalar_builder& b = writer.builder();
      const scalar_ref value = writer.variable(x), zero = b.constant(0);
      const scalar_ref others = keep_others ? value : zero;
      return writer.finish(b.select(b.binary(scalar_op::equal, value, zero), b.constant(at_zero), others), full,
                           graph_[x].type);
    };
    const node_id nonzero = graph_.reduce(reduce_kind::product, replaced_zeros(1, true), axes);
    const node_id zeros = graph_.reduce(reduce_kind::sum, replaced_zeros(1, false), axes);
    const node_id scaled = graph_.expand_axes(graph_.multiply(g, nonzero), full, axes);
    map_writer writer(graph_);
    scalar_builder& b = writer.builder();
    const scalar_ref value = writer.variable(x), zero = b.constant(0), product = writer.variable(scaled);
    const scalar_ref count = writer.variable(graph_.expand_axes(zeros, full, axes));
    const auto when_count = [&](double number, scalar_ref then) {
      return b.select(b.binary(scalar_op::equal, count, b.constant(number)), then, zero);
    };
    const scalar_ref at_zero = when_count(1, product);
    const scalar_ref elsewhere = when_count(0, b.binary(scalar_op::divide, product, value));
    return writer.finish(b.select(b.binary(scalar_op::equal, value, zero), at_zero, elsewhere), full, graph_[x].type);
  }
};

template <>
struct gradient_rule<op::cumulative> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph& g, node_id id, std::size_t) {
    return !is_arg(g.get<cumulative_attribute>(id).kind);
  }
  void propagate(node_id id, node_id g) {
    const cumulative_attribute along = graph_.get<cumulative_attribute>(id);
    const node_id x = graph_.operand(id, 0);
    add(x, along.kind == reduce_kind::sum ? summed_back(g, along) : of_products(x, g, along));
  }

 private:
  // x[k] is in every sum from k on.
  [[nodiscard]] node_id summed_back(node_id g, cumulative_attribute along) {
    along.kind = reduce_kind::sum;
    along.reverse = !along.reverse;
    return graph_.apply(op::cumulative, along, {g});
  }

  // Before the first zero of a row x[k] is a factor of each product y[i] from k on: sum g[i] y[i] / x[k]. The first
  // zero meets the products with a 1 in its place, and behind it everything is times that zero.
  [[nodiscard]] node_id of_products(node_id x, node_id g, const cumulative_attribute& along) {
    const shape full = extents(x);
    const dtype type = graph_[x].type;
    const auto mapped = [&](dtype to, auto write) {
      map_writer writer(graph_);
      return writer.finish(write(writer, writer.builder()), full, to);
    };
    const auto is_zero = [&](map_writer& w, scalar_builder& b, node_id of, double number, dtype kind) {
      return b.binary(scalar_op::equal, w.variable(of), b.constant(number, kind));
    };
    const dtype computed = compute_type(type);
    const node_id zeros = mapped(dtype::i32, [&](map_writer& w, scalar_builder& b) {
      return b.select(is_zero(w, b, x, 0, computed), b.constant(1, dtype::i32), b.constant(0, dtype::i32));
    });
    cumulative_attribute counting = along;
    counting.kind = reduce_kind::sum;
    const node_id count = graph_.apply(op::cumulative, counting, {zeros});
    const auto is_first = [&](map_writer& w, scalar_builder& b) {
      return b.binary(scalar_op::logical_and, is_zero(w, b, x, 0, computed), is_zero(w, b, count, 1, dtype::i32));
    };
    const node_id without = mapped(type, [&](map_writer& w, scalar_builder& b) {
      return b.select(is_first(w, b), b.constant(1, computed), w.variable(x));
    });
    const node_id products = graph_.apply(op::cumulative, along, {without});
    const auto part = [&](bool behind) {
      return summed_back(
          mapped(type,
                 [&](map_writer& w, scalar_builder& b) {
                   const scalar_ref term = b.binary(scalar_op::multiply, w.variable(g), w.variable(products));
                   const scalar_ref none = b.constant(0, computed), before = is_zero(w, b, count, 0, dtype::i32);
                   return behind ? b.select(before, none, term) : b.select(before, term, none);
                 }),
          along);
    };
    const node_id before = part(false), behind = part(true);
    return mapped(type, [&](map_writer& w, scalar_builder& b) {
      const scalar_ref at_zero = b.select(is_first(w, b), w.variable(behind), b.constant(0, computed));
      const scalar_ref shared = b.binary(scalar_op::divide, w.variable(before), w.variable(x));
      return b.select(is_zero(w, b, count, 0, dtype::i32), shared, at_zero);
    });
  }
};

template <>
struct gradient_rule<op::contract> : gradient_step {
  using gradient_step::gradient_step;
  // d a = g x b and d b = a x g, each with the labels of the missing operand as result.
  void propagate(node_id id, node_id g) {
    const contract_attribute labels = graph_.get<contract_attribute>(id);
    const node_id a = graph_.operand(id, 0), b = graph_.operand(id, 1);
    std::uint8_t result_labels[max_rank]{};
    for (int i = 0; i < max_rank; ++i) result_labels[i] = static_cast<std::uint8_t>(i);
    const bool wants_a = wants(id, 0), wants_b = wants(id, 1);
    if (wants_a) add(a, contract_into(labels.a, extents(a).rank(), g, result_labels, b, labels.b));
    if (wants_b) add(b, contract_into(labels.b, extents(b).rank(), a, labels.a, g, result_labels));
  }

 private:
  [[nodiscard]] node_id contract_into(const std::uint8_t* target, int rank, node_id first,
                                      const std::uint8_t* first_labels, node_id second,
                                      const std::uint8_t* second_labels) {
    contract_attribute labels{.result_rank = rank};
    int renumbered[2 * max_rank], next = 0;
    std::fill(std::begin(renumbered), std::end(renumbered), -1);
    for (int i = 0; i < rank; ++i) renumbered[target[i]] = next++;
    const auto number = [&](const std::uint8_t* from, int count, std::uint8_t* to) {
      for (int i = 0; i < count; ++i) {
        if (renumbered[from[i]] < 0) renumbered[from[i]] = next++;
        to[i] = static_cast<std::uint8_t>(renumbered[from[i]]);
      }
    };
    number(first_labels, extents(first).rank(), labels.a);
    number(second_labels, extents(second).rank(), labels.b);
    return graph_.contract(first, second, labels);
  }
};

template <>
struct gradient_rule<op::view> : gradient_step {
  using gradient_step::gradient_step;
  void propagate(node_id id, node_id g) {
    const view_attribute map = graph_.get<view_attribute>(id);
    const node_id source = graph_.operand(id, 0);
    add(source, view_adjoint(graph_, g, map, extents(source)));
  }
};

template <>
struct gradient_rule<op::pad> : gradient_step {
  using gradient_step::gradient_step;
  void propagate(node_id id, node_id g) {
    const pad_attribute border = graph_.get<pad_attribute>(id);
    const node_id x = graph_.operand(id, 0);
    const shape padded = extents(g);
    view_attribute inside = dense_view(padded);
    for (int i = 0; i < padded.rank(); ++i) inside.offset += border.low[i] * padded.stride(i);
    add(x, graph_.view(g, extents(x), inside));
  }
};

template <>
struct gradient_rule<op::concat> : gradient_step {
  using gradient_step::gradient_step;
  void propagate(node_id id, node_id g) {
    const int axis = graph_.get<axis_attribute>(id).axis;
    const std::vector<node_id> parts(graph_.operands(id).begin(), graph_.operands(id).end());
    std::int64_t start = 0;
    for (node_id part : parts) {
      const std::int64_t count = extents(part)[axis];
      if (is_active(part)) add(part, graph_.slice(g, axis, start, count));
      start += count;
    }
  }
};

template <>
struct gradient_rule<op::gather> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t index) { return index == 0; }
  void propagate(node_id id, node_id g) {
    const node_id data = graph_.operand(id, 0), indices = graph_.operand(id, 1);
    if (wants(id, 0)) add(data, graph_.scatter_add(indices, g, graph_.get<axis_attribute>(id).axis, extents(data)));
  }
};

template <>
struct gradient_rule<op::scatter_add> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t index) { return index == 1; }
  void propagate(node_id id, node_id g) {
    const node_id indices = graph_.operand(id, 0), updates = graph_.operand(id, 1);
    if (wants(id, 1)) add(updates, graph_.gather(g, indices, graph_.get<axis_attribute>(id).axis));
  }
};

template <>
struct gradient_rule<op::index_add> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t index) { return index != 1; }
  void propagate(node_id id, node_id g) {
    const node_id x = graph_.operand(id, 0), indices = graph_.operand(id, 1), updates = graph_.operand(id, 2);
    if (wants(id, 0)) add(x, g);
    if (wants(id, 2)) add(updates, graph_.gather(g, indices, graph_.get<axis_attribute>(id).axis));
  }
};

template <>
struct gradient_rule<op::take_along> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t index) { return index == 0; }
  void propagate(node_id id, node_id g) {
    const node_id data = graph_.operand(id, 0), indices = graph_.operand(id, 1);
    const scatter_attribute back{graph_.get<axis_attribute>(id).axis};
    add(data, graph_.apply(op::scatter_along, back, {indices, g}, extents(data)));
  }
};

template <>
struct gradient_rule<op::scatter_along> : gradient_step {  // a sum: maxima are integers
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t index) { return index == 1; }
  void propagate(node_id id, node_id g) {
    const node_id indices = graph_.operand(id, 0), updates = graph_.operand(id, 1);
    const axis_attribute along{graph_.get<scatter_attribute>(id).axis};
    add(updates, graph_.apply(op::take_along, along, {g, indices}));
  }
};

template <>
struct gradient_rule<op::narrow> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t index) { return index == 0; }
  void propagate(node_id id, node_id g) {
    const node_id data = graph_.operand(id, 0), position = graph_.operand(id, 1);
    const axis_attribute along = graph_.get<axis_attribute>(id);
    add(data, graph_.apply(op::update_rows, along, {graph_.full_like(data, 0), g, position}));
  }
};

template <>
struct gradient_rule<op::update_rows> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t index) { return index < 2; }
  void propagate(node_id id, node_id g) {
    const node_id x = graph_.operand(id, 0), rows = graph_.operand(id, 1), position = graph_.operand(id, 2);
    const axis_attribute along = graph_.get<axis_attribute>(id);
    const bool wants_x = wants(id, 0), wants_rows = wants(id, 1);
    if (wants_x) add(x, graph_.apply(op::update_rows, along, {g, graph_.full_like(rows, 0), position}));
    if (wants_rows) add(rows, graph_.apply(op::narrow, along, {g, position}, extents(rows)));
  }
};

// The three forms are one trilinear function of x, w and y: fixing two of them gives the gradient by the third.
template <>
struct gradient_rule<op::convolution> : gradient_step {
  using gradient_step::gradient_step;
  void propagate(node_id id, node_id g) {
    using form = convolution_attribute;
    const form geometry = graph_.get<form>(id);
    if (geometry.per_image)
      fail(error_category::unsupported, "a convolution's filter of each image has no gradient yet");
    const node_id first = graph_.operand(id, 0), second = graph_.operand(id, 1);
    const bool wants_first = wants(id, 0), wants_second = wants(id, 1);
    const auto other_form = [&](form::form_kind kind, node_id a, node_id b, node_id target) {
      form other = geometry;
      other.form = kind;
      add(target, graph_.convolution(a, b, other, extents(target)));
    };
    switch (geometry.form) {
      case form::output:  // x, w -> y
        if (wants_first) other_form(form::input, g, second, first);
        if (wants_second) other_form(form::filter, first, g, second);
        break;
      case form::input:  // y, w -> x
        if (wants_first) other_form(form::output, g, second, first);
        if (wants_second) other_form(form::filter, g, first, second);
        break;
      case form::filter:  // x, y -> w
        if (wants_first) other_form(form::input, second, g, first);
        if (wants_second) other_form(form::output, first, g, second);
        break;
    }
  }
};

template <>
struct gradient_rule<op::window_reduce> : gradient_step {
  using gradient_step::gradient_step;
  void propagate(node_id id, node_id g) {
    const window_attribute window = graph_.get<window_attribute>(id);
    const node_id x = graph_.operand(id, 0), both[] = {x, g};
    const std::span<const node_id> operands(both);
    if (window.kind != reduce_kind::max) return add(x, graph_.window_scatter(operands.last(1), window, extents(x)));
    const std::optional<window_rows> rows = disjoint_windows(window, extents(x), extents(id));
    if (!rows || rows->elements <= 32) return add(x, graph_.window_scatter(operands, window, extents(x)));
    const node_id elements = graph_.view(x, rows->extents, rows->map);
    const node_id moved = routed(graph_, graph_.reduce(reduce_kind::arg_max, elements, rows->axes),
                                 graph_.reshape(g, rows->windows), elements, rows->axes);
    add(x, view_adjoint(graph_, moved, rows->map, extents(x)));
  }

 private:
  /// Windows as rows: a view [outer, windows.., elements..], `axes` the elements.
  struct window_rows {
    shape extents, windows;
    view_attribute map;
    std::uint32_t axes = 0;
    std::int64_t elements = 1;
  };

  // Each element of such windows is in one row at most, so that going through rows takes one pass over them, where
  // window_scatter reads for each element all elements of its window again. Nothing where windows overlap or hold
  // padding (whose -inf could tie with an element's), other than one window alone, whose padding is cut off.
  [[nodiscard]] static std::optional<window_rows> disjoint_windows(const window_attribute& window, const shape& x,
                                                                   const shape& y) {
    const int outer = x.rank() - window.spatial;
    window_rows rows;
    std::int64_t count = 1;  // the axes before are dense and become one
    for (int i = 0; i < outer; ++i) {
      count *= x[i];
      rows.map.strides[0] = x.stride(i);
    }
    rows.extents.push_back(count);
    shape elements;
    for (int i = 0; i < window.spatial; ++i) {
      const std::int64_t in = x[outer + i], out = y[outer + i], unit = x.stride(outer + i);
      const std::int64_t first = -window.pad_low[i], last = first + (out - 1) * window.stride[i] + window.window[i];
      const bool inside = first >= 0 && last <= in;
      if (out > 1 && (!inside || window.stride[i] < window.window[i])) return std::nullopt;
      const std::int64_t start = std::max<std::int64_t>(first, 0);
      const std::int64_t extent = out > 1 ? window.window[i] : std::min(last, in) - start;
      if (extent < 1) return std::nullopt;  // padding alone
      rows.extents.push_back(out);
      elements.push_back(extent);
      rows.map.offset += start * unit;
      rows.map.strides[1 + i] = window.stride[i] * unit;
      rows.map.strides[1 + window.spatial + i] = unit;
      rows.axes |= 1u << (1 + window.spatial + i);
      rows.elements *= extent;
    }
    rows.windows = rows.extents;
    for (int i = 0; i < elements.rank(); ++i) rows.extents.push_back(elements[i]);
    return rows;
  }
};

template <>
struct gradient_rule<op::window_scatter> : gradient_step {
  using gradient_step::gradient_step;
  // max: the first operand only chooses places
  [[nodiscard]] static bool passes(const graph& g, node_id id, std::size_t index) {
    return index + 1 == g.operands(id).size();
  }
  void propagate(node_id id, node_id g) {
    const window_attribute window = graph_.get<window_attribute>(id);
    const node_id y = graph_.operand(id, graph_.operands(id).size() - 1);
    if (!is_active(y)) return;
    if (window.kind == reduce_kind::max) {
      fail(error_category::unsupported,
           "gradients: the gradient of max pooling cannot be differentiated again; use a sum window or stop_gradient");
    }
    add(y, graph_.window_reduce(g, window));
  }
};

template <>
struct gradient_rule<op::stop_gradient> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t) { return false; }
  void propagate(node_id, node_id) {}
};

template <>
struct gradient_rule<op::argsort> : gradient_rule<op::stop_gradient> {
  using gradient_rule<op::stop_gradient>::gradient_rule;
};

template <>
struct gradient_rule<op::adjoint> : gradient_rule<op::stop_gradient> {
  using gradient_rule<op::stop_gradient>::gradient_rule;
};

// One operand of a function that has a backward of its own: behind the last operand's node stands the next one's.
template <>
struct gradient_rule<op::custom_gradient> : gradient_step {
  using gradient_step::gradient_step;
  [[nodiscard]] static bool passes(const graph&, node_id, std::size_t index) { return index < 2; }
  void propagate(node_id id, node_id g) {
    const node_id before = graph_.operand(id, 0), x = graph_.operand(id, 1);
    const node_id gradient = graph_.operand(id, 2), seed = graph_.operand(id, 3);
    add(before, g);
    if (wants(id, 1)) add(x, substituted(gradient, seed, g));
  }

 private:
  // `gradient` once more, with g for the seed: what depends on it is copied.
  [[nodiscard]] node_id substituted(node_id gradient, node_id seed, node_id g) {
    std::set<node_id> below;  // the gradient and what it is computed from, behind the seed
    std::vector<node_id> open{gradient};
    while (!open.empty()) {
      const node_id id = open.back();
      open.pop_back();
      if (id < seed || !below.insert(id).second) continue;
      open.insert(open.end(), graph_.operands(id).begin(), graph_.operands(id).end());
    }
    std::map<node_id, node_id> copies{{seed, g}};
    for (node_id id : below) {
      if (id == seed) continue;
      std::vector<node_id> operands(graph_.operands(id).begin(), graph_.operands(id).end());
      // A function inside of the backward that gives the same value has this seed too, and it is its own.
      const bool own = graph_[id].kind == op::custom_gradient && operands[3] == seed;
      bool changed = false;
      for (std::size_t i = 0; i < (own ? 2 : operands.size()); ++i) {
        const auto copy = copies.find(operands[i]);
        if (copy != copies.end()) operands[i] = copy->second, changed = true;
      }
      if (!changed) continue;
      const node n = graph_[id];
      const attribute value = graph_.attribute_of(id);
      copies[id] = graph_.add_node(n.kind, n.type, n.extents, value, operands);
    }
    const auto copy = copies.find(gradient);
    return copy == copies.end() ? gradient : copy->second;
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::detail
