// SPDX-License-Identifier: MIT
// Variance, deviation and the logarithm of a sum of exponentials over axes.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// How many degrees of freedom a variance leaves out: variance<-1>(x, c<correction{0}>) divides by n.
struct correction {
  int by = 1;
  friend constexpr bool operator==(const correction&, const correction&) = default;
};

namespace detail {

template <class T>
concept correction_like = std::is_convertible_v<T, correction>;

// The axes as one argument of a layer: bit i for axis i.
template <value A, class... Axes>
constexpr auto axes_of([[maybe_unused]] A x, Axes... axes) {
  if constexpr (is_expr<A>) {
    return c<axis_bits(A::facts().shape.rank, known<Axes>()...)>;
  } else {
    return axis_bits(x.facts().shape.rank, axes...);
  }
}

constexpr auto reduced(value auto x, reduce_kind kind, int axes) { return make<describe_reduce_of>(x, kind, axes); }

constexpr symbolic_shape kept_shape(symbolic_shape shape, int axes) {
  for (int i = 0; i < shape.rank; ++i) {
    if (axes >> i & 1) shape[i] = 1;
  }
  return shape;
}
// What was reduced over the axes, to stand beside x again.
constexpr auto beside(value auto reduced, value auto x, int axes) {
  return make<describe_reshape>(reduced, kept_shape(x.facts().shape, axes));
}

// of(x), but 0 and without gradient where x is 0.
constexpr auto unless_zero(value auto x, double at_zero, auto of) {
  const auto zero = equal(x, 0);
  return select(zero, at_zero, of(select(zero, 1, x)));
}
constexpr auto root_unless_zero(value auto x) {
  return unless_zero(x, 0, [](value auto y) { return sqrt(y); });
}

constexpr node_spec describe_count_of(const facts&, int axes) {
  return {.kind = primitive::element_count, .type = dtype::i32, .count = axes};
}

constexpr auto variance_of(value auto wide, int axes, int by) {
  const auto share = make<describe_share_of>(wide, axes);
  const auto centred = wide - beside(reduced(wide, reduce_kind::sum, axes) * share, wide, axes);
  const auto freedom = cast(make<describe_count_of>(wide, axes), wide.facts().type) - by;
  return reduced(centred * centred, reduce_kind::sum, axes) / maximum(freedom, 0);
}

}  // namespace detail

namespace layers {

struct variance {
  static constexpr auto forward(value auto x, int axes, correction freedom) {
    return detail::narrowed(detail::variance_of(detail::widened(x), axes, freedom.by), x);
  }
};

struct standard_deviation {
  static constexpr auto forward(value auto x, int axes, correction freedom) {
    return detail::narrowed(detail::root_unless_zero(detail::variance_of(detail::widened(x), axes, freedom.by)), x);
  }
};

// The shift cancels; an infinite one would not. A sum of 0 has no part in the gradient.
struct logsumexp {
  static constexpr auto forward(value auto x, int axes) {
    const auto wide = detail::widened(x);
    const auto most = stop_gradient(detail::reduced(wide, reduce_kind::max, axes));
    const auto shift = select(less(abs(most), __builtin_inf()), most, 0);
    const auto sum = detail::reduced(exp(wide - detail::beside(shift, x, axes)), reduce_kind::sum, axes);
    const auto logarithm = detail::unless_zero(sum, -__builtin_inf(), [](value auto y) { return log(y); });
    return detail::narrowed(logarithm + shift, x);
  }
};

}  // namespace layers

/// The mean square distance from the mean over axes, as an estimate for what x was drawn from: the sum divided by
/// n - 1, or by n - by: variance<-1>(x, c<correction{0}>), or variance(x, correction{0}, -1). Without axes, over all.
/// Where n - by is not above 0 that is NaN or an infinity. In two passes, the mean first.
/// shapes: [.., n, ..] -> [.., ..]. dtypes: floats, computed in f32. errors: "x has no such axis", "an axis is named
/// twice", "x must be floats". source: torch.var.
template <int... Axes, value A, detail::correction_like Correction, detail::axis_like... More>
[[nodiscard]] constexpr auto variance(A x, Correction freedom, More... axes) {
  MEGANEURA_EXPECT_AXES("variance<axes...>(x)", x, c<Axes>..., axes...)
  MEGANEURA_EXPECT_FLOATS("variance<axes...>(x)", x)
  return detail::layer<layers::variance>(fixed_text<"">{}, x, detail::axes_of(x, c<Axes>..., axes...), freedom);
}
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto variance(A x, More... axes) {
  return variance<Axes...>(x, c<correction{}>, axes...);
}

/// The root of the variance. gradient: 0 where it is 0. Otherwise as variance. source: torch.std.
template <int... Axes, value A, detail::correction_like Correction, detail::axis_like... More>
[[nodiscard]] constexpr auto standard_deviation(A x, Correction freedom, More... axes) {
  MEGANEURA_EXPECT_AXES("standard_deviation<axes...>(x)", x, c<Axes>..., axes...)
  MEGANEURA_EXPECT_FLOATS("standard_deviation<axes...>(x)", x)
  return detail::layer<layers::standard_deviation>(fixed_text<"">{}, x, detail::axes_of(x, c<Axes>..., axes...),
                                                   freedom);
}
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto standard_deviation(A x, More... axes) {
  return standard_deviation<Axes...>(x, c<correction{}>, axes...);
}

/// The mean and the variance over axes, as results "mean" and "variance" of one computation:
/// auto [mean, variance] = mean_and_variance<-1>(x). Otherwise as variance. source: torch.var_mean.
template <int... Axes, value A, detail::correction_like Correction, detail::axis_like... More>
[[nodiscard]] constexpr auto mean_and_variance(A x, Correction freedom, More... axes) {
  MEGANEURA_EXPECT_AXES("mean_and_variance<axes...>(x)", x, c<Axes>..., axes...)
  MEGANEURA_EXPECT_FLOATS("mean_and_variance<axes...>(x)", x)
  return results<"mean", "variance">(mean<Axes...>(x, axes...), variance<Axes...>(x, freedom, axes...));
}
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto mean_and_variance(A x, More... axes) {
  return mean_and_variance<Axes...>(x, c<correction{}>, axes...);
}

/// log(sum(exp(x))) over axes, shifted by the maximum so that it cannot overflow. A row of nothing but -inf is -inf
/// and its gradient 0, where PyTorch's is NaN; one with +inf is +inf, and its gradient NaN (as PyTorch's).
/// shapes: [.., n, ..] -> [.., ..]. dtypes: floats, computed in f32. errors: as variance.
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto logsumexp(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("logsumexp<axes...>(x)", x, c<Axes>..., axes...)
  MEGANEURA_EXPECT_FLOATS("logsumexp<axes...>(x)", x)
  return detail::layer<layers::logsumexp>(fixed_text<"">{}, x, detail::axes_of(x, c<Axes>..., axes...));
}

}  // namespace meganeura::inline MEGANEURA_ABI
