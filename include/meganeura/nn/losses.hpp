// SPDX-License-Identifier: MIT
// Losses of a prediction beside a target of its shape, as torch.nn.functional has them: as functions of values, and as
// what a trainer minimises, trainer<mlp, huber<"target">>.
#pragma once
#include <meganeura/core/constexpr_math.hpp>
#include <meganeura/nn/loss.hpp>
#include <meganeura/ops/exponential.hpp>
#include <meganeura/ops/trigonometry.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// beta: where the parabola meets the line; 0: no parabola; not below.
struct smooth_l1_options {
  float beta = 1;
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const smooth_l1_options&, const smooth_l1_options&) = default;
};
/// delta: the distance where the parabola ends; above 0.
struct huber_options {
  float delta = 1;
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const huber_options&, const huber_options&) = default;
};
/// q: the share of targets that are to lie below the prediction; from 0 to 1.
struct quantile_options {
  float q = 0.5f;
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const quantile_options&, const quantile_options&) = default;
};
struct kl_div_options {
  bool log_target = false;  // the target is logarithms of chances, as the prediction is
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const kl_div_options&, const kl_div_options&) = default;
};
struct poisson_nll_options {
  bool log_input = true;  // the prediction is the logarithm of a rate
  bool full = false;      // with Stirling's approximation of log(target!) where the target is above 1
  float epsilon = 1e-8f;  // added to a rate
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const poisson_nll_options&, const poisson_nll_options&) = default;
};
/// epsilon: the least variance that counts, which keeps the loss finite; its gradient goes on below.
struct gaussian_nll_options {
  bool full = false;  // with log(2 pi) / 2
  float epsilon = 1e-6f;
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const gaussian_nll_options&, const gaussian_nll_options&) = default;
};

namespace detail {

constexpr double as_double(float x) { return static_cast<double>(x); }

}  // namespace detail

namespace layers {

struct l1 : detail::pairwise_loss<l1> {
  static constexpr auto each(value auto x, value auto y, loss_options) { return abs(x - y); }
};

// Of a distance, `bend` where the parabola ends: d^2 / 2 and then bend (d - bend / 2).
struct huber : detail::pairwise_loss<huber> {
  static constexpr bool is_sound(huber_options options) { return options.delta > 0; }
  static constexpr auto each(value auto x, value auto y, huber_options options) {
    const auto distance = abs(x - y);
    const double bend = detail::as_double(options.delta);
    const auto inside = less(distance, bend);
    const auto near = select(inside, distance, 0.0f);  // a square that is not taken must not overflow
    return select(inside, near * near * 0.5f, distance * bend - bend * bend / 2);
  }
};

struct smooth_l1 : detail::pairwise_loss<smooth_l1> {
  static constexpr bool is_sound(smooth_l1_options options) { return options.beta >= 0; }
  static constexpr auto each(value auto x, value auto y, smooth_l1_options options) {
    if (options.beta == 0) return abs(x - y);
    return huber::each(x, y, {.delta = options.beta}) * (1 / detail::as_double(options.beta));
  }
};

struct log_cosh : detail::pairwise_loss<log_cosh> {
  static constexpr auto each(value auto x, value auto y, loss_options) {
    const auto difference = x - y;
    const auto inside = less(abs(difference), 4.0f);
    const auto half = sinh(select(inside, difference, 0.0f) * 0.5f);  // cosh(d) = 1 + 2 sinh(d / 2)^2: digits near 0
    const auto far = abs(difference) + log1p(exp(abs(difference) * -2.0f)) - detail::log_of_2;
    return select(inside, log1p(half * half * 2.0f), far);
  }
};

struct quantile : detail::pairwise_loss<quantile> {
  static constexpr bool is_sound(quantile_options options) { return options.q >= 0 && options.q <= 1; }
  static constexpr auto each(value auto x, value auto y, quantile_options options) {
    const auto above = y - x;
    return maximum(above * detail::as_double(options.q), above * (detail::as_double(options.q) - 1));
  }
};

struct kl_div : detail::pairwise_loss<kl_div> {
  static constexpr auto each(value auto x, value auto y, kl_div_options options) {
    if (options.log_target) return exp(y) * (y - x);
    const auto is_zero = equal(y, 0.0f);
    return select(is_zero, 0.0f, y * log(select(is_zero, 1.0f, y))) - y * x;
  }
};

struct poisson_nll : detail::pairwise_loss<poisson_nll> {
  static constexpr auto each(value auto x, value auto y, poisson_nll_options options) {
    const auto losses = options.log_input ? exp(x) - y * x : x - y * log(x + detail::as_double(options.epsilon));
    return options.full ? losses + log_factorial(y) : losses;
  }

