// SPDX-License-Identifier: MIT
// The attributes that are nothing but numbers, and what is known of the primitives that carry them, shapes and flops:
// each rule once, for models that are types and for graphs built at run time. Extents are `dim`s; where a shape is
// known there are no symbols in it.
#pragma once
#include <meganeura/core/dim.hpp>
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/same_bits.hpp>
#include <meganeura/graph/op.hpp>

#include <cstdint>
#include <initializer_list>

namespace meganeura::inline MEGANEURA_ABI {

struct no_attribute {
  static constexpr void each(auto&, auto) {}
  friend constexpr bool operator==(const no_attribute&, const no_attribute&) = default;
};

struct reduce_attribute {
  reduce_kind kind = reduce_kind::sum;
  std::uint32_t axes = 0;  // bit i: axis i of the operand disappears
  static constexpr void each(auto& self, auto visit) { visit("kind", self.kind), visit("axes", self.axes); }
  friend constexpr bool operator==(const reduce_attribute&, const reduce_attribute&) = default;
};

/// concat, gather, scatter_add, index_add, take_along, narrow, update_rows. Out of 0 .. extent-1 an index of gather or
/// take_along and a row of narrow give zeros, one of scatter_add or index_add adds nothing and a row of update_rows is
/// left out.
struct axis_attribute {
  int axis = 0;
  static constexpr void each(auto& self, auto visit) { visit("axis", self.axis); }
  friend constexpr bool operator==(const axis_attribute&, const axis_attribute&) = default;
};

/// out[.., i, ..] = sum or product of in[.., k, ..] over k <= i, or over k >= i where `reverse`; arg_max and arg_min:
/// the place k of the extremum among them as i32, of equal ones the nearest to i, a NaN being larger and smaller than
/// every number.
struct cumulative_attribute {
  reduce_kind kind = reduce_kind::sum;
  int axis = 0;
  bool reverse = false;
  static constexpr void each(auto& self, auto visit) {
    visit("kind", self.kind), visit("axis", self.axis), visit("reverse", self.reverse);
  }
  friend constexpr bool operator==(const cumulative_attribute&, const cumulative_attribute&) = default;
};

/// i32: out[.., i, ..] = the place k of the element in[.., k, ..] that comes i-th, the smallest first or the largest;
/// of equal ones the one with the smaller k. A NaN is larger than every number.
struct argsort_attribute {
  int axis = 0;
  bool descending = false;
  static constexpr void each(auto& self, auto visit) { visit("axis", self.axis), visit("descending", self.descending); }
  friend constexpr bool operator==(const argsort_attribute&, const argsort_attribute&) = default;
};

/// One label for each axis. The result's axes are the labels 0, 1, 2, ... in order; larger labels are summed over,
/// numbered in the order they have in `a`. Every summed label stands in both operands, every other in one or both.
struct contract_attribute {
  std::uint8_t a[max_rank]{};
  std::uint8_t b[max_rank]{};
  int result_rank = 0;
  static constexpr void each(auto& self, auto visit) {
    visit("a", self.a), visit("b", self.b), visit("result_rank", self.result_rank);
  }
  friend constexpr bool operator==(const contract_attribute&, const contract_attribute&) = default;
};

/// Non-negative numbers of elements added before and after each axis.
struct pad_attribute {
  std::int64_t low[max_rank]{};
  std::int64_t high[max_rank]{};
  double value = 0;
  static constexpr void each(auto& self, auto visit) {
    visit("low", self.low), visit("high", self.high), visit("value", self.value);
  }
  friend constexpr bool operator==(const pad_attribute& a, const pad_attribute& b) {
    for (int i = 0; i < max_rank; ++i) {
      if (a.low[i] != b.low[i] || a.high[i] != b.high[i]) return false;
    }
    return same_bits(a.value, b.value);
  }
};

/// scatter_along(indices, updates): each element of the result is the sum or, of integers, the maximum of the updates
/// whose index along the axis is its place; 0 or the lowest integer where there is none.
struct scatter_attribute {
  int axis = 0;
  reduce_kind kind = reduce_kind::sum;
  static constexpr void each(auto& self, auto visit) { visit("axis", self.axis), visit("kind", self.kind); }
  friend constexpr bool operator==(const scatter_attribute&, const scatter_attribute&) = default;
};

/// x [n, c, in...], w [o, c / groups, k...], y [n, o, out...] related by in = out * stride + k * dilation - pad_low, as
/// in PyTorch (a correlation). `form` says which of the three the node computes from the other two, in the order named:
/// output(x, w), input(y, w), filter(x, y). Each is linear in both operands and its gradients are the other two forms.
/// A tap outside of the image adds nothing or zero times the second operand: beside an infinity or NaN there, that is
/// open.
struct convolution_attribute {
  enum form_kind : std::uint8_t { output, input, filter };
  form_kind form = output;
  int spatial = 2;  // number of spatial axes
  std::int64_t stride[max_spatial]{1, 1, 1};
  std::int64_t pad_low[max_spatial]{};
  std::int64_t pad_high[max_spatial]{};
  std::int64_t dilation[max_spatial]{1, 1, 1};
  std::int64_t groups = 1;
  bool per_image = false;  // of the form filter alone: each image's own, w [n o, c / groups, k...]
  static constexpr void each(auto& self, auto visit) {
    visit("form", self.form), visit("spatial", self.spatial), visit("stride", self.stride),
        visit("pad_low", self.pad_low), visit("pad_high", self.pad_high), visit("dilation", self.dilation),
        visit("groups", self.groups), visit("per_image", self.per_image);
  }
  friend constexpr bool operator==(const convolution_attribute&, const convolution_attribute&) = default;
};

/// window_reduce(x [outer..., in...]) -> [outer..., out...] over the last `spatial` axes; max ignores padding
/// and is NaN where the window holds one, sum counts padding as 0. window_scatter is its adjoint: sum(y) spreads each
/// value over its window, max(x, y) adds it to the window's first maximum in row-major order, a NaN being larger than
/// any number. PyTorch's out = floor((in + pads - window) / stride) + 1.
struct window_attribute {
  reduce_kind kind = reduce_kind::max;
  int spatial = 2;
  std::int64_t window[max_spatial]{1, 1, 1};
  std::int64_t stride[max_spatial]{1, 1, 1};
  std::int64_t pad_low[max_spatial]{};
  std::int64_t pad_high[max_spatial]{};
  static constexpr void each(auto& self, auto visit) {
    visit("kind", self.kind), visit("spatial", self.spatial), visit("window", self.window),
        visit("stride", self.stride), visit("pad_low", self.pad_low), visit("pad_high", self.pad_high);
  }
  friend constexpr bool operator==(const window_attribute&, const window_attribute&) = default;
};

namespace detail {

// In the numbers that `extent` makes of a dim.
template <class Extent>
constexpr auto elements_of(const symbolic_shape& shape, const Extent& extent) {
  auto product = extent(dim(1));
  for (int i = 0; i < shape.rank; ++i) product = product * extent(shape[i]);
  return product;
}

struct tensor_facts {
  dtype type = dtype::f32;
  symbolic_shape shape{};
};

/// What is known of a primitive whose attribute is nothing but numbers, for types and for graphs:
/// - `attribute_type`;
/// - `refuses(attribute, operands)`, the rule that they break, as the end of a sentence, or nullptr, and
///   `result(attribute, operands)`. A primitive of a given number of operands that has both has its builder
///   (primitive_rule, `graph::apply`) and its description (`node_of`) from them;
/// - `flops(attribute, operand shapes, result, extent)`: 2 a multiply-add of a product, 1 an element of a reduction;
///   nothing is said of those that only move data. Maps count the operations of their programs.
template <op Kind>
struct primitive_traits;
template <op Kind>
inline constexpr bool has_traits = requires {
  typename primitive_traits<Kind>::attribute_type;
};
template <op Kind>
inline constexpr bool has_flops = requires(const symbolic_shape& shape) {
  primitive_traits<Kind>::flops({}, &shape, shape, [](const dim&) { return 1.0; });
};

template <class Attribute>
struct carries {
  using attribute_type = Attribute;
};
template <>
struct primitive_traits<op::stop_gradient> : carries<no_attribute> {
  static constexpr const char* refuses(const no_attribute&, const tensor_facts*) { return nullptr; }
  static constexpr tensor_facts result(const no_attribute&, const tensor_facts* operands) { return operands[0]; }
};
template <>
struct primitive_traits<op::adjoint> : primitive_traits<op::stop_gradient> {};
template <>
struct primitive_traits<op::custom_gradient> : carries<no_attribute> {};
template <>
struct primitive_traits<op::pad> : carries<pad_attribute> {};
template <>
struct primitive_traits<op::concat> : carries<axis_attribute> {};
template <>
struct primitive_traits<op::gather> : carries<axis_attribute> {};
template <>
struct primitive_traits<op::scatter_add> : carries<axis_attribute> {};
template <>
struct primitive_traits<op::index_add> : carries<axis_attribute> {
  template <class Extent>
  static constexpr auto flops(const axis_attribute&, const symbolic_shape* operands, const symbolic_shape&,
                              const Extent& extent) {
    return elements_of(operands[2], extent);
  }
};
template <>
struct primitive_traits<op::take_along> : carries<axis_attribute> {};
template <>
struct primitive_traits<op::scatter_along> : carries<scatter_attribute> {};
template <>
struct primitive_traits<op::narrow> : carries<axis_attribute> {};
template <>
struct primitive_traits<op::update_rows> : carries<axis_attribute> {};
template <>
struct primitive_traits<op::window_reduce> : carries<window_attribute> {};
template <>
struct primitive_traits<op::window_scatter> : carries<window_attribute> {};

template <>
struct primitive_traits<op::reduce> : carries<reduce_attribute> {
  template <class Extent>
  static constexpr auto flops(const reduce_attribute&, const symbolic_shape* operands, const symbolic_shape&,
                              const Extent& extent) {
    return elements_of(operands[0], extent);
  }
};

template <>
struct primitive_traits<op::cumulative> : carries<cumulative_attribute> {
  static constexpr const char* refuses(const cumulative_attribute& how, const tensor_facts* x) {
    if (how.axis < 0 || how.axis >= x[0].shape.rank) return "there is no such axis";
    if (how.kind != reduce_kind::sum && how.kind != reduce_kind::product && !is_arg(how.kind)) {
      return "the kind is sum, product, arg_max or arg_min; an extremum is the element at its place";
    }
    if (!is_arg(how.kind) && !holds_sums(x[0].type)) return "8 bits do not hold sums; cast it";
    return x[0].type == dtype::boolean ? "a condition is no number; select(condition, a, b)" : nullptr;
  }
  static constexpr tensor_facts result(const cumulative_attribute& how, const tensor_facts* x) {
    return {is_arg(how.kind) ? dtype::i32 : x[0].type, x[0].shape};
  }
  template <class Extent>
  static constexpr auto flops(const cumulative_attribute&, const symbolic_shape*, const symbolic_shape& result,
                              const Extent& extent) {
    return elements_of(result, extent);
  }
};

template <>
struct primitive_traits<op::argsort> : carries<argsort_attribute> {
  static constexpr const char* refuses(const argsort_attribute& how, const tensor_facts* x) {
    if (how.axis < 0 || how.axis >= x[0].shape.rank) return "there is no such axis";
    return x[0].type == dtype::boolean ? "a condition is no number; select(condition, a, b)" : nullptr;
  }
  static constexpr tensor_facts result(const argsort_attribute&, const tensor_facts* x) {
    return {dtype::i32, x[0].shape};
  }
};

// Each element of the result sums products over the labels that it lacks.
template <>
struct primitive_traits<op::contract> : carries<contract_attribute> {
  template <class Extent>
  static constexpr auto flops(const contract_attribute& labels, const symbolic_shape* operands,
                              const symbolic_shape& result, const Extent& extent) {
    auto total = 2 * elements_of(result, extent);
    for (int i = 0; i < operands[0].rank; ++i) {
      if (labels.a[i] >= labels.result_rank) total = total * extent(operands[0][i]);
    }
    return total;
  }
};

// Every (n, o, out.., c / groups, k..) once: elements of y times those of w for one o, whichever is computed.
template <>
struct primitive_traits<op::convolution> : carries<convolution_attribute> {
  template <class Extent>
  static constexpr auto flops(const convolution_attribute& c, const symbolic_shape* operands,
                              const symbolic_shape& result, const Extent& extent) {
    const bool by_filter = c.form == convolution_attribute::filter;
    const symbolic_shape& y = c.form == convolution_attribute::output ? result : operands[by_filter ? 1 : 0];
    const symbolic_shape& w = by_filter ? result : operands[1];
    return 2 * elements_of(y, extent) * elements_of(w, extent) / static_cast<double>(w[0].coefficient);
  }
};

constexpr symbolic_shape with_extent(symbolic_shape shape, int axis, dim extent) {
  shape[axis] = extent;
  return shape;
}

constexpr bool has_last_extent(const symbolic_shape& shape) { return shape.rank >= 1 && shape.last().is_static(); }

// An axis of extent 1 more.
constexpr symbolic_shape with_axis(const symbolic_shape& shape, int axis) {
  symbolic_shape result;
  for (int i = 0; i <= shape.rank; ++i) {
    if (i == axis) result.push_back(1);
    if (i < shape.rank) result.push_back(shape[i]);
  }
  return result;
}

// ---- broadcasting

// Two extents that do not agree, and where; {0, 1, 1, true} if all do.
struct extent_pair {
  int place = 0;
  std::int64_t left = 1;
  std::int64_t right = 1;
  bool same_symbol = true;

