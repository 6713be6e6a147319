// SPDX-License-Identifier: MIT
// Other looks at the same elements: reshape, permute, slice, pad, expand, flip, concat.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// How often a symbol stands in a shape.
constexpr int symbol_count(const symbolic_shape& shape, const symbol* name) {
  int count = 0;
  for (int i = 0; i < shape.rank; ++i) count += shape[i].name == name ? 1 : 0;
  return count;
}

constexpr bool same_symbols(const symbolic_shape& a, const symbolic_shape& b) {
  for (int i = 0; i < a.rank; ++i) {
    if (a[i].name && symbol_count(a, a[i].name) != symbol_count(b, a[i].name)) return false;
  }
  for (int i = 0; i < b.rank; ++i) {
    if (b[i].name && symbol_count(a, b[i].name) != symbol_count(b, b[i].name)) return false;
  }
  return true;
}

template <std::int64_t Left, std::int64_t Right, bool SameSymbols>
inline constexpr bool elements_agree = Left == Right&& SameSymbols;

// Reshape without the check, for functions that made the shape themselves.
template <symbolic_shape Shape, auto A>
constexpr auto reshaped(expr<A> x) {
  if constexpr (Shape == *A.root().shape) {
    return x;
  } else if constexpr (A.root().kind == primitive::reshape) {  // of a reshape: one reshape
    return reshaped<Shape>(at_root<A, A.root().operand(0)>());
  } else {
    return apply<make_node(primitive::reshape, A.root().type, interned_shape<Shape>), A>();
  }
}

template <int Rank, int... Axes>
constexpr bool is_permutation() {
  int seen = 0;
  ((seen |= axis_exists<Axes, Rank> ? 1 << normal_axis(Axes, Rank) : 0), ...);
  return sizeof...(Axes) == Rank && seen == (1 << Rank) - 1;
}

template <int... Axes>
constexpr symbolic_shape permuted_shape(const symbolic_shape& shape) {
  symbolic_shape result;
  (result.push_back(shape[normal_axis(Axes, shape.rank)]), ...);
  return result;
}

template <int... Axes>
constexpr integer_list axis_list(int rank) {
  integer_list list;
  int at = 0;
  ((list.values[at++] = normal_axis(Axes, rank)), ...);
  return list;
}

constexpr integer_list composed(const integer_list& outer, const integer_list& inner, int rank) {
  integer_list result;
  for (int i = 0; i < rank; ++i) result.values[i] = inner.values[outer.values[i]];
  return result;
}

constexpr bool is_identity(const integer_list& axes, int rank) {
  for (int i = 0; i < rank; ++i) {
    if (axes.values[i] != i) return false;
  }
  return true;
}

template <integer_list Axes, symbolic_shape Shape, auto A>
constexpr auto permuted(expr<A> x) {
  if constexpr (is_identity(Axes, Shape.rank)) {
    return x;
  } else if constexpr (A.root().kind == primitive::permute) {  // transpose of transpose
    return permuted<composed(Axes, *A.root().list, Shape.rank), Shape>(at_root<A, A.root().operand(0)>());
  } else {
    return apply<with_list(make_node(primitive::permute, A.root().type, interned_shape<Shape>), interned_list<Axes>),
                 A>();
  }
}

constexpr integer_list last_two_exchanged(int rank) {
  integer_list list;
  for (int i = 0; i < rank; ++i) list.values[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
  return list;
}

constexpr integer_list borders(int axis, int low, int high) {
  integer_list list;
  list.values[axis] = low;
  list.values[max_rank + axis] = high;
  return list;
}

constexpr typed_node with_value(typed_node base, double value) {
  base.value = value;
  return base;
}

constexpr symbolic_shape with_extent(symbolic_shape shape, int axis, dim extent) {
  shape[axis] = extent;
  return shape;
}

constexpr symbolic_shape with_axis(const symbolic_shape& shape, int axis) {
  symbolic_shape result;
  for (int i = 0; i <= shape.rank; ++i) {
    if (i == axis) result.push_back(1);
    if (i < shape.rank) result.push_back(shape[i]);
  }
  return result;
}

// Trailing axes from `first` multiplied into one. At most one of them may be a symbol: a dim holds one.
constexpr bool can_flatten(const symbolic_shape& shape, int first, int last) {
  int symbols = 0;
  for (int i = first; i <= last; ++i) symbols += shape[i].is_static() ? 0 : 1;
  return symbols <= 1;
}

constexpr symbolic_shape flattened(const symbolic_shape& shape, int first, int last) {
  symbolic_shape result;
  for (int i = 0; i < first; ++i) result.push_back(shape[i]);
  dim product = 1;
  for (int i = first; i <= last; ++i) {
    product = {product.coefficient * shape[i].coefficient, product.name ? product.name : shape[i].name};
  }
  result.push_back(product);
  for (int i = last + 1; i < shape.rank; ++i) result.push_back(shape[i]);
  return result;
}

constexpr bool can_concat(const symbolic_shape& a, const symbolic_shape& b, int axis) {
  return axis >= 0 && a.rank == b.rank && a[axis].name == b[axis].name && with_extent(b, axis, a[axis]) == a;
}

// The last axis split into [outer, inner].
constexpr symbolic_shape split_last(const symbolic_shape& shape, dim outer, dim inner) {
  symbolic_shape result = with_extent(shape, shape.rank - 1, outer);
  result.push_back(inner);
  return result;
}

}  // namespace detail

