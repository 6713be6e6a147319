// SPDX-License-Identifier: MIT
// Reductions over axes that are part of the type.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <int... Axes>
constexpr int axis_bits(int rank) {
  return ((1 << normal_axis(Axes, rank)) | ... | 0);
}

constexpr symbolic_shape reduced_shape(const symbolic_shape& shape, int axes) {
  symbolic_shape result;
  for (int i = 0; i < shape.rank; ++i) {
    if (!(axes >> i & 1)) result.push_back(shape[i]);
  }
  return result;
}

template <reduction Kind, int... Axes, auto A>
constexpr auto reduce(expr<A> a) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  static_assert((axis_exists<Axes, shape.rank> && ...), "meganeura: reduce<axes...>(x): x has no such axis");
  if constexpr ((axis_exists<Axes, shape.rank> && ...)) {
    constexpr int axes = axis_bits<Axes...>(shape.rank);
    return apply<with_function(
                     make_node(primitive::reduce, A.root().type, interned_shape<reduced_shape(shape, axes)>, axes),
                     static_cast<int>(Kind)),
                 A>();
  } else {
    return a;
  }
}

}  // namespace detail

/// Sum over axes, which disappear; negative axes count from the end. sum<-1>(x).
/// shapes: [.., n, ..] -> [.., ..]. cost: reads x once, one flop an element. errors: "x has no such axis".
template <int... Axes, auto A>
[[nodiscard]] constexpr auto sum(expr<A> x) {
  return detail::reduce<reduction::sum, Axes...>(x);
}

template <int... Axes, auto A>
[[nodiscard]] constexpr auto max(expr<A> x) {
  return detail::reduce<reduction::max, Axes...>(x);
}

template <int... Axes, auto A>
[[nodiscard]] constexpr auto min(expr<A> x) {
  return detail::reduce<reduction::min, Axes...>(x);
}

template <int... Axes, auto A>
[[nodiscard]] constexpr auto product(expr<A> x) {
  return detail::reduce<reduction::product, Axes...>(x);
}

/// Mean over axes. The number of elements may hold symbols: it is a constant once they are bound.
template <int... Axes, auto A>
[[nodiscard]] constexpr auto mean(expr<A> x) {
  constexpr int axes = detail::axis_bits<Axes...>(A.root().shape->rank);
  constexpr typed_node factor =
      detail::make_node(primitive::reciprocal_count, A.root().type, detail::interned_shape<symbolic_shape{}>, axes);
  return sum<Axes...>(x) * detail::apply<factor, A>();
}

/// Mean of all elements, rank 0.
template <auto A>
[[nodiscard]] constexpr auto mean_of_all(expr<A> x) {
  constexpr int rank = A.root().shape->rank;
  constexpr int axes = (1 << rank) - 1;
  constexpr typed_node total = detail::with_function(
      detail::make_node(primitive::reduce, A.root().type, detail::interned_shape<symbolic_shape{}>, axes),
      static_cast<int>(reduction::sum));
  constexpr typed_node factor =
      detail::make_node(primitive::reciprocal_count, A.root().type, detail::interned_shape<symbolic_shape{}>, axes);
  if constexpr (rank == 0) {
    return x;
  } else {
    return detail::apply<total, A>() * detail::apply<factor, A>();
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