  [[nodiscard]] constexpr bool agrees() const { return left == right && same_symbol; }
  friend constexpr bool operator==(const extent_pair&, const extent_pair&) = default;
};

constexpr extent_pair pair_of(int place, const dim& left, const dim& right) {
  return {place, left.coefficient, right.coefficient, left.same_symbols(right)};
}

constexpr bool is_one(const dim& extent) { return extent == dim{1}; }

// NumPy's rule: trailing axes align, extents are equal or 1. `place` is counted from the end.
constexpr extent_pair broadcast_mismatch(const symbolic_shape& a, const symbolic_shape& b) {
  for (int i = 0; i < a.rank && i < b.rank; ++i) {
    if (a.last(i) != b.last(i) && !is_one(a.last(i)) && !is_one(b.last(i))) return pair_of(i, a.last(i), b.last(i));
  }
  return {};
}

// Where extents do not agree (already reported) the left one.
constexpr symbolic_shape broadcast(const symbolic_shape& a, const symbolic_shape& b) {
  symbolic_shape result = a.rank >= b.rank ? a : b;
  const symbolic_shape& shorter = a.rank >= b.rank ? b : a;
  for (int i = 0; i < shorter.rank; ++i) {
    if (is_one(result.last(i))) result[result.rank - 1 - i] = shorter.last(i);
  }
  return result;
}

constexpr bool can_expand(const symbolic_shape& from, const symbolic_shape& to) {
  return from.rank <= to.rank && broadcast_mismatch(from, to).agrees() && broadcast(from, to) == to;
}

// ---- reductions, indices

constexpr symbolic_shape reduced_shape(const symbolic_shape& shape, std::uint32_t axes) {
  symbolic_shape result;
  for (int i = 0; i < shape.rank; ++i) {
    if (!(axes >> i & 1)) result.push_back(shape[i]);
  }
  return result;
}

constexpr bool can_gather(const symbolic_shape& data, const symbolic_shape& indices, int axis) {
  return axis >= 0 && axis < data.rank && data.rank + indices.rank - 1 <= max_rank;
}

// data.shape[:axis] + indices.shape + data.shape[axis+1:]
constexpr symbolic_shape gathered_shape(const symbolic_shape& data, const symbolic_shape& indices, int axis) {
  symbolic_shape result;
  for (int i = 0; i < axis; ++i) result.push_back(data[i]);
  for (int i = 0; i < indices.rank; ++i) result.push_back(indices[i]);
  for (int i = axis + 1; i < data.rank; ++i) result.push_back(data[i]);
  return result;
}

// Whether an index of that shape chooses elements along the axis.
constexpr bool can_take_along(const symbolic_shape& data, const symbolic_shape& indices, int axis) {
  return axis >= 0 && axis < data.rank && indices.rank == data.rank && with_extent(indices, axis, data[axis]) == data;
}

// ---- rows from a position on

// Whether `rows` are some of `whole`, by their shapes: as many as `whole` has at most, as far as symbols tell.
constexpr bool are_rows_of(const symbolic_shape& whole, const symbolic_shape& rows, int axis) {
  return axis >= 0 && axis < whole.rank && rows.rank == whole.rank && with_extent(rows, axis, whole[axis]) == whole &&
         (whole[axis].sum() + rows[axis].with(-rows[axis].coefficient).sum()).most() >= 0;
}

// ---- concatenation

constexpr bool can_concat(const symbolic_shape& a, const symbolic_shape& b, int axis) {
  return axis >= 0 && axis < a.rank && a.rank == b.rank && with_extent(b, axis, a[axis]) == a &&
         (a[axis] + b[axis]).coefficient >= 1;
}

constexpr symbolic_shape concat_shape(const symbolic_shape& a, const symbolic_shape& b, int axis) {
  return with_extent(a, axis, a[axis] + b[axis]);
}

// ---- contractions

inline constexpr int max_labels = 2 * max_rank;

// What a contraction gives, or the first rule it breaks, with the label it is broken at.
struct contraction {
  enum fault_kind : std::uint8_t {
    none,
    result_rank,  // the result has too many labels
    range,        // a label is not below max_labels
    twice,        // a label stands twice in a term
    extents,      // a label has two extents
    nowhere,      // a label of the result is in no operand
    one_sided,    // a label is summed over one operand alone
  };
  fault_kind fault = none;
  int label = 0;
  dim left{1}, right{1};  // extents of that label; a coefficient of 0 where it is absent
  symbolic_shape result{};

