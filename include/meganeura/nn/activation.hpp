// SPDX-License-Identifier: MIT
// Activations, each an unnamed layer so that it costs its caller one node. Those of f16 are computed in f32, which
// holds their exponentials, and rounded once.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// max(x, 0). gradient: 0 at 0.
template <value A>
[[nodiscard]] constexpr auto relu(A x) {
  return maximum(x, constant<0.0f>);
}

namespace layers {

struct sigmoid {
  static constexpr auto forward(value auto x) {
    // Below -87 exp(-x) nears the end of f32 and the gradient would be 0 * inf. What the quotient is there, 1.6e-38, is
    // taken off, because a large x times it would not vanish.
    const auto positive = reciprocal(exp(-maximum(detail::widened(x), -87.0f)) + 1.0f);
    return detail::narrowed(maximum(positive - 2e-38f, 0.0f), x);
  }
};

struct silu {
  static constexpr auto forward(value auto x) {
    const auto wide = detail::widened(x);
    return detail::narrowed(wide * sigmoid::forward(wide), x);
  }
};

struct gelu {
  static constexpr auto forward(value auto x) {
    const auto wide = detail::widened(x);
    const auto upper = erf(wide * 0.7071067811865476) + 1.0f;
    return detail::narrowed(wide * (upper * 0.5f), x);
  }
};

struct gelu_tanh {
  static constexpr auto forward(value auto x) {
    constexpr double scale = 0.7978845608028654;  // sqrt(2 / pi)
    // tanh is 1 from |x| = 10 on, and without the bound its gradient would be 0 * inf.
    const auto wide = detail::widened(x);
    const auto square = minimum(wide * wide, 100.0f);
    const auto upper = tanh(wide * (square * (0.044715 * scale) + scale)) + 1.0f;
    return detail::narrowed(wide * (upper * 0.5f), x);
  }
};

}  // namespace layers

/// 1 / (1 + exp(-x)), off by at most 2e-38; 0 from -88 down.
template <value A>
[[nodiscard]] constexpr auto sigmoid(A x) {
  MEGANEURA_EXPECT_FLOATS("sigmoid(x)", x)
  return detail::layer<layers::sigmoid>(fixed_text<"">{}, x);
}

/// x sigmoid(x), also called swish; -0 for very negative x, NaN for -infinity (-infinity * 0, as PyTorch's).
/// source: arXiv 1702.03118.
template <value A>
[[nodiscard]] constexpr auto silu(A x) {
  MEGANEURA_EXPECT_FLOATS("silu(x)", x)
  return detail::layer<layers::silu>(fixed_text<"">{}, x);
}

/// x / 2 (1 + erf(x / sqrt(2))), x times the share of a normal distribution below x. source: arXiv 1606.08415. Far out
/// x or -0, with gradient 1 or 0; NaN for -infinity, as PyTorch's.
template <value A>
[[nodiscard]] constexpr auto gelu(A x) {
  MEGANEURA_EXPECT_FLOATS("gelu(x)", x)
  return detail::layer<layers::gelu>(fixed_text<"">{}, x);
}

/// GELU with tanh for erf, off by up to 5e-4: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), PyTorch's
/// approximate="tanh". Ends as gelu's.
template <value A>
[[nodiscard]] constexpr auto gelu_tanh(A x) {
  MEGANEURA_EXPECT_FLOATS("gelu_tanh(x)", x)
  return detail::layer<layers::gelu_tanh>(fixed_text<"">{}, x);
}

namespace detail {
template <value A, value B>
constexpr auto gated(A gate, B up) {
  return narrowed(silu(widened(gate)) * widened(up), gate);
}
}  // namespace detail

/// silu(gate) up, the gated unit of Llama. source: arXiv 2002.05202.
template <value A, value B>
[[nodiscard]] constexpr auto swiglu(A gate, B up) {
  MEGANEURA_EXPECT(detail::mismatch(gate, up).agrees(), "meganeura: swiglu(gate, up): extents must be equal or 1", gate,
                   up)
  MEGANEURA_EXPECT(detail::both_fit(gate, up), "meganeura: swiglu(gate, up): dtypes must agree; cast one operand", gate,
                   up)
  MEGANEURA_EXPECT(is_float(detail::common_type(gate, up)),
                   "meganeura: swiglu(gate, up): operands must be floats; cast them", gate, up)
  return detail::gated(detail::adapted(gate, up), detail::adapted(up, gate));
}

}  // namespace meganeura::inline MEGANEURA_ABI