 private:
  static constexpr auto log_factorial(value auto y) {
    const auto many = less(1.0f, y);
    const auto count = select(many, y, 1.0f);
    return select(many, count * log(count) - count + log(count * detail::two_pi) * 0.5f, 0.0f);
  }
};

struct gaussian_nll {
  static constexpr auto forward(value auto prediction, value auto target, value auto variance,
                                gaussian_nll_options options) {
    const auto given = detail::widened(variance);
    const auto square = given + stop_gradient(relu(detail::as_double(options.epsilon) - given));
    const auto difference = detail::widened(prediction) - detail::widened(target);
    const auto losses = (log(square) + difference * difference / square) * 0.5f;
    return detail::reduced_loss(options.full ? losses + detail::natural_log(detail::two_pi) / 2 : losses,
                                options.reduction);
  }
};

}  // namespace layers

// prediction, target: floats of one shape and dtype, computed in f32, as the result is: [] or, with
// loss_reduction::none, of their shape. Each has a form of run time, huber_loss(prediction, target, huber_options{..}),
// and one for a trainer, where the target is bound by its name. errors: "both must be floats of one shape and dtype".

/// |prediction - target|. torch.nn.functional.l1_loss.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto l1_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("l1_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::l1>(fixed_text<"">{}, prediction, target, options);
}
template <loss_options Options = loss_options{}, value A, value B>
[[nodiscard]] constexpr auto l1_loss(A prediction, B target) {
  return l1_loss(prediction, target, c<Options>);
}
template <fixed_string Target, loss_options Options = loss_options{}>
struct l1 : loss<detail::pairwise_module<layers::l1, Options>, target<Target>> {};

/// d^2 / (2 beta) for a distance d below beta, d - beta / 2 from there. torch.nn.functional.smooth_l1_loss.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto smooth_l1_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("smooth_l1_loss<options>(prediction, target)", prediction, target)
  MEGANEURA_EXPECT(layers::smooth_l1::is_sound(options),
                   "meganeura: smooth_l1_loss<options>(prediction, target): beta must be at least 0", prediction,
                   target)
  return detail::layer<layers::smooth_l1>(fixed_text<"">{}, prediction, target, options);
}
template <smooth_l1_options Options = smooth_l1_options{}, value A, value B>
[[nodiscard]] constexpr auto smooth_l1_loss(A prediction, B target) {
  return smooth_l1_loss(prediction, target, c<Options>);
}
template <fixed_string Target, smooth_l1_options Options = smooth_l1_options{}>
struct smooth_l1 : loss<detail::pairwise_module<layers::smooth_l1, Options>, target<Target>> {};

/// d^2 / 2 for a distance d below delta, delta (d - delta / 2) from there. torch.nn.functional.huber_loss.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto huber_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("huber_loss<options>(prediction, target)", prediction, target)
  MEGANEURA_EXPECT(layers::huber::is_sound(options),
                   "meganeura: huber_loss<options>(prediction, target): delta must be above 0", prediction, target)
  return detail::layer<layers::huber>(fixed_text<"">{}, prediction, target, options);
}
template <huber_options Options = huber_options{}, value A, value B>
[[nodiscard]] constexpr auto huber_loss(A prediction, B target) {
  return huber_loss(prediction, target, c<Options>);
}
template <fixed_string Target, huber_options Options = huber_options{}>
struct huber : loss<detail::pairwise_module<layers::huber, Options>, target<Target>> {};

