// SPDX-License-Identifier: MIT
// Lengths of rows, and how far two rows are apart.
#pragma once
#include <meganeura/ops/statistics.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// Which norm: norm<-1>(x, c<norm_order{1}>) sums absolute values; an infinity takes the largest or, below 0, the
/// smallest; 0 counts what is not 0.
struct norm_order {
  double p = 2;
  friend constexpr bool operator==(const norm_order&, const norm_order&) = default;
};

namespace detail {

template <class T>
concept order_like = std::is_convertible_v<T, norm_order>;

inline constexpr double infinite_order = __builtin_inf();

constexpr auto norm_of(value auto wide, int axes, double p) {
  if (p == 2) return root_unless_zero(reduced(wide * wide, reduce_kind::sum, axes));
  if (p == 0) return reduced(abs(sign(wide)), reduce_kind::sum, axes);
  const auto size = abs(wide);
  if (p == infinite_order) return reduced(size, reduce_kind::max, axes);
  if (p == -infinite_order) return reduced(size, reduce_kind::min, axes);
  if (p == 1) return reduced(size, reduce_kind::sum, axes);
  const auto to_power = [](value auto x, double exponent) {
    const double at_zero = exponent > 0 ? 0 : infinite_order;
    return unless_zero(x, at_zero, [&](value auto y) { return power(y, exponent); });
  };
  return to_power(reduced(to_power(size, p), reduce_kind::sum, axes), 1 / p);
}

template <value A, value B>
constexpr int joint_rank(const A& a, const B& b) {
  return broadcast(a.facts().shape, b.facts().shape).rank;
}
template <class... Axes>
constexpr bool are_axes(int rank, Axes... axes) {
  return axes_exist(rank, axes...) && axes_differ(rank, axes...);
}
// The wider one of two operands that agree tells the axes.
template <value A, value B, class... Axes>
constexpr auto axes_of_both(A a, B b, Axes... axes) {
  if constexpr (all_typed<A, B>::value) {
    return c<axis_bits(joint_rank(A{}, B{}), known<Axes>()...)>;
  } else {
    return axis_bits(joint_rank(a, b), axes...);
  }
}

}  // namespace detail

namespace layers {

struct norm {
  static constexpr auto forward(value auto x, int axes, norm_order order) {
    return detail::narrowed(detail::norm_of(detail::widened(x), axes, order.p), x);
  }
};

struct l2_normalize {
  static constexpr auto forward(value auto x, int axes) {
    const auto wide = detail::widened(x);
    return detail::narrowed(wide / maximum(detail::beside(detail::norm_of(wide, axes, 2), x, axes), 1e-12), x);
  }
};

struct distance {
  static constexpr auto forward(value auto a, value auto b, int axes, norm_order order) {
    return detail::narrowed(detail::norm_of(detail::widened(a) - detail::widened(b), axes, order.p), a);
  }
};

struct cosine_similarity {
  static constexpr auto forward(value auto a, value auto b, int axes) {
    const symbolic_shape joint = detail::broadcast(a.facts().shape, b.facts().shape);
    const auto u = detail::make<detail::describe_expand>(detail::widened(a), joint);
    const auto v = detail::make<detail::describe_expand>(detail::widened(b), joint);
    const auto length = [&](value auto x) { return maximum(detail::norm_of(x, axes, 2), 1e-8); };
    return detail::narrowed(detail::reduced(u * v, reduce_kind::sum, axes) / (length(u) * length(v)), a);
  }
};

}  // namespace layers

/// (sum |x|^p)^(1 / p) over axes, the root of the sum of squares unless an order is named: norm<-1>(x,
/// c<norm_order{1}>), or norm(x, norm_order{1}, -1). Without axes, over all. gradient: 0 where x, or all of a row, is
/// 0; of an infinite order to the first of equal elements. shapes: [.., n, ..] -> [.., ..]. dtypes: floats, computed in
/// f32. errors: "x has no such axis", "an axis is named twice", "x must be floats". source: torch.linalg.vector_norm.
template <int... Axes, value A, detail::order_like Order, detail::axis_like... More>
[[nodiscard]] constexpr auto norm(A x, Order order, More... axes) {
  MEGANEURA_EXPECT_AXES("norm<axes...>(x)", x, c<Axes>..., axes...)
  MEGANEURA_EXPECT_FLOATS("norm<axes...>(x)", x)
  return detail::layer<layers::norm>(fixed_text<"">{}, x, detail::axes_of(x, c<Axes>..., axes...), order);
}
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto norm(A x, More... axes) {
  return norm<Axes...>(x, c<norm_order{}>, axes...);
}

