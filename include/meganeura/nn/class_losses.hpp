// SPDX-License-Identifier: MIT
// Losses of classes: of two, as logits, chances or margins, and of many, as logarithms of chances.
#pragma once
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/losses.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// margin: what the target times the prediction has to reach to lose nothing; of hinge_embedding, what the distance of
/// an unlike pair has to.
struct hinge_options {
  float margin = 1;
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const hinge_options&, const hinge_options&) = default;
};
/// alpha: the weight of targets that are 1, 1 - alpha that of zeros; below 0: neither. gamma: the power of the chance
/// of a miss that losses are multiplied by; 0: none. source: arXiv 1708.02002.
struct focal_options {
  float alpha = 0.25f, gamma = 2;
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const focal_options&, const focal_options&) = default;
};

namespace detail {

// log(1 + exp(z)), of which no step overflows; at 0 its gradient is 1/2, not that of a bound.
constexpr auto log_of_one_and_exp(value auto z) { return (z + abs(z)) * 0.5f + log1p(exp(-abs(z))); }

}  // namespace detail

namespace layers {

struct binary_cross_entropy : detail::pairwise_loss<binary_cross_entropy> {
  static constexpr auto each(value auto x, value auto y, loss_options) {
    const auto no_chance = less_equal(x, 1e-38f), certain = less_equal(1.0f, x);
    const auto log_of = select(no_chance, -100.0f, maximum(log(select(no_chance, 1.0f, x)), -100.0f));
    const auto log_of_rest = select(certain, -100.0f, log1p(-select(certain, 0.0f, x)));
    return (y - 1.0f) * log_of_rest - y * log_of;
  }
};

struct binary_cross_entropy_with_logits : detail::pairwise_loss<binary_cross_entropy_with_logits> {
  using pairwise_loss::forward;
  static constexpr auto forward(value auto logits, value auto target, value auto weight, loss_options options) {
    const auto y = detail::widened(target);
    const auto share = y * (detail::widened(weight) - 1.0f) + 1.0f;
    return detail::reduced_loss(each(detail::widened(logits), y, options, share), options.reduction);
  }
  static constexpr auto each(value auto x, value auto y, loss_options, value auto... share) {
    return (1.0f - y) * x + (detail::log_of_one_and_exp(-x) * ... * share);
  }
};

struct focal : detail::pairwise_loss<focal> {
  static constexpr auto each(value auto x, value auto y, focal_options options) {
    const auto entropy = binary_cross_entropy_with_logits::each(x, y, {});
    const auto miss = sigmoid::forward(x) * (1.0f - y) + sigmoid::forward(-x) * y;
    const auto losses = options.gamma == 0 ? entropy : entropy * raised(miss, detail::as_double(options.gamma));
    const double alpha = detail::as_double(options.alpha);
    return alpha < 0 ? losses : losses * (y * (2 * alpha - 1) + (1 - alpha));
  }

 private:
  static constexpr auto raised(value auto x, double exponent) {
    return exponent == 1 ? x : exponent == 2 ? x * x : power(x, exponent);
  }
};

struct hinge : detail::pairwise_loss<hinge> {
  static constexpr auto each(value auto x, value auto y, hinge_options options) {
    return relu(detail::as_double(options.margin) - x * y);
  }
};

struct squared_hinge : detail::pairwise_loss<squared_hinge> {
  static constexpr auto each(value auto x, value auto y, hinge_options options) {
    const auto below = relu(detail::as_double(options.margin) - x * y);
    return below * below;
  }
};

struct soft_margin : detail::pairwise_loss<soft_margin> {
  static constexpr auto each(value auto x, value auto y, loss_options) { return detail::log_of_one_and_exp(-(x * y)); }
};

/// Of logarithms of chances.
struct nll {
  static constexpr auto forward(value auto scores, value auto target, cross_entropy_options options) {
    const detail::class_labels labels(scores, target, options);
    return labels.reduced(-labels.picked_of(detail::widened(scores)), options.reduction);
  }
  static constexpr auto forward(value auto scores, value auto target, value auto weights,
                                cross_entropy_options options) {
    const detail::class_labels labels(scores, target, options);
    const auto each = detail::widened(weights);
    const auto losses = -labels.picked_of(detail::widened(scores)) * labels.weights_of(each);
    return labels.reduced(losses, each, options.reduction);
  }
};

}  // namespace layers

