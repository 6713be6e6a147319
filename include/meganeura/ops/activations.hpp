// SPDX-License-Identifier: MIT
// Activations besides those of nn/activation.hpp.
#pragma once
#include <meganeura/ops/bounds.hpp>
#include <meganeura/ops/exponential.hpp>
#include <meganeura/ops/special.hpp>
#include <meganeura/ops/trigonometry.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace layers {

// max(x, 0) + log1p(exp(-|x|)), written so that the slope at 0 is 1/2.
struct softplus {
  static constexpr auto forward(value auto x) {
    return select(less(0.0f, x), x, 0.0f) + log1p(exp(detail::minus_magnitude(x)));
  }
};

struct log_sigmoid {
  static constexpr auto forward(value auto x) { return -softplus::forward(-x); }
};

struct mish {
  static constexpr auto forward(value auto x) { return x * tanh(softplus::forward(x)); }
};

struct softsign {
  static constexpr auto forward(value auto x) { return x / (abs(x) + 1.0f); }
};

struct leaky_relu {
  static constexpr auto forward(value auto x, value auto slope) {
    return select(less(0.0f, x), x, below_zero(x) * slope);
  }
  // x where it is not positive. At 0 its slope is 1, and elsewhere exponentials do not overflow.
  static constexpr auto below_zero(value auto x) { return select(less(0.0f, x), 0.0f, x); }
};

struct elu {
  static constexpr auto forward(value auto x, value auto alpha) {
    return select(less(0.0f, x), x, expm1(leaky_relu::below_zero(x)) * alpha);
  }
};

struct celu {
  static constexpr auto forward(value auto x, value auto alpha) {
    return select(less(0.0f, x), x, expm1(leaky_relu::below_zero(x) / alpha) * alpha);
  }
};

struct selu {
  static constexpr auto forward(value auto x) {
    constexpr double scale = 1.0507009873554805, alpha = 1.6732632423543772;
    return select(less(0.0f, x), x * scale, expm1(leaky_relu::below_zero(x)) * (scale * alpha));
  }
};

struct hard_sigmoid {
  static constexpr auto forward(value auto x, value auto slope) { return clamp(x * slope + 0.5f, 0.0f, 1.0f); }
};

struct hard_swish {
  static constexpr auto forward(value auto x) { return x * clamp(x * (1.0f / 6) + 0.5f, 0.0f, 1.0f); }
};

struct tanh_shrink {
  static constexpr auto forward(value auto x) {
    // Near 0 by the series of tanh: the difference would be lost.
    const auto is_small = less(abs(x), 0.4f);
    const auto small = select(is_small, x, 0.0f), z = small * small;
    const auto series =
        1.0 / 3 -
        z * (2.0 / 15 -
             z * (17.0 / 315 -
                  z * (62.0 / 2835 - z * (1382.0 / 155925 - z * (21844.0 / 6081075 - z * (929569.0 / 638512875))))));
    return select(is_small, small * z * series, x - tanh(x));
  }
};

struct soft_shrink {
  static constexpr auto forward(value auto x, value auto bound) {
    return select(less(bound, x), x - bound, select(less(x, -bound), x + bound, x * 0.0f));
  }
};

struct hard_shrink {
  static constexpr auto forward(value auto x, value auto bound) { return select(less_equal(abs(x), bound), 0.0f, x); }
};

struct gaussian {
  static constexpr auto forward(value auto x) { return exp(-(x * x)); }
};

struct bent_identity {
  static constexpr auto forward(value auto x) { return x * (x / (hypot(x, 1.0f) + 1.0f)) * 0.5f + x; }
};

}  // namespace layers

/// log(1 + exp(x)): nearly 0 below, nearly x above; never infinite where x is not. gradient: sigmoid(x).
template <value A>
[[nodiscard]] constexpr auto softplus(A x) {
  MEGANEURA_EXPECT_FLOATS("softplus(x)", x)
  return detail::formula<layers::softplus>(x);
}

/// log(sigmoid(x)), also where the sigmoid is 0.
template <value A>
[[nodiscard]] constexpr auto log_sigmoid(A x) {
  MEGANEURA_EXPECT_FLOATS("log_sigmoid(x)", x)
  return detail::formula<layers::log_sigmoid>(x);
}

/// x tanh(softplus(x)); NaN for -infinity (-infinity * 0, as PyTorch's). source: arXiv 1908.08681.
template <value A>
[[nodiscard]] constexpr auto mish(A x) {
  MEGANEURA_EXPECT_FLOATS("mish(x)", x)
  return detail::formula<layers::mish>(x);
}

/// x / (1 + |x|), NaN for infinities (as PyTorch's). gradient: 1 at 0.
template <value A>
[[nodiscard]] constexpr auto softsign(A x) {
  MEGANEURA_EXPECT_FLOATS("softsign(x)", x)
  return detail::formula<layers::softsign>(x);
}

/// x above 0, slope x elsewhere; the slope may be a parameter, of each channel if it broadcasts so. gradient: at 0 that
/// from below. leaky_relu(x): a slope of 0.01.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto leaky_relu(A x, B slope) {
  MEGANEURA_CHECK_OPERANDS("leaky_relu(x, slope)", x, slope)
  MEGANEURA_CHECK_FLOATS("leaky_relu(x, slope)", x, slope)
  return detail::formula<layers::leaky_relu>(x, slope);
}
template <value A>
[[nodiscard]] constexpr auto leaky_relu(A x) {
  MEGANEURA_EXPECT_FLOATS("leaky_relu(x)", x)
  return leaky_relu(x, constant<0.01>);
}

