// SPDX-License-Identifier: MIT
// Other looks at the same elements: reshape, permute, slice, pad, expand, flip, concat.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// Whether two shapes have as many elements, for whatever their symbols are worth.
constexpr bool same_elements(const symbolic_shape& a, const symbolic_shape& b) {
  return a.is_static() && b.is_static() ? a.coefficient() == b.coefficient() : a.elements() == b.elements();
}

// The numbers are what the compiler shows; with symbols, their factors.
template <std::int64_t Left, std::int64_t Right, bool Agree>
inline constexpr bool elements_agree = Agree;

template <value X, class Axis>
constexpr int axis_of(const X& x, Axis axis) {
  return normal_axis(axis, x.facts().shape.rank);
}

constexpr node_spec describe_reshape(const facts& x, const symbolic_shape& shape) {
  if (shape == x.shape) return {};
  return {.kind = primitive::reshape, .type = x.type, .shape = shape};
}

// Where x has no symbol, the only one of the wanted shape is what the other extents leave.
constexpr symbolic_shape resolved(const symbolic_shape& x, symbolic_shape wanted) {
  int symbols = 0, at = 0;
  for (int i = 0; i < wanted.rank; ++i) {
    if (!wanted[i].is_static()) ++symbols, at = i;
  }
  const std::int64_t rest = wanted.coefficient();
  if (!x.is_static() || symbols != 1 || rest < 1 || x.coefficient() % rest != 0) return wanted;
  return with_extent(wanted, at, wanted[at].coefficient * (x.coefficient() / rest));
}
template <bool Typed, class Shape>
constexpr auto reshape_target(const symbolic_shape& x, const Shape& wanted) {
  if constexpr (Typed) {
    return wanted;
  } else {
    return resolved(x, symbolic_of(wanted));
  }
}

constexpr node_spec describe_unsqueeze(const facts& x, int axis) {
  return describe_reshape(x, with_axis(x.shape, normal_axis(axis, x.shape.rank + 1)));
}

// Axes from `first` to `last` multiplied into one.
constexpr dim flattened(const symbolic_shape& shape, int first, int last) {
  dim product = 1;
  for (int i = first; i <= last; ++i) product = product * shape[i];
  return product;
}

constexpr node_spec describe_flatten(const facts& x, int first, int last) {
  first = normal_axis(first, x.shape.rank);
  last = normal_axis(last, x.shape.rank);
  symbolic_shape result;
  for (int i = 0; i < first; ++i) result.push_back(x.shape[i]);
  result.push_back(flattened(x.shape, first, last));
  for (int i = last + 1; i < x.shape.rank; ++i) result.push_back(x.shape[i]);
  return describe_reshape(x, result);
}

// The last axis split into [outer, inner].
constexpr symbolic_shape split_last(const symbolic_shape& shape, dim outer, dim inner) {
  symbolic_shape result = with_extent(shape, shape.rank - 1, outer);
  result.push_back(inner);
  return result;
}

constexpr bool can_split_heads(const symbolic_shape& shape, std::int64_t heads) {
  return heads >= 1 && shape.rank >= 1 && shape.rank < max_rank && shape.last().coefficient % heads == 0;
}

constexpr node_spec describe_split_heads(const facts& x, std::int64_t heads) {
  return describe_reshape(x, split_last(x.shape, heads, x.shape.last().with(x.shape.last().coefficient / heads)));
}

template <class... Axes>
constexpr bool is_permutation(int rank, Axes... axes) {
  int seen = 0;
  ((seen |= normal_axis(axes, rank) >= 0 ? 1 << normal_axis(axes, rank) : 0), ...);
  return sizeof...(Axes) == static_cast<std::size_t>(rank) && seen == (1 << rank) - 1;
}

constexpr node_spec describe_permute(const facts& x, const axis_order& order) {
  node_spec result{.kind = primitive::permute, .type = x.type, .list = packed(order)};
  for (int i = 0; i < x.shape.rank; ++i) result.shape.push_back(x.shape[order.axes[i]]);
  return result;
}