/// -target log(p) - (1 - target) log(1 - p) of a chance p, each logarithm at least -100, where its gradient ends.
/// torch.nn.functional.binary_cross_entropy.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto binary_cross_entropy_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("binary_cross_entropy_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::binary_cross_entropy>(fixed_text<"">{}, prediction, target, options);
}
template <loss_options Options = loss_options{}, value A, value B>
[[nodiscard]] constexpr auto binary_cross_entropy_loss(A prediction, B target) {
  return binary_cross_entropy_loss(prediction, target, c<Options>);
}
template <fixed_string Target, loss_options Options = loss_options{}>
struct binary_cross_entropy : loss<detail::pairwise_module<layers::binary_cross_entropy, Options>, target<Target>> {};

/// The same of logits, p = sigmoid(logits), which keeps its digits. `pos_weight` weighs targets that are 1 and
/// broadcasts over them: one number for each class. torch.nn.functional.binary_cross_entropy_with_logits. errors:
/// "pos_weight must broadcast over the logits".
template <value A, value B, class Options>
  requires(!value<Options>)
[[nodiscard]] constexpr auto binary_cross_entropy_with_logits_loss(A logits, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("binary_cross_entropy_with_logits_loss<options>(logits, target)", logits, target)
  return detail::layer<layers::binary_cross_entropy_with_logits>(fixed_text<"">{}, logits, target, options);
}
template <value A, value B, value Weight, class Options>
[[nodiscard]] constexpr auto binary_cross_entropy_with_logits_loss(A logits, B target, Weight pos_weight,
                                                                   Options options) {
  MEGANEURA_EXPECT_ALIKE("binary_cross_entropy_with_logits_loss<options>(logits, target, pos_weight)", logits, target)
  MEGANEURA_EXPECT((detail::both_fit(logits.facts(), pos_weight.facts()) &&
                    detail::can_expand(pos_weight.facts().shape, logits.facts().shape)),
                   "meganeura: binary_cross_entropy_with_logits_loss<options>(logits, target, pos_weight): pos_weight "
                   "must broadcast over the logits and have their dtype",
                   logits, target, pos_weight)
  return detail::layer<layers::binary_cross_entropy_with_logits>(fixed_text<"">{}, logits, target, pos_weight, options);
}
template <loss_options Options = loss_options{}, value A, value B, value... Weight>
[[nodiscard]] constexpr auto binary_cross_entropy_with_logits_loss(A logits, B target, Weight... pos_weight) {
  return binary_cross_entropy_with_logits_loss(logits, target, pos_weight..., c<Options>);
}
template <fixed_string Target, loss_options Options = loss_options{}>
struct binary_cross_entropy_with_logits
    : loss<detail::pairwise_module<layers::binary_cross_entropy_with_logits, Options>, target<Target>> {};

/// binary_cross_entropy_with_logits_loss times (1 - the chance of the target)^gamma and times alpha or 1 - alpha.
/// torchvision.ops.sigmoid_focal_loss, which sums nothing by default. source: arXiv 1708.02002.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto focal_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("focal_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::focal>(fixed_text<"">{}, prediction, target, options);
}
template <focal_options Options = focal_options{}, value A, value B>
[[nodiscard]] constexpr auto focal_loss(A prediction, B target) {
  return focal_loss(prediction, target, c<Options>);
}
template <fixed_string Target, focal_options Options = focal_options{}>
struct focal : loss<detail::pairwise_module<layers::focal, Options>, target<Target>> {};

/// max(0, margin - target prediction), targets 1 and -1. gradient: 0 at the margin.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto hinge_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("hinge_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::hinge>(fixed_text<"">{}, prediction, target, options);
}
template <hinge_options Options = hinge_options{}, value A, value B>
[[nodiscard]] constexpr auto hinge_loss(A prediction, B target) {
  return hinge_loss(prediction, target, c<Options>);
}
template <fixed_string Target, hinge_options Options = hinge_options{}>
struct hinge : loss<detail::pairwise_module<layers::hinge, Options>, target<Target>> {};