/// The same elements in row-major order under another shape.
/// errors: "the number of elements must stay".
template <symbolic_shape Shape, auto A>
[[nodiscard]] constexpr auto reshape(expr<A> x) {
  constexpr const symbolic_shape& from = *A.root().shape;
  static_assert(detail::elements_agree<from.coefficient(), Shape.coefficient(), detail::same_symbols(from, Shape)>,
                "meganeura: reshape<dims>(x): the number of elements must stay");
  return detail::reshaped<Shape>(x);
}

/// An axis of extent 1 put in at `Axis` of the result.
template <int Axis, auto A>
[[nodiscard]] constexpr auto unsqueeze(expr<A> x) {
  constexpr int rank = A.root().shape->rank + 1;
  constexpr bool fits = detail::axis_exists<Axis, rank> && rank <= max_rank;
  static_assert(fits, "meganeura: unsqueeze<axis>(x): the result has no such axis");
  if constexpr (fits) {
    return detail::reshaped<detail::with_axis(*A.root().shape, detail::normal_axis(Axis, rank))>(x);
  } else {
    return x;
  }
}

/// Axes First .. Last as one: flatten<1> of [n, c, h, w] is [n, c h w].
template <int First = 1, int Last = -1, auto A>
[[nodiscard]] constexpr auto flatten(expr<A> x) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  constexpr int first = detail::normal_axis(First, shape.rank), last = detail::normal_axis(Last, shape.rank);
  constexpr bool exist = first >= 0 && first <= last, fits = exist && detail::can_flatten(shape, first, last);
  static_assert(exist, "meganeura: flatten<first, last>(x): x has no such axes");
  static_assert(!exist || fits, "meganeura: flatten<first, last>(x): at most one of the axes may be a symbol");
  if constexpr (fits) {
    return detail::reshaped<detail::flattened(shape, first, last)>(x);
  } else {
    return x;
  }
}

/// Axis i of the result is axis Axes[i] of x.
template <int... Axes, auto A>
[[nodiscard]] constexpr auto permute(expr<A> x) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  constexpr bool valid = detail::is_permutation<shape.rank, Axes...>();
  static_assert(valid, "meganeura: permute<axes...>(x): each axis of x must be named exactly once");
  if constexpr (valid) {
    return detail::permuted<detail::axis_list<Axes...>(shape.rank), detail::permuted_shape<Axes...>(shape)>(x);
  } else {
    return x;
  }
}

/// The last two axes exchanged.
template <auto A>
[[nodiscard]] constexpr auto transpose(expr<A> x) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  static_assert(shape.rank >= 2, "meganeura: transpose(x): x needs two axes");
  if constexpr (shape.rank >= 2) {
    constexpr detail::integer_list axes = detail::last_two_exchanged(shape.rank);
    constexpr symbolic_shape result =
        detail::with_extent(detail::with_extent(shape, shape.rank - 1, shape.last(1)), shape.rank - 2, shape.last());
    return detail::permuted<axes, result>(x);
  } else {
    return x;
  }
}

/// `Count` elements along `Axis` from `Start`, every `Step`-th.
template <int Axis, int Start, int Count, int Step = 1, auto A>
[[nodiscard]] constexpr auto slice(expr<A> x) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  constexpr int axis = detail::normal_axis(Axis, shape.rank);
  constexpr bool fits = axis >= 0 && shape[axis].is_static() && Start >= 0 && Count >= 1 && Step >= 1 &&
                        Start + (Count - std::int64_t{1}) * Step < shape[axis].coefficient;
  static_assert(fits,
                "meganeura: slice<axis, start, count, step>(x): the elements must lie within an axis of known extent");
  if constexpr (fits) {
    constexpr detail::integer_list list{{axis, Start, Count, Step}};
    return detail::apply<detail::with_list(
                             detail::make_node(primitive::slice, A.root().type,
                                               detail::interned_shape<detail::with_extent(shape, axis, Count)>),
                             detail::interned_list<list>),
                         A>();
  } else {
    return x;
  }
}

