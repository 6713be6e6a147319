// SPDX-License-Identifier: MIT
// Normalisation over the last axis or axes.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// epsilon: added to the variance, or the mean of squares. axes: how many of the last are normalised together. affine:
/// times "weight", and plus "bias" where the layer has one and `bias` says so.
struct norm_options {
  float epsilon = 1e-5f;
  int axes = 1;
  bool affine = true, bias = true;
  friend constexpr bool operator==(const norm_options&, const norm_options&) = default;
};

namespace detail {

constexpr bool has_last_extents(const symbolic_shape& x, int axes) {
  if (axes < 1 || axes > x.rank) return false;
  for (int i = 0; i < axes; ++i) {
    if (!x.last(i).is_static()) return false;
  }
  return true;
}

// Of the last axes, which stay with an extent of 1.
constexpr auto mean_of_last(value auto x, int axes) {
  symbolic_shape shape = x.facts().shape;
  const int bits = ((1 << axes) - 1) << (shape.rank - axes);
  for (int i = 1; i <= axes; ++i) shape[shape.rank - i] = 1;
  const auto total = x.added(describe_reduce_of(x.facts(), reduce_kind::sum, bits), &x, 1);
  return reshape(total * x.added(describe_share_of(x.facts(), bits), &x, 1), shape);
}

// A parameter of one number for each place of the last axes.
template <fixed_string Name>
constexpr auto parameter_along(value auto x, int axes, const initializer& begin) {
  symbolic_shape places;
  for (int i = axes; i > 0; --i) places.push_back(x.facts().shape.last(i - 1));
  return widened(parameter_of<Name>(x, places, x.facts().type, begin));
}

}  // namespace detail

namespace layers {

/// Parameter "weight" [width].
struct rms_norm {
  static constexpr auto forward(value auto x, norm_options options) {
    const auto wide = detail::widened(x);
    const auto y = wide * rsqrt(detail::mean_of_last(wide * wide, options.axes) + options.epsilon);
    if (!options.affine) return detail::narrowed(y, x);
    return detail::narrowed(y * detail::parameter_along<"weight">(x, options.axes, init::ones), x);
  }
};

/// Parameters "weight" and "bias" [width].
struct layer_norm {
  static constexpr auto forward(value auto x, norm_options options) {
    const auto wide = detail::widened(x);
    const auto centred = wide - detail::mean_of_last(wide, options.axes);
    const auto y = centred * rsqrt(detail::mean_of_last(centred * centred, options.axes) + options.epsilon);
    if (!options.affine) return detail::narrowed(y, x);
    const auto scaled = y * detail::parameter_along<"weight">(x, options.axes, init::ones);
    if (!options.bias) return detail::narrowed(scaled, x);
    return detail::narrowed(scaled + detail::parameter_along<"bias">(x, options.axes, init::zeros), x);
  }
};

}  // namespace layers

/// x / sqrt(mean(x^2) + epsilon) weight: rms_norm<"norm">(x), or rms_norm("norm", x) at run time.
/// torch.nn.RMSNorm, but for its default of epsilon, the dtype's own: give {.epsilon = 1.1920929e-7f}. shapes:
/// unchanged. dtypes: floats, computed in f32. source: arXiv 1910.07467.
/// errors: "x needs as many last extents as `axes` says", "x must be floats", "epsilon must be at least 0".
template <detail::name_like Name, value A, class Options = fixed<norm_options{}>>
[[nodiscard]] constexpr auto rms_norm(const Name& name, A x, Options options = {}) {
  MEGANEURA_EXPECT(detail::has_last_extents(x.facts().shape, static_cast<norm_options>(options).axes),
                   "meganeura: rms_norm<name>(x): x needs as many last extents as `axes` says, of numbers, not symbols",
                   name, x)
  MEGANEURA_EXPECT_FLOATS("rms_norm<name>(x)", x, name)
  MEGANEURA_EXPECT(static_cast<norm_options>(options).epsilon >= 0,
                   "meganeura: rms_norm<name>(x): epsilon must be at least 0", name, x)
  return detail::layer<layers::rms_norm>(name, x, options);
}
template <fixed_string Name, norm_options Options = norm_options{}, value A>
[[nodiscard]] constexpr auto rms_norm(A x) {
  return rms_norm(fixed_text<Name>{}, x, c<Options>);
}
MEGANEURA_UNNAMED(rms_norm, "rms_norm<name>(x)")

/// (x - mean) / sqrt(variance + epsilon) weight + bias. shapes: unchanged. dtypes: floats, computed in f32.
/// source: arXiv 1607.06450. errors: as rms_norm.
template <detail::name_like Name, value A, class Options = fixed<norm_options{}>>
[[nodiscard]] constexpr auto layer_norm(const Name& name, A x, Options options = {}) {
  MEGANEURA_EXPECT(
      detail::has_last_extents(x.facts().shape, static_cast<norm_options>(options).axes),
      "meganeura: layer_norm<name>(x): x needs as many last extents as `axes` says, of numbers, not symbols", name, x)
  MEGANEURA_EXPECT_FLOATS("layer_norm<name>(x)", x, name)
  MEGANEURA_EXPECT(static_cast<norm_options>(options).epsilon >= 0,
                   "meganeura: layer_norm<name>(x): epsilon must be at least 0", name, x)
  return detail::layer<layers::layer_norm>(name, x, options);
}
template <fixed_string Name, norm_options Options = norm_options{}, value A>
[[nodiscard]] constexpr auto layer_norm(A x) {
  return layer_norm(fixed_text<Name>{}, x, c<Options>);
}
MEGANEURA_UNNAMED(layer_norm, "layer_norm<name>(x)")

}  // namespace meganeura::inline MEGANEURA_ABI