/// x above 0, alpha (exp(x) - 1) elsewhere. gradient: at 0 that from below. elu(x): an alpha of 1.
/// source: arXiv 1511.07289.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto elu(A x, B alpha) {
  MEGANEURA_CHECK_OPERANDS("elu(x, alpha)", x, alpha)
  MEGANEURA_CHECK_FLOATS("elu(x, alpha)", x, alpha)
  return detail::formula<layers::elu>(x, alpha);
}
template <value A>
[[nodiscard]] constexpr auto elu(A x) {
  MEGANEURA_EXPECT_FLOATS("elu(x)", x)
  return elu(x, constant<1.0f>);
}

/// x above 0, alpha (exp(x / alpha) - 1) elsewhere: an elu with slope 1 at 0. celu(x): an alpha of 1.
/// source: arXiv 1704.07483.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto celu(A x, B alpha) {
  MEGANEURA_CHECK_OPERANDS("celu(x, alpha)", x, alpha)
  MEGANEURA_CHECK_FLOATS("celu(x, alpha)", x, alpha)
  return detail::formula<layers::celu>(x, alpha);
}
template <value A>
[[nodiscard]] constexpr auto celu(A x) {
  MEGANEURA_EXPECT_FLOATS("celu(x)", x)
  return celu(x, constant<1.0f>);
}

/// 1.0507 times elu(x, 1.6733), which keeps mean 0 and variance 1. gradient: at 0 that from below.
/// source: arXiv 1706.02515.
template <value A>
[[nodiscard]] constexpr auto selu(A x) {
  MEGANEURA_EXPECT_FLOATS("selu(x)", x)
  return detail::formula<layers::selu>(x);
}

/// slope x + 1/2 within [0, 1]: torch's with a slope of 1/6. hard_sigmoid(x): 0.2, as ONNX has it.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto hard_sigmoid(A x, B slope) {
  MEGANEURA_CHECK_OPERANDS("hard_sigmoid(x, slope)", x, slope)
  MEGANEURA_CHECK_FLOATS("hard_sigmoid(x, slope)", x, slope)
  return detail::formula<layers::hard_sigmoid>(x, slope);
}
template <value A>
[[nodiscard]] constexpr auto hard_sigmoid(A x) {
  MEGANEURA_EXPECT_FLOATS("hard_sigmoid(x)", x)
  return hard_sigmoid(x, constant<0.2>);
}

/// x hard_sigmoid(x, 1/6); NaN for -infinity. source: arXiv 1905.02244.
template <value A>
[[nodiscard]] constexpr auto hard_swish(A x) {
  MEGANEURA_EXPECT_FLOATS("hard_swish(x)", x)
  return detail::formula<layers::hard_swish>(x);
}

/// x within [-1, 1]. gradient: 1 there, at the bounds too.
template <value A>
[[nodiscard]] constexpr auto hard_tanh(A x) {
  MEGANEURA_EXPECT_FLOATS("hard_tanh(x)", x)
  return clamp(x, constant<-1.0f>, constant<1.0f>);
}

/// x within [0, 6]. gradient: 1 there, at the bounds too.
template <value A>
[[nodiscard]] constexpr auto relu6(A x) {
  MEGANEURA_EXPECT_FLOATS("relu6(x)", x)
  return clamp(x, constant<0.0f>, constant<6.0f>);
}

/// x - tanh(x), which keeps its digits near 0.
template <value A>
[[nodiscard]] constexpr auto tanh_shrink(A x) {
  MEGANEURA_EXPECT_FLOATS("tanh_shrink(x)", x)
  return detail::formula<layers::tanh_shrink>(x);
}

/// x moved towards 0 by bound >= 0, and 0 where |x| <= bound.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto soft_shrink(A x, B bound) {
  MEGANEURA_CHECK_OPERANDS("soft_shrink(x, bound)", x, bound)
  MEGANEURA_CHECK_FLOATS("soft_shrink(x, bound)", x, bound)
  return detail::formula<layers::soft_shrink>(x, bound);
}

/// 0 where |x| <= bound, elsewhere x.
template <value A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto hard_shrink(A x, B bound) {
  MEGANEURA_CHECK_OPERANDS("hard_shrink(x, bound)", x, bound)
  MEGANEURA_CHECK_FLOATS("hard_shrink(x, bound)", x, bound)
  return detail::formula<layers::hard_shrink>(x, bound);
}

/// exp(-x^2).
template <value A>
[[nodiscard]] constexpr auto gaussian(A x) {
  MEGANEURA_EXPECT_FLOATS("gaussian(x)", x)
  return detail::formula<layers::gaussian>(x);
}

/// (sqrt(x^2 + 1) - 1) / 2 + x, which keeps its digits near 0; NaN for infinities.
template <value A>
[[nodiscard]] constexpr auto bent_identity(A x) {
  MEGANEURA_EXPECT_FLOATS("bent_identity(x)", x)
  return detail::formula<layers::bent_identity>(x);
}

}  // namespace meganeura::inline MEGANEURA_ABI
