// SPDX-License-Identifier: MIT
// Where the extremum of a row is, and how many of its elements a condition holds for.
#pragma once
#include <meganeura/ops/reduce.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// Of rank 0 there is one element, at place 0.
constexpr node_spec describe_place_of(const facts& x, reduce_kind kind, int bits) {
  if (bits == 0) return constant_spec(0, dtype::i32);
  return node_of(op::reduce, dtype::i32, reduced_shape(x.shape, static_cast<std::uint32_t>(bits)),
                 reduce_attribute{kind, static_cast<std::uint32_t>(bits)});
}
template <class... Axes>
constexpr node_spec describe_place(const facts& x, reduce_kind kind, Axes... axes) {
  return describe_place_of(x, kind, axis_bits(x.shape.rank, axes...));
}
template <class... T>
inline constexpr auto place_description = &describe_place<std::conditional_t<true, int, T>...>;

// 1 where a condition holds, or a number is not 0, and 0 elsewhere, as i32.
constexpr auto ones_where(value auto x) { return select(x, constant<1, dtype::i32>, constant<0, dtype::i32>); }

}  // namespace detail

/// The place of the largest element along the axes, which disappear: argmax<-1>(x), or argmax(x, -1). Of several axes
/// and without any, over all, it is the row-major position among them. The first of equal elements; the first NaN is
/// larger than every number. shapes: [.., n, ..] -> [.., ..]. dtypes: numbers -> i32. gradient: none.
/// errors: "x has no such axis", "an axis is named twice".
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto argmax(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("argmax<axes...>(x)", x, c<Axes>..., axes...)
  return detail::make<detail::place_description<fixed<Axes>..., More...>>(x, c<reduce_kind::arg_max>, c<Axes>...,
                                                                          axes...);
}

/// The place of the smallest element; the first NaN is smaller than every number. Otherwise as argmax.
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto argmin(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("argmin<axes...>(x)", x, c<Axes>..., axes...)
  return detail::make<detail::place_description<fixed<Axes>..., More...>>(x, c<reduce_kind::arg_min>, c<Axes>...,
                                                                          axes...);
}

/// How many elements along the axes a condition holds for, or are numbers other than 0 (a NaN is):
/// count_nonzero<-1>(less(x, y)). Without axes, of all. shapes: as argmax. dtypes: conditions, numbers -> i32.
/// gradient: none. errors: as argmax.
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto count_nonzero(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("count_nonzero<axes...>(x)", x, c<Axes>..., axes...)
  return sum<Axes...>(detail::ones_where(x), axes...);
}

/// 1 where a condition holds for some element along the axes, otherwise 0: conditions are not stored. Otherwise as
/// count_nonzero.
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto any(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("any<axes...>(x)", x, c<Axes>..., axes...)
  return max<Axes...>(detail::ones_where(x), axes...);
}

/// 1 where a condition holds for every element along the axes, otherwise 0. Otherwise as count_nonzero.
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto all(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("all<axes...>(x)", x, c<Axes>..., axes...)
  return min<Axes...>(detail::ones_where(x), axes...);
}

}  // namespace meganeura::inline MEGANEURA_ABI
