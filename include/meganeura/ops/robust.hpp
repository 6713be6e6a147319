// SPDX-License-Identifier: MIT
// What a few elements far from the others do not change: the most frequent one, distances of quantiles, bounds by them.
#pragma once
#include <meganeura/ops/bounds.hpp>
#include <meganeura/ops/sort.hpp>
#include <meganeura/ops/statistics.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace layers {

// How often each element is there, by comparing all pairs; an integer's greatest number may be one of them.
struct mode {
  static constexpr auto forward(value auto x, int axis) {
    const int along = detail::normal_axis(axis, x.facts().shape.rank);
    const dtype type = x.facts().type;
    const auto fixed_part = stop_gradient(x);
    const auto same = equal(unsqueeze(fixed_part, along), unsqueeze(fixed_part, along + 1));
    const auto count = sum(select(same, detail::number_of(x, 1), 0.0f), along);
    const auto most = unsqueeze(max(count, along), along);
    const auto none = detail::number_of(x, is_float(type) ? __builtin_inf() : highest(type), type);
    return min(select(less(count, most), none, x), along);
  }
};

struct median_absolute_deviation {
  static constexpr auto forward(value auto x, int axis) {
    return detail::narrowed(of(from_median(detail::widened(x), axis), axis), x);
  }
  static constexpr auto from_median(value auto x, int axis) { return x - unsqueeze(median::forward(x, axis), axis); }
  static constexpr auto of(value auto distance, int axis) { return median::forward(abs(distance), axis); }
};

struct interquartile_range {
  static constexpr auto forward(value auto x, int axis) {
    const auto wide = detail::widened(x);
    return detail::narrowed(row_quantile::forward(wide, axis, quantile_share{0.75}) -
                                row_quantile::forward(wide, axis, quantile_share{0.25}),
                            x);
  }
};

struct z_score_robust {
  static constexpr auto forward(value auto x, int axis) {
    const auto distance = median_absolute_deviation::from_median(detail::widened(x), axis);
    const auto deviation = unsqueeze(median_absolute_deviation::of(distance, axis), axis);
    return detail::narrowed(distance * 0.67448975 / deviation, x);
  }
};

}  // namespace layers

/// The most frequent element along `axis`, the smallest of several: mode<-1>(x), or mode(x, -1). A NaN equals nothing
/// and counts as never there. shapes: [.., n, ..] -> [.., ..]. dtypes: numbers. gradient: to the first of the equal
/// elements; PyTorch's goes to the last. cost: compares all pairs of a row. errors: "x has no such axis, or no room for
/// another". source: the values of torch.mode.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto mode(A x, Axis axis) {
  MEGANEURA_EXPECT((detail::axis_of(x, axis) >= 0 && x.facts().shape.rank < max_rank),
                   "meganeura: mode<axis>(x): x has no such axis, or no room for another", x)
  return detail::layer<layers::mode>(fixed_text<"">{}, x, axis);
}
template <int Axis = -1, value A>
[[nodiscard]] constexpr auto mode(A x) {
  return mode(x, c<Axis>);
}

/// The median of the distances from the median along `axis`: median_absolute_deviation<-1>(x), or
/// median_absolute_deviation(x, -1). NaN for a row that holds one. shapes: [.., n, ..] -> [.., ..]. dtypes: floats,
/// computed in f32. gradient: to the two elements. errors: "x has no such axis, or its extent is not known", "x must be
/// floats".
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto median_absolute_deviation(A x, Axis axis) {
  MEGANEURA_EXPECT_KNOWN_AXIS("median_absolute_deviation<axis>(x)", x, axis)
  MEGANEURA_EXPECT_FLOATS("median_absolute_deviation<axis>(x)", x)
  return detail::layer<layers::median_absolute_deviation>(fixed_text<"">{}, x, axis);
}
template <int Axis = -1, value A>
[[nodiscard]] constexpr auto median_absolute_deviation(A x) {
  return median_absolute_deviation(x, c<Axis>);
}

/// The quantile 0.75 less the quantile 0.25 along `axis`. Otherwise as median_absolute_deviation.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto interquartile_range(A x, Axis axis) {
  MEGANEURA_EXPECT_KNOWN_AXIS("interquartile_range<axis>(x)", x, axis)
  MEGANEURA_EXPECT_FLOATS("interquartile_range<axis>(x)", x)
  return detail::layer<layers::interquartile_range>(fixed_text<"">{}, x, axis);
}
template <int Axis = -1, value A>
[[nodiscard]] constexpr auto interquartile_range(A x) {
  return interquartile_range(x, c<Axis>);
}

/// 0.6745 (x - median) / median_absolute_deviation along `axis`: as standardize for what is normally distributed but
/// for a few. Where the deviation is 0, infinite, and NaN at the median. shapes: unchanged. Otherwise as
/// median_absolute_deviation.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto z_score_robust(A x, Axis axis) {
  MEGANEURA_EXPECT_KNOWN_AXIS("z_score_robust<axis>(x)", x, axis)
  MEGANEURA_EXPECT_FLOATS("z_score_robust<axis>(x)", x)
  return detail::layer<layers::z_score_robust>(fixed_text<"">{}, x, axis);
}
template <int Axis = -1, value A>
[[nodiscard]] constexpr auto z_score_robust(A x) {
  return z_score_robust(x, c<Axis>);
}

/// x within two of its quantiles along `axis`: winsorize<-1>(x, c<quantile_share{0.05}>, c<quantile_share{0.95}>), or
/// winsorize(x, quantile_share{0.05}, quantile_share{0.95}, -1). Bounds that are known are clamp's. NaN for a row that
/// holds one. gradient: to x where it is kept, a bound included, otherwise to the elements of the quantile. shapes:
/// unchanged. dtypes: floats. errors: "x has no such axis, or its extent is not known", "the shares must lie between 0
/// and 1, low not above high", "x must be floats".
template <value A, class Low, class High, detail::axis_like Axis>
[[nodiscard]] constexpr auto winsorize(A x, Low low, High high, Axis axis) {
  MEGANEURA_EXPECT_KNOWN_AXIS("winsorize<axis>(x, low, high)", x, axis)
  MEGANEURA_EXPECT_FLOATS("winsorize<axis>(x, low, high)", x)
  MEGANEURA_EXPECT(
      (detail::is_share(low) && detail::is_share(high) && quantile_share(low).of <= quantile_share(high).of),
      "meganeura: winsorize<axis>(x, low, high): the shares must lie between 0 and 1, low not above high", x)
  return clamp(x, unsqueeze(quantile(x, low, axis), axis), unsqueeze(quantile(x, high, axis), axis));
}
template <int Axis = -1, value A, class Low, class High>
[[nodiscard]] constexpr auto winsorize(A x, Low low, High high) {
  return winsorize(x, low, high, c<Axis>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