template <class... Axes>
constexpr node_spec describe_permute_by(const facts& x, Axes... axes) {
  axis_order order;
  int count = 0;
  ((order.axes[count++] = normal_axis(axes, x.shape.rank)), ...);
  return describe_permute(x, order);
}
template <class... T>
inline constexpr auto permute_description = &describe_permute_by<std::conditional_t<true, int, T>...>;

constexpr node_spec describe_transpose(const facts& x) {
  axis_order order;
  const int rank = x.shape.rank;
  for (int i = 0; i < rank; ++i) order.axes[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
  return describe_permute(x, order);
}

// A start below 0 counts from the end.
constexpr bool can_slice(const symbolic_shape& shape, int axis, std::int64_t start, const dim& count,
                         std::int64_t step) {
  if (axis < 0 || step < 1 || count.coefficient < 1) return false;
  const std::int64_t extent = shape[axis].sum().least(), most = count.sum().most(), end = start < 0 ? 0 : extent;
  return start >= -extent && start < end && most - 1 <= (end - 1 - start) / step;
}

constexpr node_spec describe_slice(const facts& x, int axis, std::int64_t start, const dim& count, std::int64_t step) {
  axis = normal_axis(axis, x.shape.rank);
  if (start < 0 && x.shape[axis].is_static()) start += x.shape[axis].coefficient;
  const slice_range range{axis, start < 0 ? -start : start, start < 0, step};
  return {.kind = primitive::slice, .type = x.type, .shape = with_extent(x.shape, axis, count), .list = packed(range)};
}

constexpr bool can_pad(const symbolic_shape& shape, int axis, std::int64_t low, std::int64_t high) {
  constexpr std::int64_t most = std::int64_t{1} << 58;  // elements of a tensor
  return axis >= 0 && low >= 0 && high >= 0 && low <= most && high <= most &&
         (shape[axis] + (low + high)).coefficient >= 1;
}

constexpr node_spec describe_pad(const facts& x, int axis, std::int64_t low, std::int64_t high, number filling) {
  axis = normal_axis(axis, x.shape.rank);
  pad_attribute borders{.value = filling.value};
  borders.low[axis] = low;
  borders.high[axis] = high;
  return node_of(op::pad, x.type, with_extent(x.shape, axis, x.shape[axis] + (low + high)), borders);
}

constexpr node_spec describe_expand(const facts& x, const symbolic_shape& shape) {
  if (shape == x.shape) return {};
  return {.kind = primitive::expand, .type = x.type, .shape = shape};
}

constexpr node_spec describe_flip(const facts& x, int axis) {
  return {.kind = primitive::flip, .type = x.type, .shape = x.shape, .count = normal_axis(axis, x.shape.rank)};
}

constexpr node_spec describe_concat(const facts& a, const facts& b, int axis) {
  axis = normal_axis(axis, a.shape.rank);
  return node_of(op::concat, a.type, concat_shape(a.shape, b.shape, axis), axis_attribute{axis});
}

}  // namespace detail

/// The same elements in row-major order under another shape: reshape<dims<n, 4>>(x), or reshape(x, shape{n, 4}) at run
/// time, where the one symbol of a shape stands for what the other extents leave.
/// errors: "the number of elements must stay".
template <value A, class Shape>
[[nodiscard]] constexpr auto reshape(A x, Shape wanted) {
  const auto shape = detail::reshape_target<detail::all_typed<A>::value>(x.facts().shape, wanted);
  MEGANEURA_CHECK((detail::same_elements(x.facts().shape, detail::symbolic_of(shape))),
                  (detail::elements_agree<x.facts().shape.coefficient(), detail::symbolic_of(shape).coefficient(),
                                          detail::same_elements(x.facts().shape, detail::symbolic_of(shape))>),
                  "meganeura: reshape<dims>(x): the number of elements must stay, whatever the symbols are worth", x)
  return detail::make<detail::describe_reshape>(x, shape);
}
template <symbolic_shape Shape, value A>
[[nodiscard]] constexpr auto reshape(A x) {
  return reshape(x, c<Shape>);
}