/// log(cosh(prediction - target)).
template <value A, value B, class Options>
[[nodiscard]] constexpr auto log_cosh_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("log_cosh_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::log_cosh>(fixed_text<"">{}, prediction, target, options);
}
template <loss_options Options = loss_options{}, value A, value B>
[[nodiscard]] constexpr auto log_cosh_loss(A prediction, B target) {
  return log_cosh_loss(prediction, target, c<Options>);
}
template <fixed_string Target, loss_options Options = loss_options{}>
struct log_cosh_error : loss<detail::pairwise_module<layers::log_cosh, Options>, target<Target>> {};

/// q d where the target is d above the prediction, (1 - q) d where it is d below: the pinball loss.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto quantile_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("quantile_loss<options>(prediction, target)", prediction, target)
  MEGANEURA_EXPECT(layers::quantile::is_sound(options),
                   "meganeura: quantile_loss<options>(prediction, target): q must be from 0 to 1", prediction, target)
  return detail::layer<layers::quantile>(fixed_text<"">{}, prediction, target, options);
}
template <quantile_options Options = quantile_options{}, value A, value B>
[[nodiscard]] constexpr auto quantile_loss(A prediction, B target) {
  return quantile_loss(prediction, target, c<Options>);
}
template <fixed_string Target, quantile_options Options = quantile_options{}>
struct quantile_error : loss<detail::pairwise_module<layers::quantile, Options>, target<Target>> {};

/// target (log(target) - prediction), the prediction being a logarithm of chances and, with log_target, the target too.
/// The divergence of rows is loss_reduction::batch_mean. torch.nn.functional.kl_div.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto kl_div_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("kl_div_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::kl_div>(fixed_text<"">{}, prediction, target, options);
}
template <kl_div_options Options = kl_div_options{}, value A, value B>
[[nodiscard]] constexpr auto kl_div_loss(A prediction, B target) {
  return kl_div_loss(prediction, target, c<Options>);
}
template <fixed_string Target, kl_div_options Options = kl_div_options{}>
struct kl_div : loss<detail::pairwise_module<layers::kl_div, Options>, target<Target>> {};

/// exp(prediction) - target prediction, of counts. torch.nn.functional.poisson_nll_loss.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto poisson_nll_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("poisson_nll_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::poisson_nll>(fixed_text<"">{}, prediction, target, options);
}
template <poisson_nll_options Options = poisson_nll_options{}, value A, value B>
[[nodiscard]] constexpr auto poisson_nll_loss(A prediction, B target) {
  return poisson_nll_loss(prediction, target, c<Options>);
}
template <fixed_string Target, poisson_nll_options Options = poisson_nll_options{}>
struct poisson_nll : loss<detail::pairwise_module<layers::poisson_nll, Options>, target<Target>> {};

/// (log(variance) + (prediction - target)^2 / variance) / 2, of a normal distribution. `variance` is of the
/// prediction's shape or has 1 for its last extent. torch.nn.functional.gaussian_nll_loss.
template <value A, value B, value Variance, class Options>
[[nodiscard]] constexpr auto gaussian_nll_loss(A prediction, B target, Variance variance, Options options) {
  MEGANEURA_EXPECT_ALIKE("gaussian_nll_loss<options>(prediction, target, variance)", prediction, target)
  MEGANEURA_EXPECT((prediction.facts().type == variance.facts().type &&
                    detail::can_expand(variance.facts().shape, prediction.facts().shape)),
                   "meganeura: gaussian_nll_loss<options>(prediction, target, variance): the variance must broadcast "
                   "over the prediction and have its dtype",
                   prediction, target, variance)
  return detail::layer<layers::gaussian_nll>(fixed_text<"">{}, prediction, target, variance, options);
}
template <gaussian_nll_options Options = gaussian_nll_options{}, value A, value B, value Variance>
[[nodiscard]] constexpr auto gaussian_nll_loss(A prediction, B target, Variance variance) {
  return gaussian_nll_loss(prediction, target, variance, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
