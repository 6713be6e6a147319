// SPDX-License-Identifier: MIT
// Sums, products, extrema and logarithms of sums of exponentials of what stands before along an axis.
#pragma once
#include <meganeura/ops/along.hpp>
#include <meganeura/ops/statistics.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

constexpr node_spec describe_cumulative(const facts& x, int axis, reduce_kind kind, bool reverse) {
  return node_of<op::cumulative>(cumulative_attribute{kind, normal_axis(axis, x.shape.rank), reverse}, x);
}

}  // namespace detail

namespace layers {

// A row for each place, of which what stands behind the place counts as exp(-inf).
struct logcumsumexp {
  static constexpr auto forward(value auto x, int axis) {
    const int along = detail::normal_axis(axis, x.facts().shape.rank);
    const dim extent = x.facts().shape[along];
    const symbolic_shape places =
        detail::followed_by_ones(detail::extents_of(extent, extent), x.facts().shape.rank + 1 - along);
    const auto behind = less(detail::coordinates_of(x, places, 0), detail::coordinates_of(x, places, 1));
    const auto rows = select(behind, -__builtin_inf(), unsqueeze(detail::widened(x), along));
    return detail::narrowed(logsumexp::forward(rows, 1 << (along + 1)), x);
  }
};

}  // namespace layers

/// The sum of the elements before along `axis` and the element itself: cumsum<-1>(x), or cumsum(x, -1); with `reverse`
/// of those behind, cumsum(x, -1, c<true>). Errors of a sum of floats do not grow with its length.
/// shapes: unchanged. dtypes: numbers; f16 is added up in f32, integers modulo 2^32. cost: reads and writes x once.
/// gradient: the same from the other end. errors: "x has no such axis". source: torch.cumsum.
template <value A, detail::axis_like Axis, class Reverse = fixed<false>>
[[nodiscard]] constexpr auto cumsum(A x, Axis axis, Reverse reverse = {}) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: cumsum<axis>(x): x has no such axis", x)
  MEGANEURA_EXPECT_SUMS("cumsum<axis>(x)", x)
  return detail::make<detail::describe_cumulative>(x, axis, c<reduce_kind::sum>, reverse);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto cumsum(A x) {
  return cumsum(x, c<Axis>);
}

/// The product of the elements before along `axis` and the element itself, or with `reverse` of those behind. The
/// gradient is right where elements are 0, too. Otherwise as cumsum. source: torch.cumprod.
template <value A, detail::axis_like Axis, class Reverse = fixed<false>>
[[nodiscard]] constexpr auto cumprod(A x, Axis axis, Reverse reverse = {}) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: cumprod<axis>(x): x has no such axis", x)
  MEGANEURA_EXPECT_SUMS("cumprod<axis>(x)", x)
  return detail::make<detail::describe_cumulative>(x, axis, c<reduce_kind::product>, reverse);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto cumprod(A x) {
  return cumprod(x, c<Axis>);
}

/// log(sum(exp(x))) of the elements before along `axis` and the element itself, exact also where later ones are far
/// larger: logcumsumexp<-1>(x), or logcumsumexp(x, -1). -inf while there is nothing else, without gradient, where
/// PyTorch's is NaN. shapes: unchanged. dtypes: floats, computed in f32. cost: looks at all n of a row for each
/// element. errors: "x has no such axis, or no room for another", "x must be floats". source: torch.logcumsumexp.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto logcumsumexp(A x, Axis axis) {
  MEGANEURA_EXPECT((detail::axis_of(x, axis) >= 0 && x.facts().shape.rank < max_rank),
                   "meganeura: logcumsumexp<axis>(x): x has no such axis, or no room for another", x)
  MEGANEURA_EXPECT_FLOATS("logcumsumexp<axis>(x)", x)
  return detail::layer<layers::logcumsumexp>(fixed_text<"">{}, x, axis);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto logcumsumexp(A x) {
  return logcumsumexp(x, c<Axis>);
}

/// The place of the largest of the elements before along `axis` and the element itself, of equal ones the last; the
/// last NaN is larger than every number. shapes: unchanged. dtypes: numbers -> i32. gradient: none. errors: as cumsum.
/// source: the indices of torch.cummax.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto cumargmax(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: cumargmax<axis>(x): x has no such axis", x)
  return detail::make<detail::describe_cumulative>(x, axis, c<reduce_kind::arg_max>, c<false>);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto cumargmax(A x) {
  return cumargmax(x, c<Axis>);
}

/// The place of the smallest; the last NaN is smaller than every number. Otherwise as cumargmax.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto cumargmin(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: cumargmin<axis>(x): x has no such axis", x)
  return detail::make<detail::describe_cumulative>(x, axis, c<reduce_kind::arg_min>, c<false>);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto cumargmin(A x) {
  return cumargmin(x, c<Axis>);
}

/// The largest of the elements before along `axis` and the element itself; NaN from the first NaN on.
/// shapes, dtypes: unchanged. gradient: to the element at cumargmax; it looks at all n of a row for each element.
/// errors: as cumsum. source: the values of torch.cummax.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto cummax(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: cummax<axis>(x): x has no such axis", x)
  return take_along(x, cumargmax(x, axis), axis);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto cummax(A x) {
  return cummax(x, c<Axis>);
}

/// The smallest of them; NaN from the first NaN on. Otherwise as cummax.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto cummin(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: cummin<axis>(x): x has no such axis", x)
  return take_along(x, cumargmin(x, axis), axis);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto cummin(A x) {
  return cummin(x, c<Axis>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