/// max(0, margin - target prediction)^2, targets 1 and -1.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto squared_hinge_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("squared_hinge_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::squared_hinge>(fixed_text<"">{}, prediction, target, options);
}
template <hinge_options Options = hinge_options{}, value A, value B>
[[nodiscard]] constexpr auto squared_hinge_loss(A prediction, B target) {
  return squared_hinge_loss(prediction, target, c<Options>);
}
template <fixed_string Target, hinge_options Options = hinge_options{}>
struct squared_hinge : loss<detail::pairwise_module<layers::squared_hinge, Options>, target<Target>> {};

/// log(1 + exp(-target prediction)), targets 1 and -1. torch.nn.functional.soft_margin_loss.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto soft_margin_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("soft_margin_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::soft_margin>(fixed_text<"">{}, prediction, target, options);
}
template <loss_options Options = loss_options{}, value A, value B>
[[nodiscard]] constexpr auto soft_margin_loss(A prediction, B target) {
  return soft_margin_loss(prediction, target, c<Options>);
}
template <fixed_string Target, loss_options Options = loss_options{}>
struct soft_margin : loss<detail::pairwise_module<layers::soft_margin, Options>, target<Target>> {};

/// -scores[label], the scores being logarithms of chances: cross_entropy_loss of what log_softmax gives, with its
/// options, labels and weights; nothing is smoothed. torch.nn.functional.nll_loss.
template <value Scores, value Labels, class Options>
  requires(!value<Options>)
[[nodiscard]] constexpr auto nll_loss(Scores scores, Labels labels, Options options) {
  MEGANEURA_EXPECT(detail::can_label(scores.facts(), labels.facts(), static_cast<cross_entropy_options>(options).axis),
                   "meganeura: nll_loss(scores, labels): labels must be i32 of the scores' shape less the axis of the "
                   "classes (the last one, or .axis = 1 of [n, classes, ..]), which must be a number",
                   scores, labels)
  return detail::layer<layers::nll>(fixed_text<"">{}, scores, labels, options);
}
template <value Scores, value Labels, value Weights, class Options>
[[nodiscard]] constexpr auto nll_loss(Scores scores, Labels labels, Weights weights, Options options) {
  MEGANEURA_EXPECT(
      detail::can_label(scores.facts(), labels.facts(), static_cast<cross_entropy_options>(options).axis),
      "meganeura: nll_loss(scores, labels, weights): labels must be i32 of the scores' shape less the axis "
      "of the classes (the last one, or .axis = 1 of [n, classes, ..]), which must be a number",
      scores, labels, weights)
  MEGANEURA_EXPECT(detail::can_weigh(scores.facts(), weights.facts(), static_cast<cross_entropy_options>(options).axis),
                   "meganeura: nll_loss(scores, labels, weights): weights must be floats, one for each class", scores,
                   labels, weights)
  return detail::layer<layers::nll>(fixed_text<"">{}, scores, labels, weights, options);
}
template <cross_entropy_options Options = cross_entropy_options{}, value Scores, value Labels, value... Weights>
[[nodiscard]] constexpr auto nll_loss(Scores scores, Labels labels, Weights... weights) {
  return nll_loss(scores, labels, weights..., c<Options>);
}

namespace detail {
template <cross_entropy_options Options>
struct nll_module {
  static constexpr cross_entropy_options options = Options;
  static constexpr bool takes_labels = true;
  static constexpr auto forward(value auto scores, value auto label) { return nll_loss<Options>(scores, label); }
};
}  // namespace detail

template <fixed_string Label, cross_entropy_options Options = cross_entropy_options{}>
struct nll : loss<detail::nll_module<Options>, labels<Label, Options.axis>> {};

/// cross_entropy_loss beside shares of the classes, of the shape of the model's result.
template <fixed_string Target, cross_entropy_options Options = cross_entropy_options{}>
struct dense_cross_entropy : loss<detail::dense_cross_entropy_module<Options>, target<Target>> {};

}  // namespace meganeura::inline MEGANEURA_ABI
