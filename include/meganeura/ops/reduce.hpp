// SPDX-License-Identifier: MIT
// Reductions over axes that are part of the type.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// No axes named: all of them, as in NumPy and PyTorch. Axes that do not exist are left out: the callers' checks have
// reported them.
template <int... Axes>
constexpr int axis_bits(int rank) {
  if (sizeof...(Axes) == 0) return (1 << rank) - 1;
  return ((normal_axis(Axes, rank) >= 0 ? 1 << normal_axis(Axes, rank) : 0) | ... | 0);
}

// Axes that do not exist are left out.
template <int Rank, int... Axes>
constexpr bool axes_differ() {
  int named[max_rank + 1]{};
  ((axis_exists<Axes, Rank> ? ++named[normal_axis(Axes, Rank)] : 0), ...);
  for (const int times : named) {
    if (times > 1) return false;
  }
  return true;
}

constexpr symbolic_shape reduced_shape(const symbolic_shape& shape, int axes) {
  symbolic_shape result;
  for (int i = 0; i < shape.rank; ++i) {
    if (!(axes >> i & 1)) result.push_back(shape[i]);
  }
  return result;
}

template <reduce_kind Kind, int... Axes, auto A>
constexpr auto reduce(expr<A> a) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  constexpr int axes = axis_bits<Axes...>(shape.rank);
  static_assert((axis_exists<Axes, shape.rank> && ...), "meganeura: reduce<axes...>(x): x has no such axis");
  static_assert(axes_differ<shape.rank, Axes...>(), "meganeura: reduce<axes...>(x): an axis is named twice");
  if constexpr (axes != 0 && (axis_exists<Axes, shape.rank> && ...)) {
    return apply<with_function(
                     make_node(primitive::reduce, A.root().type, interned_shape<reduced_shape(shape, axes)>, axes),
                     static_cast<int>(Kind)),
                 A>();
  } else {
    return a;
  }
}

}  // namespace detail

/// Sum over axes, which disappear; negative axes count from the end: sum<-1>(x). Without axes, over all: sum(x) is one
/// number. max, min, product and mean likewise.
/// shapes: [.., n, ..] -> [.., ..]. cost: reads x once, one flop an element. errors: "x has no such axis",
/// "an axis is named twice".
template <int... Axes, auto A>
[[nodiscard]] constexpr auto sum(expr<A> x) {
  return detail::reduce<reduce_kind::sum, Axes...>(x);
}

template <int... Axes, auto A>
[[nodiscard]] constexpr auto max(expr<A> x) {
  return detail::reduce<reduce_kind::max, Axes...>(x);
}

template <int... Axes, auto A>
[[nodiscard]] constexpr auto min(expr<A> x) {
  return detail::reduce<reduce_kind::min, Axes...>(x);
}

template <int... Axes, auto A>
[[nodiscard]] constexpr auto product(expr<A> x) {
  return detail::reduce<reduce_kind::product, Axes...>(x);
}

/// Mean over axes. The number of elements may hold symbols: it is a constant once they are bound. The mean of f16 is
/// computed in f32 and rounded once.
/// errors: as sum, and "x must be floats": a share of 1/n is no integer.
template <int... Axes, auto A>
[[nodiscard]] constexpr auto mean(expr<A> x) {
  constexpr int rank = A.root().shape->rank;
  constexpr int axes = detail::axis_bits<Axes...>(rank);
  constexpr typed_node factor = detail::make_node(primitive::reciprocal_count, compute_type(A.root().type),
                                                  detail::interned_shape<symbolic_shape{}>, axes);
  static_assert((detail::axis_exists<Axes, rank> && ...), "meganeura: mean<axes...>(x): x has no such axis");
  static_assert(detail::axes_differ<rank, Axes...>(), "meganeura: mean<axes...>(x): an axis is named twice");
  static_assert(is_float(A.root().type), "meganeura: mean<axes...>(x): x must be floats; cast it");
  if constexpr (axes != 0 && is_float(A.root().type) && (detail::axis_exists<Axes, rank> && ...) &&
                detail::axes_differ<rank, Axes...>()) {
    return cast<A.root().type>(sum<Axes...>(detail::widened(x)) * detail::apply<factor, A>());
  } else {
    return x;
  }
}

/// Mean of all elements, rank 0: mean(x) by another name.
template <auto A>
[[nodiscard]] constexpr auto mean_of_all(expr<A> x) {
  return mean(x);
}

}  // namespace meganeura::inline MEGANEURA_ABI
