// SPDX-License-Identifier: MIT
// Rows in the order of their values, and what stands at a place of that order.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/along.hpp>
#include <meganeura/ops/custom_gradient.hpp>
#include <meganeura/ops/rearrange.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// A share of the elements of a row, for quantile.
struct quantile_share {
  double of = 0.5;
  friend constexpr bool operator==(const quantile_share&, const quantile_share&) = default;
};

namespace detail {

constexpr node_spec describe_argsort(const facts& x, int axis, bool descending) {
  return node_of<op::argsort>(argsort_attribute{normal_axis(axis, x.shape.rank), descending}, x);
}
constexpr auto order_of(value auto x, int axis, bool descending) { return make<describe_argsort>(x, axis, descending); }

constexpr auto part_of(value auto x, int axis, std::int64_t start, std::int64_t count) {
  return make<describe_slice>(x, axis, start, dim(count), std::int64_t{1});
}
constexpr auto without_axis(value auto x, int axis) {
  return make<describe_reshape>(x, reduced_shape(x.facts().shape, 1u << normal_axis(axis, x.facts().shape.rank)));
}

// Whether the axis has at least `count` places, known while the model is written.
constexpr bool has_places(const symbolic_shape& shape, int axis, std::int64_t count) {
  axis = normal_axis(axis, shape.rank);
  return axis >= 0 && shape[axis].is_static() && count >= 1 && count <= shape[axis].coefficient;
}
constexpr std::int64_t places_of(const symbolic_shape& shape, int axis) {
  return shape[normal_axis(axis, shape.rank)].coefficient;
}

constexpr bool is_share(quantile_share share) { return share.of >= 0 && share.of <= 1; }

// `found`, or NaN for a row that holds one.
constexpr auto nan_or(value auto found, value auto x, int axis) {
  const auto most = stop_gradient(max(x, axis));
  return select(equal(most, most), found, most);
}

}  // namespace detail

namespace layers {

// The gradient goes back by the inverse of the order, which is the order of its places.
struct sort {
  static constexpr auto forward(value auto x, int axis, bool descending) {
    const auto order = detail::order_of(x, axis, descending);
    const auto pick = [&](value auto from) { return detail::make<detail::describe_take_along>(from, order, axis); };
    if (!is_float(x.facts().type)) return pick(x);
    const auto back = [&](value auto g, value auto, value auto) {
      return detail::make<detail::describe_take_along>(g, detail::order_of(order, axis, false), axis);
    };
    return custom_gradient(pick, back, x);
  }
};

// The places of the `count` largest, the largest first. A long row is cut into parts that workgroups sort side by side,
// and what leads them is sorted again, in the order of its places: equal elements stay in theirs.
struct top_places {
  static constexpr std::int64_t part = 2048;
  static constexpr auto forward(value auto x, std::int64_t count, int axis) {
    const symbolic_shape shape = x.facts().shape;
    const int along = detail::normal_axis(axis, shape.rank);
    const std::int64_t extent = detail::places_of(shape, along), parts = extent / part, rest = extent % part;
    const auto first = [&](value auto from, int at, std::int64_t most) {
      return detail::part_of(detail::order_of(from, at, true), at, 0, count < most ? count : most);
    };
    if (!shape[along].is_static() || parts < 2 || count > part / 8 || shape.rank == max_rank)
      return first(x, along, count);
    const auto rows = reshape(slice(x, along, 0, parts * part), detail::with_axes(shape, along, 1, {parts, part}));
    const auto found = first(rows, along + 1, count);
    const auto begin = detail::coordinates_of(found, found.facts().shape, along) * part;
    auto places = reshape(found + begin, detail::with_extent(shape, along, parts * count));
    if (rest > 0)
      places = concat(along, places, first(slice(x, along, parts * part, rest), along, rest) + parts * part);
    return take_along(places, forward(take_along(x, places, along), count, along), along);
  }
};

struct kthvalue {
  static constexpr auto forward(value auto x, std::int64_t k, int axis) {
    const auto place = detail::part_of(detail::order_of(x, axis, false), axis, k - 1, 1);
    return detail::without_axis(detail::make<detail::describe_take_along>(x, place, axis), axis);
  }
};

struct median {
  static constexpr auto forward(value auto x, int axis) {
    const auto found = kthvalue::forward(x, (detail::places_of(x.facts().shape, axis) + 1) / 2, axis);
    return is_float(x.facts().type) ? detail::nan_or(found, x, axis) : found;
  }
};

struct row_quantile {
  static constexpr auto forward(value auto x, int axis, quantile_share share) {
    const auto wide = detail::widened(x);
    const std::int64_t last = detail::places_of(x.facts().shape, axis) - 1;
    const double at = share.of * static_cast<double>(last);
    const auto low = static_cast<std::int64_t>(at);
    const auto below = kthvalue::forward(wide, low + 1, axis);
    const double weight = at - static_cast<double>(low);
    if (weight == 0) return detail::narrowed(detail::nan_or(below, wide, axis), x);
    const auto above = kthvalue::forward(wide, low + 2, axis);
    return detail::narrowed(detail::nan_or(below + (above - below) * weight, wide, axis), x);
  }
};

}  // namespace layers