/// `Low` elements of `Value` before and `High` behind, along `Axis`.
template <int Axis, int Low, int High, detail::number Value = 0.0, auto A>
[[nodiscard]] constexpr auto pad(expr<A> x) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  constexpr int axis = detail::normal_axis(Axis, shape.rank);
  constexpr bool fits = axis >= 0 && shape[axis].is_static() && Low >= 0 && High >= 0;
  static_assert(fits, "meganeura: pad<axis, low, high>(x): needs an axis of known extent and no negative border");
  static_assert(detail::dtype_holds<A.root().type, Value>,
                "meganeura: pad<axis, low, high, value>(x): an integer takes whole numbers within its range");
  if constexpr (fits) {
    constexpr symbolic_shape result = detail::with_extent(shape, axis, shape[axis].coefficient + Low + High);
    constexpr typed_node base = detail::with_value(
        detail::make_node(primitive::pad, A.root().type, detail::interned_shape<result>), Value.value);
    return detail::apply<detail::with_list(base, detail::interned_list<detail::borders(axis, Low, High)>), A>();
  } else {
    return x;
  }
}

/// Broadcast to a shape. Operators do it by themselves; this is for the other functions.
template <symbolic_shape Shape, auto A>
[[nodiscard]] constexpr auto expand(expr<A> x) {
  constexpr const symbolic_shape& from = *A.root().shape;
  static_assert(detail::broadcast(from, Shape) == Shape && from.rank <= Shape.rank,
                "meganeura: expand<dims>(x): trailing extents must be equal or 1");
  if constexpr (from == Shape) {
    return x;
  } else {
    return detail::apply<detail::make_node(primitive::expand, A.root().type, detail::interned_shape<Shape>), A>();
  }
}

/// Elements along `Axis` in reverse order.
template <int Axis, auto A>
[[nodiscard]] constexpr auto flip(expr<A>) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  static_assert(detail::axis_exists<Axis, shape.rank>, "meganeura: flip<axis>(x): x has no such axis");
  return detail::apply<
      detail::make_node(primitive::flip, A.root().type, A.root().shape, detail::normal_axis(Axis, shape.rank)), A>();
}

/// One behind the other along `Axis`; every other extent agrees.
template <int Axis, auto A, auto B, class... More>
[[nodiscard]] constexpr auto concat(expr<A> a, expr<B>, More... more) {
  constexpr const symbolic_shape &left = *A.root().shape, &right = *B.root().shape;
  constexpr int axis = detail::normal_axis(Axis, left.rank);
  constexpr bool fits = detail::can_concat(left, right, axis);
  static_assert(axis >= 0, "meganeura: concat<axis>(a, b): a has no such axis");
  static_assert(axis < 0 || fits, "meganeura: concat<axis>(a, b): all extents but those along the axis must be equal");
  static_assert(detail::dtypes_agree<A.root().type, B.root().type>,
                "meganeura: concat<axis>(a, b): dtypes must agree; cast one operand");
  if constexpr (fits) {
    constexpr dim joined{left[axis].coefficient + right[axis].coefficient, left[axis].name};
    constexpr auto both =
        detail::apply<detail::make_node(primitive::concat, A.root().type,
                                        detail::interned_shape<detail::with_extent(left, axis, joined)>, axis),
                      A, B>();
    if constexpr (sizeof...(More) > 0) {
      return concat<Axis>(both, more...);
    } else {
      return both;
    }
  } else {
    return a;
  }
}

/// [.., heads width] -> [.., heads, width].
template <int Heads, auto A>
[[nodiscard]] constexpr auto split_heads(expr<A> x) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  constexpr bool fits =
      Heads >= 1 && shape.rank >= 1 && shape.rank < max_rank && shape.last().coefficient % (Heads < 1 ? 1 : Heads) == 0;
  static_assert(fits, "meganeura: split_heads<heads>(x): the last extent must be a multiple of heads");
  if constexpr (fits) {
    return detail::reshaped<detail::split_last(shape, Heads, dim{shape.last().coefficient / Heads, shape.last().name})>(
        x);
  } else {
    return x;
  }
}

/// [.., heads, width] -> [.., heads width].
template <auto A>
[[nodiscard]] constexpr auto merge_heads(expr<A> x) {
  return flatten<-2, -1>(x);
}

}  // namespace meganeura::inline MEGANEURA_ABI
