// SPDX-License-Identifier: MIT
// Activations, each an unnamed module so that it costs its caller one node. Those of f16 are computed in f32, which
// holds their exponentials, and rounded once.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// max(x, 0).
template <auto A>
[[nodiscard]] constexpr auto relu(expr<A> x) {
  return maximum(x, constant<0.0f>);
}

namespace modules {

struct sigmoid {
  static constexpr auto forward(value auto x) {
    // Below -87 exp(-x) nears the end of f32 and the gradient would be 0 * inf. What the quotient is there, 1.6e-38, is
    // taken off, because a large x times it would not vanish.
    auto positive = reciprocal(exp(-maximum(detail::widened(x), constant<-87.0f>)) + constant<1.0f>);
    return cast<decltype(x)::element_type>(maximum(positive - constant<2e-38f>, constant<0.0f>));
  }
};

struct silu {
  static constexpr auto forward(value auto x) {
    auto wide = detail::widened(x);
    return cast<decltype(x)::element_type>(wide * call<"", sigmoid>(wide));
  }
};

struct gelu {
  static constexpr auto forward(value auto x) {
    auto wide = detail::widened(x);
    auto upper = erf(wide * constant<0.7071067811865476>) + constant<1.0f>;
    return cast<decltype(x)::element_type>(wide * (upper * constant<0.5f>));
  }
};

struct gelu_tanh {
  static constexpr auto forward(value auto x) {
    constexpr double scale = 0.7978845608028654;  // sqrt(2 / pi)
    // tanh is 1 from |x| = 10 on, and without the bound its gradient would be 0 * inf.
    auto wide = detail::widened(x);
    auto square = minimum(wide * wide, constant<100.0f>);
    auto upper = tanh(wide * (square * constant<0.044715 * scale> + constant<scale>)) + constant<1.0f>;
    return cast<decltype(x)::element_type>(wide * (upper * constant<0.5f>));
  }
};

}  // namespace modules

/// 1 / (1 + exp(-x)), off by at most 2e-38; 0 from -88 down.
template <auto A>
[[nodiscard]] constexpr auto sigmoid(expr<A> x) {
  return call<"", modules::sigmoid>(x);
}

/// x sigmoid(x), also called swish; -0 for very negative x, NaN for -infinity (-infinity * 0, as PyTorch's).
/// source: arXiv 1702.03118.
template <auto A>
[[nodiscard]] constexpr auto silu(expr<A> x) {
  return call<"", modules::silu>(x);
}

/// x / 2 (1 + erf(x / sqrt(2))), x times the share of a normal distribution below x. source: arXiv 1606.08415. Far out
/// x or -0, with gradient 1 or 0; NaN for -infinity, as PyTorch's.
template <auto A>
[[nodiscard]] constexpr auto gelu(expr<A> x) {
  return call<"", modules::gelu>(x);
}

/// GELU with tanh for erf, off by up to 5e-4: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), PyTorch's
/// approximate="tanh". Ends as gelu's.
template <auto A>
[[nodiscard]] constexpr auto gelu_tanh(expr<A> x) {
  return call<"", modules::gelu_tanh>(x);
}

/// silu(gate) up, the gated unit of Llama. source: arXiv 2002.05202.
template <auto A, auto B>
[[nodiscard]] constexpr auto swiglu(expr<A> gate, expr<B> up) {
  static_assert(detail::both_fit<A, B>, "meganeura: swiglu(gate, up): dtypes must agree; cast one operand");
  return cast<detail::common_type<A, B>>(silu(detail::widened(gate)) * detail::widened(up));
}

}  // namespace meganeura::inline MEGANEURA_ABI