/// x / max(norm(x), 1e-12), the norm over the axes. shapes: unchanged. Otherwise as norm.
/// source: torch.nn.functional.normalize.
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto l2_normalize(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("l2_normalize<axes...>(x)", x, c<Axes>..., axes...)
  MEGANEURA_EXPECT_FLOATS("l2_normalize<axes...>(x)", x)
  return detail::layer<layers::l2_normalize>(fixed_text<"">{}, x, detail::axes_of(x, c<Axes>..., axes...));
}

/// sum(a b) / (max(norm(a), 1e-8) max(norm(b), 1e-8)) over axes of the two, broadcast.
/// shapes: [.., n, ..], [.., n, ..] -> [.., ..]. dtypes: floats, computed in f32. errors: "extents must be equal or 1",
/// "operands must be floats", "each axis must be one of theirs, named once". source: torch.cosine_similarity.
template <int... Axes, value A, value B, detail::axis_like... More>
[[nodiscard]] constexpr auto cosine_similarity(A a, B b, More... axes) {
  MEGANEURA_EXPECT_ROWS("cosine_similarity<axes...>(a, b)", a, b, c<Axes>..., axes...)
  return detail::layer<layers::cosine_similarity>(fixed_text<"">{}, a, b,
                                                  detail::axes_of_both(a, b, c<Axes>..., axes...));
}

/// 1 - cosine_similarity: from 0 for one direction to 2 for opposite ones; as it.
template <int... Axes, value A, value B, detail::axis_like... More>
[[nodiscard]] constexpr auto cosine_distance(A a, B b, More... axes) {
  MEGANEURA_EXPECT_ROWS("cosine_distance<axes...>(a, b)", a, b, c<Axes>..., axes...)
  return constant<1.0f> - cosine_similarity<Axes...>(a, b, axes...);
}

/// The norm of a - b over axes of the two, broadcast, by its order: minkowski_distance<-1>(a, b, c<norm_order{3}>), or
/// minkowski_distance(a, b, norm_order{3}, -1). shapes, dtypes, errors: as cosine_similarity.
template <int... Axes, value A, value B, detail::order_like Order, detail::axis_like... More>
[[nodiscard]] constexpr auto minkowski_distance(A a, B b, Order order, More... axes) {
  MEGANEURA_EXPECT_ROWS("minkowski_distance<axes...>(a, b)", a, b, c<Axes>..., axes...)
  return detail::layer<layers::distance>(fixed_text<"">{}, a, b, detail::axes_of_both(a, b, c<Axes>..., axes...),
                                         order);
}

/// The root of the sum of squares of a - b; as minkowski_distance.
template <int... Axes, value A, value B, detail::axis_like... More>
[[nodiscard]] constexpr auto euclidean_distance(A a, B b, More... axes) {
  MEGANEURA_EXPECT_ROWS("euclidean_distance<axes...>(a, b)", a, b, c<Axes>..., axes...)
  return minkowski_distance<Axes...>(a, b, c<norm_order{2}>, axes...);
}

/// The sum of |a - b|; as minkowski_distance.
template <int... Axes, value A, value B, detail::axis_like... More>
[[nodiscard]] constexpr auto manhattan_distance(A a, B b, More... axes) {
  MEGANEURA_EXPECT_ROWS("manhattan_distance<axes...>(a, b)", a, b, c<Axes>..., axes...)
  return minkowski_distance<Axes...>(a, b, c<norm_order{1}>, axes...);
}

/// The largest |a - b|; as minkowski_distance.
template <int... Axes, value A, value B, detail::axis_like... More>
[[nodiscard]] constexpr auto chebyshev_distance(A a, B b, More... axes) {
  MEGANEURA_EXPECT_ROWS("chebyshev_distance<axes...>(a, b)", a, b, c<Axes>..., axes...)
  return minkowski_distance<Axes...>(a, b, c<norm_order{detail::infinite_order}>, axes...);
}

}  // namespace meganeura::inline MEGANEURA_ABI