  [[nodiscard]] constexpr extent_pair mismatch() const {
    return fault == extents ? pair_of(label, left, right) : extent_pair{};
  }
};

constexpr contraction contract_rule(const contract_attribute& labels, const symbolic_shape& a,
                                    const symbolic_shape& b) {
  if (labels.result_rank < 0 || labels.result_rank > max_rank) return {.fault = contraction::result_rank};
  dim found[2][max_labels];  // coefficient 0: absent
  for (int side = 0; side < 2; ++side) {
    const symbolic_shape& operand = side == 0 ? a : b;
    for (int i = 0; i < operand.rank; ++i) {
      const int label = (side == 0 ? labels.a : labels.b)[i];
      if (label >= max_labels) return {.fault = contraction::range, .label = label};
      if (found[side][label].coefficient != 0) return {.fault = contraction::twice, .label = label};
      found[side][label] = operand[i];
    }
  }
  contraction rule;
  for (int label = 0; label < max_labels; ++label) {
    const dim &in_a = found[0][label], &in_b = found[1][label];
    const bool has_a = in_a.coefficient != 0, has_b = in_b.coefficient != 0, kept = label < labels.result_rank;
    rule.fault = has_a && has_b && in_a != in_b ? contraction::extents
                 : kept && !has_a && !has_b     ? contraction::nowhere
                 : !kept && has_a != has_b      ? contraction::one_sided
                                                : contraction::none;
    if (rule.fault != contraction::none) return {rule.fault, label, in_a, in_b, {}};
    if (kept) rule.result.push_back(has_a ? in_a : in_b);
  }
  return rule;
}

// Letters as numbers: the result's in order, then those of a. `order` holds them.
struct label_names {
  contract_attribute numbers{};
  char order[max_labels]{};
  int count = 0;
  bool well_formed = true;  // every letter of b stands in a or in the result, and no term is too long