/// x under the shape of another value: reshape_as(x, like). errors: "the number of elements must stay".
template <value A, value B>
[[nodiscard]] constexpr auto reshape_as(A x, B like) {
  MEGANEURA_EXPECT(detail::same_elements(x.facts().shape, like.facts().shape),
                   "meganeura: reshape_as(x, like): both must have as many elements, whatever the symbols are worth", x,
                   like)
  if constexpr (detail::all_typed<A, B>::value) {
    return reshape<like.facts().shape>(x);
  } else {
    return reshape(x, like.facts().shape);
  }
}

namespace detail {
// [n, ..] as [n, .., 1, ..], so that it lies beside x from the axis on.
constexpr auto beside_axis(value auto each, value auto x, int axis) {
  return reshape(each, followed_by_ones(each.facts().shape, x.facts().shape.rank - axis));
}
}  // namespace detail

/// An axis of extent 1 put in at `axis` of the result: unsqueeze<-1>(x), or unsqueeze(x, -1).
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto unsqueeze(A x, Axis axis) {
  MEGANEURA_EXPECT((detail::normal_axis(axis, x.facts().shape.rank + 1) >= 0 && x.facts().shape.rank < max_rank),
                   "meganeura: unsqueeze<axis>(x): the result has no such axis", x)
  return detail::make<detail::describe_unsqueeze>(x, axis);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto unsqueeze(A x) {
  return unsqueeze(x, c<Axis>);
}

/// Axes first .. last as one: flatten<1> of [n, c, h, w] is [n, c h w].
template <value A, detail::axis_like First, detail::axis_like Last>
[[nodiscard]] constexpr auto flatten(A x, First first, Last last) {
  MEGANEURA_EXPECT((detail::axis_of(x, first) >= 0 && detail::axis_of(x, first) <= detail::axis_of(x, last)),
                   "meganeura: flatten<first, last>(x): x has no such axes", x)
  MEGANEURA_EXPECT(
      (detail::flattened(x.facts().shape, detail::axis_of(x, first), detail::axis_of(x, last)).coefficient >= 1),
      "meganeura: flatten<first, last>(x): an extent is a sum of at most 3 products of 4 symbols in all", x)
  return detail::make<detail::describe_flatten>(x, first, last);
}
template <int First = 1, int Last = -1, value A>
[[nodiscard]] constexpr auto flatten(A x) {
  return flatten(x, c<First>, c<Last>);
}

/// Axis i of the result is axis axes[i] of x: permute<2, 0, 1>(x), or permute(x, 2, 0, 1).
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto permute(A x, More... axes) {
  MEGANEURA_EXPECT(detail::is_permutation(x.facts().shape.rank, c<Axes>..., axes...),
                   "meganeura: permute<axes...>(x): each axis of x must be named exactly once", x)
  return detail::make<detail::permute_description<fixed<Axes>..., More...>>(x, c<Axes>..., axes...);
}

/// The last two axes exchanged.
template <value A>
[[nodiscard]] constexpr auto transpose(A x) {
  MEGANEURA_EXPECT(x.facts().shape.rank >= 2, "meganeura: transpose(x): x needs two axes", x)
  return detail::make<detail::describe_transpose>(x);
}

/// `count` elements along `axis` from `start`, every `step`-th: slice<-1, 0, 4>(x), or slice(x, -1, 0, 4). A start
/// below 0 counts from the end: slice<1, -1, 1>(x) is the last token of [batch, sequence, width]. The count may be a
/// symbol, if its bound is within the extent: slice<0, 0, sym<"sequence", 1024>>(table). errors: "the elements must lie
/// within the axis".
template <value A, detail::axis_like Axis, class Start, class Count, class Step = fixed<1>>
[[nodiscard]] constexpr auto slice(A x, Axis axis, Start start, Count count, Step step = {}) {
  MEGANEURA_EXPECT(detail::can_slice(x.facts().shape, detail::axis_of(x, axis), start, dim(count), step),
                   "meganeura: slice<axis, start, count, step>(x): the elements must lie within the axis, whatever its "
                   "symbols are worth",
                   x)
  return detail::make<detail::describe_slice>(x, axis, start, count, step);
}
template <int Axis, int Start, dim Count, int Step = 1, value A>
[[nodiscard]] constexpr auto slice(A x) {
  return slice(x, c<Axis>, c<Start>, c<Count>, c<Step>);
}

/// `low` elements of `value` before and `high` behind, along `axis`: pad<-1, 0, 1>(x), or pad(x, -1, 0, 1).
template <value A, detail::axis_like Axis, class Low, class High, class Number = fixed<detail::number(0.0)>>
[[nodiscard]] constexpr auto pad(A x, Axis axis, Low low, High high, Number filling = {}) {
  MEGANEURA_EXPECT(detail::can_pad(x.facts().shape, detail::axis_of(x, axis), low, high),
                   "meganeura: pad<axis, low, high>(x): x has no such axis, or a border is negative", x)
  MEGANEURA_EXPECT_HELD("pad<axis, low, high, value>(x)", x, detail::number(filling).value)
  return detail::make<detail::describe_pad>(x, axis, low, high, filling);
}
template <int Axis, int Low, int High, detail::number Value = 0.0, value A>
[[nodiscard]] constexpr auto pad(A x) {
  return pad(x, c<Axis>, c<Low>, c<High>, c<Value>);
}

/// Broadcast to a shape. Operators do it by themselves; this is for the other functions.
template <value A, class Shape>
[[nodiscard]] constexpr auto expand(A x, Shape shape) {
  MEGANEURA_EXPECT(detail::can_expand(x.facts().shape, detail::symbolic_of(shape)),
                   "meganeura: expand<dims>(x): trailing extents must be equal or 1", x)
  return detail::make<detail::describe_expand>(x, detail::as_symbolic(shape));
}
template <symbolic_shape Shape, value A>
[[nodiscard]] constexpr auto expand(A x) {
  return expand(x, c<Shape>);
}

/// Elements along `axis` in reverse order.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto flip(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: flip<axis>(x): x has no such axis", x)
  return detail::make<detail::describe_flip>(x, axis);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto flip(A x) {
  return flip(x, c<Axis>);
}

/// One behind the other along `axis`; every other extent agrees: concat<0>(a, b), or concat(c<0>, a, b).
template <detail::axis_like Axis, value A, value B>
[[nodiscard]] constexpr auto concat(Axis axis, A a, B b) {
  MEGANEURA_CHECK(a.facts().type == b.facts().type, (detail::dtypes_agree<a.facts().type, b.facts().type>),
                  "meganeura: concat<axis>(a, b): dtypes must agree; cast one operand", a, b)
  MEGANEURA_EXPECT(detail::axis_of(a, axis) >= 0, "meganeura: concat<axis>(a, b): a has no such axis", a, b)
  MEGANEURA_EXPECT(detail::can_concat(a.facts().shape, b.facts().shape, detail::axis_of(a, axis)),
                   "meganeura: concat<axis>(a, b): all extents but those along the axis must be equal", a, b)
  return detail::make<detail::describe_concat>(a, b, axis);
}
template <detail::axis_like Axis, value A, value B, value C, value... More>
[[nodiscard]] constexpr auto concat(Axis axis, A a, B b, C c, More... more) {
  return concat(axis, concat(axis, a, b), c, more...);
}
template <int Axis, value A, value B, value... More>
[[nodiscard]] constexpr auto concat(A a, B b, More... more) {
  return concat(c<Axis>, a, b, more...);
}

/// [.., heads width] -> [.., heads, width].
template <value A, class Heads>
[[nodiscard]] constexpr auto split_heads(A x, Heads heads) {
  MEGANEURA_EXPECT(detail::can_split_heads(x.facts().shape, heads),
                   "meganeura: split_heads<heads>(x): the last extent must be a multiple of heads", x)
  return detail::make<detail::describe_split_heads>(x, heads);
}
template <int Heads, value A>
[[nodiscard]] constexpr auto split_heads(A x) {
  return split_heads(x, c<Heads>);
}

/// [.., heads, width] -> [.., heads width].
template <value A>
[[nodiscard]] constexpr auto merge_heads(A x) {
  return flatten<-2, -1>(x);
}

}  // namespace meganeura::inline MEGANEURA_ABI
