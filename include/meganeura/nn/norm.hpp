// SPDX-License-Identifier: MIT
// Normalisation over the last axis.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

struct norm_options {
  float epsilon = 1e-5f;
  friend constexpr bool operator==(const norm_options&, const norm_options&) = default;
};

namespace detail {
// A parameter of one number for each place of the last axis.
template <fixed_string Name>
constexpr auto parameter_along(value auto x, const initializer& begin) {
  symbolic_shape width;
  width.push_back(x.facts().shape.last());
  return widened(parameter_of<Name>(x, width, x.facts().type, begin));
}
}  // namespace detail

namespace layers {

/// Parameter "weight" [width].
struct rms_norm {
  static constexpr auto forward(value auto x, norm_options options) {
    const auto wide = detail::widened(x);
    const auto scale = rsqrt(mean(wide * wide, -1) + options.epsilon);
    return detail::narrowed(wide * unsqueeze(scale, -1) * detail::parameter_along<"weight">(x, init::ones), x);
  }
};

/// Parameters "weight" and "bias" [width].
struct layer_norm {
  static constexpr auto forward(value auto x, norm_options options) {
    const auto wide = detail::widened(x);
    const auto centred = wide - unsqueeze(mean(wide, -1), -1);
    const auto scale = rsqrt(mean(centred * centred, -1) + options.epsilon);
    const auto weight = detail::parameter_along<"weight">(x, init::ones);
    const auto bias = detail::parameter_along<"bias">(x, init::zeros);
    return detail::narrowed(centred * unsqueeze(scale, -1) * weight + bias, x);
  }
};

}  // namespace layers

/// x / sqrt(mean(x^2) + epsilon) weight: rms_norm<"norm">(x), or rms_norm("norm", x) at run time.
/// shapes: unchanged. dtypes: floats, computed in f32. source: arXiv 1910.07467.
template <detail::name_like Name, value A, class Options = fixed<norm_options{}>>
[[nodiscard]] constexpr auto rms_norm(const Name& name, A x, Options options = {}) {
  MEGANEURA_EXPECT(detail::has_last_extent(x.facts().shape),
                   "meganeura: rms_norm<name>(x): x needs a last extent that is a number, not a symbol", x)
  MEGANEURA_EXPECT(is_float(x.facts().type), "meganeura: rms_norm<name>(x): x must be floats; cast it", x)
  return detail::layer<layers::rms_norm>(name, x, options);
}
template <fixed_string Name, norm_options Options = norm_options{}, value A>
[[nodiscard]] constexpr auto rms_norm(A x) {
  return rms_norm(fixed_text<Name>{}, x, c<Options>);
}

/// (x - mean) / sqrt(variance + epsilon) weight + bias. shapes: unchanged. dtypes: floats, computed in f32.
/// source: arXiv 1607.06450.
template <detail::name_like Name, value A, class Options = fixed<norm_options{}>>
[[nodiscard]] constexpr auto layer_norm(const Name& name, A x, Options options = {}) {
  MEGANEURA_EXPECT(detail::has_last_extent(x.facts().shape),
                   "meganeura: layer_norm<name>(x): x needs a last extent that is a number, not a symbol", x)
  MEGANEURA_EXPECT(is_float(x.facts().type), "meganeura: layer_norm<name>(x): x must be floats; cast it", x)
  return detail::layer<layers::layer_norm>(name, x, options);
}
template <fixed_string Name, norm_options Options = norm_options{}, value A>
[[nodiscard]] constexpr auto layer_norm(A x) {
  return layer_norm(fixed_text<Name>{}, x, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