  constexpr label_names(const char* a, int rank_a, const char* b, int rank_b, const char* result, int rank) {
    well_formed = rank_a <= max_rank && rank_b <= max_rank && rank <= max_rank;
    if (!well_formed) return;
    for (; count < rank; ++count) order[count] = result[count];
    numbers.result_rank = rank;
    for (int i = 0; i < rank_a; ++i) {
      if (position(a[i]) < 0) order[count++] = a[i];
      numbers.a[i] = static_cast<std::uint8_t>(position(a[i]));
    }
    for (int i = 0; i < rank_b; ++i) {
      well_formed = well_formed && position(b[i]) >= 0;
      numbers.b[i] = static_cast<std::uint8_t>(position(b[i]));
    }
  }
  [[nodiscard]] constexpr int position(char letter) const {
    for (int i = 0; i < count; ++i) {
      if (order[i] == letter) return i;
    }
    return -1;
  }
};

// ---- windows

// Kernels compute places in a padded operand with signed 32-bit integers.
inline constexpr std::int64_t max_places = 0x7fffffff;

struct window_axis {
  std::int64_t in, window, dilation, stride, pad_low, pad_high;

  [[nodiscard]] constexpr bool is_countable() const {
    for (const std::int64_t each : {in, window, dilation, stride, pad_low, pad_high}) {
      if (each > max_places) return false;
    }
    return reach() <= max_places && padded() <= max_places;
  }
  [[nodiscard]] constexpr std::int64_t reach() const { return (window - 1) * dilation + 1; }
  [[nodiscard]] constexpr std::int64_t padded() const { return in + pad_low + pad_high; }
  // Places of the window; 0: it does not fit or the geometry is none.
  [[nodiscard]] constexpr std::int64_t count() const {
    if (window < 1 || dilation < 1 || stride < 1 || pad_low < 0 || pad_high < 0 || !is_countable()) return 0;
    return padded() < reach() ? 0 : (padded() - reach()) / stride + 1;
  }
};

constexpr bool is_geometry(const convolution_attribute& c) {
  for (int i = 0; i < c.spatial && i < max_spatial; ++i) {
    if (c.stride[i] < 1 || c.dilation[i] < 1 || c.pad_low[i] < 0 || c.pad_high[i] < 0) return false;
  }
  return c.spatial >= 1 && c.spatial <= max_spatial && c.groups >= 1;
}

// Nothing (rank 0) where a window does not fit into the padded operand or slides along a symbol.
constexpr symbolic_shape window_shape(const window_attribute& w, const symbolic_shape& x) {
  if (w.spatial < 1 || w.spatial > max_spatial || w.spatial > x.rank) return {};
  symbolic_shape y = x;
  for (int i = 0; i < w.spatial; ++i) {
    dim& extent = y[x.rank - w.spatial + i];
    const window_axis along{extent.coefficient, w.window[i], 1, w.stride[i], w.pad_low[i], w.pad_high[i]};
    if (!extent.is_static() || along.count() < 1) return {};
    extent = along.count();
  }
  return y;
}

// y of x [n, c, in..] and w [o, c / groups, k..]; nothing (rank 0) where they do not fit.
constexpr symbolic_shape convolution_shape(const convolution_attribute& c, const symbolic_shape& x,
                                           const symbolic_shape& w) {
  if (c.spatial < 1 || c.spatial > max_spatial || x.rank != c.spatial + 2 || w.rank != x.rank || c.groups < 1 ||
      c.groups > max_places || x[1] != w[1] * c.groups || !w[0].is_static() || w[0].coefficient % c.groups != 0) {
    return {};
  }
  symbolic_shape y = with_extent(x, 1, w[0]);
  for (int i = 0; i < c.spatial; ++i) {
    const window_axis along{x[i + 2].coefficient, w[i + 2].coefficient, c.dilation[i],
                            c.stride[i],          c.pad_low[i],         c.pad_high[i]};
    if (!x[i + 2].is_static() || !w[i + 2].is_static() || along.count() < 1) return {};
    y[i + 2] = along.count();
  }
  return y;
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