/// The places of x's elements along `axis` in the order of their values, the smallest first or with `descending` the
/// largest: argsort<-1>(x), argsort(x, -1, c<true>), at run time argsort(x, axis, true). Equal elements stay in their
/// order. NaN is larger than every number.
/// shapes: unchanged. dtypes: numbers -> i32. gradient: none. cost: log2(n) (log2(n) + 1) / 2 passes over the row by a
/// workgroup. errors: "x has no such axis"; a row too long for a driver that ends long loops, see kernels/argsort.hpp.
/// source: torch.argsort with stable=True.
template <value A, detail::axis_like Axis, class Descending = fixed<false>>
[[nodiscard]] constexpr auto argsort(A x, Axis axis, Descending descending = {}) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: argsort<axis>(x): x has no such axis", x)
  return detail::make<detail::describe_argsort>(x, axis, descending);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto argsort(A x) {
  return argsort(x, c<Axis>);
}

/// x's elements along `axis` in the order of argsort. shapes, dtypes: unchanged. gradient: back to where each came
/// from. Otherwise as argsort.
template <value A, detail::axis_like Axis, class Descending = fixed<false>>
[[nodiscard]] constexpr auto sort(A x, Axis axis, Descending descending = {}) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: sort<axis>(x): x has no such axis", x)
  return detail::layer<layers::sort>(fixed_text<"">{}, x, axis, descending);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto sort(A x) {
  return sort(x, c<Axis>);
}

/// The `count` largest elements along `axis`, the largest first, and their places, as results "values" and "places":
/// topk<3, -1>(x), or topk(x, 3, -1). The first of equal ones comes first; NaN is larger than every number.
/// shapes: [.., n, ..] -> [.., count, ..]. gradient: to the elements chosen. cost: argsort's; a row of 4,096 or more,
/// of which 256 or fewer are asked, is sorted in parts by many workgroups. errors: "the axis, of an extent that is
/// known, must hold that many".
template <value A, class Count, detail::axis_like Axis>
[[nodiscard]] constexpr auto topk(A x, Count count, Axis axis) {
  MEGANEURA_CHECK((detail::has_places(x.facts().shape, axis, count)),
                  (detail::holds_of<detail::has_places(x.facts().shape, axis, count)>),
                  "meganeura: topk<count, axis>(x): the axis, of an extent that is known, must hold that many", x)
  const auto places = detail::layer<layers::top_places>(fixed_text<"">{}, x, count, axis);
  return results<"values", "places">(take_along(x, places, axis), places);
}
template <auto Count, int Axis = -1, value A>
[[nodiscard]] constexpr auto topk(A x) {
  return topk(x, c<Count>, c<Axis>);
}

/// The element at place `k` of the order along `axis`, the smallest being at 1: kthvalue<2, -1>(x), or
/// kthvalue(x, 2, -1). shapes: [.., n, ..] -> [.., ..]. gradient: to the element. errors: as topk.
/// source: the values of torch.kthvalue.
template <value A, class K, detail::axis_like Axis>
[[nodiscard]] constexpr auto kthvalue(A x, K k, Axis axis) {
  MEGANEURA_EXPECT((detail::has_places(x.facts().shape, axis, k)),
                   "meganeura: kthvalue<k, axis>(x): the axis, of an extent that is known, must hold that many", x)
  return detail::layer<layers::kthvalue>(fixed_text<"">{}, x, k, axis);
}
template <auto K, int Axis = -1, value A>
[[nodiscard]] constexpr auto kthvalue(A x) {
  return kthvalue(x, c<K>, c<Axis>);
}

/// The element in the middle of the order along `axis`, of two the smaller; NaN for a row that holds one.
/// shapes: [.., n, ..] -> [.., ..]. gradient: to the element. errors: "x has no such axis, or its extent is not known".
/// source: the values of torch.median.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto median(A x, Axis axis) {
  MEGANEURA_EXPECT_KNOWN_AXIS("median<axis>(x)", x, axis)
  return detail::layer<layers::median>(fixed_text<"">{}, x, axis);
}
template <int Axis = -1, value A>
[[nodiscard]] constexpr auto median(A x) {
  return median(x, c<Axis>);
}

/// The value below which the share `of` of a row lies, between two elements in proportion: quantile<-1>(x,
/// c<quantile_share{0.25}>), or quantile(x, quantile_share{0.25}, -1). NaN for a row that holds one.
/// shapes: [.., n, ..] -> [.., ..]. dtypes: floats, computed in f32. gradient: to the two elements. errors: "the share
/// must lie between 0 and 1", as median, "x must be floats". source: torch.quantile, linear.
template <value A, class Share, detail::axis_like Axis>
[[nodiscard]] constexpr auto quantile(A x, Share share, Axis axis) {
  MEGANEURA_EXPECT_KNOWN_AXIS("quantile<axis>(x, share)", x, axis)
  MEGANEURA_EXPECT(detail::is_share(share), "meganeura: quantile<axis>(x, share): the share must lie between 0 and 1",
                   x)
  MEGANEURA_EXPECT_FLOATS("quantile<axis>(x, share)", x)
  return detail::layer<layers::row_quantile>(fixed_text<"">{}, x, axis, share);
}
template <int Axis, value A, class Share>
[[nodiscard]] constexpr auto quantile(A x, Share share) {
  return quantile(x, share, c<Axis>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
