// SPDX-License-Identifier: MIT
// Normalisation over the last axis.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

struct norm_options {
  float epsilon = 1e-5f;
  friend constexpr bool operator==(const norm_options&, const norm_options&) = default;
};

namespace modules {

/// Parameter "weight" [width].
template <norm_options Options>
struct rms_norm {
  static constexpr auto forward(value auto x) {
    using input = decltype(x);
    auto wide = detail::widened(x);
    auto scale = rsqrt(mean<-1>(wide * wide) + constant<Options.epsilon>);
    auto weight = detail::widened(parameter<"weight", dims<input::shape.last()>, input::element_type>);
    return cast<input::element_type>(wide * unsqueeze<-1>(scale) * weight);
  }
};

/// Parameters "weight" and "bias" [width].
template <norm_options Options>
struct layer_norm {
  static constexpr auto forward(value auto x) {
    using input = decltype(x);
    constexpr symbolic_shape width = dims<input::shape.last()>;
    auto wide = detail::widened(x);
    auto centred = wide - unsqueeze<-1>(mean<-1>(wide));
    auto scale = rsqrt(mean<-1>(centred * centred) + constant<Options.epsilon>);
    auto weight = detail::widened(parameter<"weight", width, input::element_type>);
    auto bias = detail::widened(parameter<"bias", width, input::element_type>);
    return cast<input::element_type>(centred * unsqueeze<-1>(scale) * weight + bias);
  }
};

}  // namespace modules

/// x / sqrt(mean(x^2) + epsilon) weight. shapes: unchanged. dtypes: floats, computed in f32. source: arXiv 1910.07467.
template <fixed_string Name, norm_options Options = norm_options{}, auto A>
[[nodiscard]] constexpr auto rms_norm(expr<A> x) {
  constexpr bool known = A.root().shape->rank >= 1 && A.root().shape->last().is_static();
  constexpr bool floats = is_float(A.root().type);
  static_assert(known, "meganeura: rms_norm<name>(x): x needs a last extent that is a number, not a symbol");
  static_assert(floats, "meganeura: rms_norm<name>(x): x must be floats; cast it");
  if constexpr (known && floats) {
    return call<Name, modules::rms_norm<Options>>(x);
  } else {
    return x;
  }
}

/// (x - mean) / sqrt(variance + epsilon) weight + bias. shapes: unchanged. dtypes: floats, computed in f32.
/// source: arXiv 1607.06450.
template <fixed_string Name, norm_options Options = norm_options{}, auto A>
[[nodiscard]] constexpr auto layer_norm(expr<A> x) {
  constexpr bool known = A.root().shape->rank >= 1 && A.root().shape->last().is_static();
  constexpr bool floats = is_float(A.root().type);
  static_assert(known, "meganeura: layer_norm<name>(x): x needs a last extent that is a number, not a symbol");
  static_assert(floats, "meganeura: layer_norm<name>(x): x must be floats; cast it");
  if constexpr (known && floats) {
    return call<Name, modules::layer_norm<Options>>(x);
  } else {
    return x;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
