// SPDX-License-Identifier: MIT
// Losses of distances: between rows that belong together and rows that do not.
#pragma once
#include <meganeura/nn/class_losses.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// margin: of margin_ranking, by how much the larger is to be above the other; of cosine_embedding, the cosine below
/// which rows of different kinds lose nothing.
struct ranking_options {
  float margin = 0;
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const ranking_options&, const ranking_options&) = default;
};
/// margin: by how much the negative is to be further away. p: of the norm that is a distance, above 0; infinity: the
/// largest difference. epsilon: added to each difference. swap: the negative is as far as it is from the nearer one of
/// anchor and positive.
struct triplet_options {
  float margin = 1, p = 2, epsilon = 1e-6f;
  bool swap = false;
  loss_reduction reduction = loss_reduction::mean;
  friend constexpr bool operator==(const triplet_options&, const triplet_options&) = default;
};

namespace detail {
// y is one number a row of x.
constexpr bool is_row_target(const facts& x, const facts& y) {
  return x.shape.rank >= 1 && x.type == y.type && y.shape == reduced_shape(x.shape, 1u << (x.shape.rank - 1));
}
}  // namespace detail

namespace layers {

struct hinge_embedding : detail::pairwise_loss<hinge_embedding> {
  static constexpr auto each(value auto x, value auto y, hinge_options options) {
    const auto below = relu(detail::as_double(options.margin) - x);
    return select(equal(y, 1.0f), 0.0f, below) + select(equal(y, -1.0f), 0.0f, x);
  }
};

struct margin_ranking {
  static constexpr auto forward(value auto a, value auto b, value auto target, ranking_options options) {
    const auto difference = detail::widened(a) - detail::widened(b);
    const auto losses = relu(detail::as_double(options.margin) - detail::widened(target) * difference);
    return detail::reduced_loss(losses, options.reduction);
  }
};

struct cosine_embedding {
  static constexpr auto forward(value auto a, value auto b, value auto target, ranking_options options) {
    const auto x = detail::widened(a), y = detail::widened(b), sign = detail::widened(target);
    const auto length = [](auto rows) { return sum(rows * rows, -1) + 1e-12f; };
    const auto cosine = sum(x * y, -1) * rsqrt(length(x) * length(y));
    const auto apart = relu(cosine - detail::as_double(options.margin));
    const auto losses = select(equal(sign, 1.0f), 1.0f - cosine, select(equal(sign, -1.0f), apart, 0.0f));
    return detail::reduced_loss(losses, options.reduction);
  }
};

struct triplet_margin {
  static constexpr auto forward(value auto anchor, value auto positive, value auto negative, triplet_options options) {
    const auto a = detail::widened(anchor), p = detail::widened(positive), n = detail::widened(negative);
    const auto near = distance(a, p, options), far = distance(a, n, options);
    const auto apart = options.swap ? minimum(far, distance(p, n, options)) : far;
    return detail::reduced_loss(relu(near - apart + detail::as_double(options.margin)), options.reduction);
  }

 private:
  // Bounded below so that the gradient of a root at 0 is 0.
  static constexpr auto distance(value auto x, value auto y, triplet_options options) {
    const auto difference = abs(x - y + detail::as_double(options.epsilon));
    const double p = detail::as_double(options.p);
    if (p == 1) return sum(difference, -1);
    if (p == 2) return sqrt(maximum(sum(difference * difference, -1), 1e-38f));
    if (p > 1e38) return max(difference, -1);
    return power(maximum(sum(power(difference, p), -1), 1e-38f), 1 / p);
  }
};

}  // namespace layers

/// A distance where the target is 1, max(0, margin - distance) where it is -1.
/// torch.nn.functional.hinge_embedding_loss.
template <value A, value B, class Options>
[[nodiscard]] constexpr auto hinge_embedding_loss(A prediction, B target, Options options) {
  MEGANEURA_EXPECT_ALIKE("hinge_embedding_loss<options>(prediction, target)", prediction, target)
  return detail::layer<layers::hinge_embedding>(fixed_text<"">{}, prediction, target, options);
}
template <hinge_options Options = hinge_options{}, value A, value B>
[[nodiscard]] constexpr auto hinge_embedding_loss(A prediction, B target) {
  return hinge_embedding_loss(prediction, target, c<Options>);
}
template <fixed_string Target, hinge_options Options = hinge_options{}>
struct hinge_embedding : loss<detail::pairwise_module<layers::hinge_embedding, Options>, target<Target>> {};

/// max(0, margin - target (a - b)): a is to be above b where the target is 1, below where it is -1.
/// torch.nn.functional.margin_ranking_loss.
template <value A, value B, value Target, class Options>
[[nodiscard]] constexpr auto margin_ranking_loss(A a, B b, Target target, Options options) {
  MEGANEURA_EXPECT_ALIKE("margin_ranking_loss<options>(a, b, target)", a, b)
  MEGANEURA_EXPECT(detail::are_of_one_type(a.facts(), target.facts()),
                   "meganeura: margin_ranking_loss<options>(a, b, target): the target must have their shape and dtype",
                   a, b, target)
  return detail::layer<layers::margin_ranking>(fixed_text<"">{}, a, b, target, options);
}
template <ranking_options Options = ranking_options{}, value A, value B, value Target>
[[nodiscard]] constexpr auto margin_ranking_loss(A a, B b, Target target) {
  return margin_ranking_loss(a, b, target, c<Options>);
}

/// Of rows, 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1; 0 elsewhere.
/// shapes: a, b [.., width], target [..]. torch.nn.functional.cosine_embedding_loss.
template <value A, value B, value Target, class Options>
[[nodiscard]] constexpr auto cosine_embedding_loss(A a, B b, Target target, Options options) {
  MEGANEURA_EXPECT_ALIKE("cosine_embedding_loss<options>(a, b, target)", a, b)
  MEGANEURA_EXPECT(
      detail::is_row_target(a.facts(), target.facts()),
      "meganeura: cosine_embedding_loss<options>(a, b, target): the target must have their dtype and their "
      "shape less the last axis",
      a, b, target)
  return detail::layer<layers::cosine_embedding>(fixed_text<"">{}, a, b, target, options);
}
template <ranking_options Options = ranking_options{}, value A, value B, value Target>
[[nodiscard]] constexpr auto cosine_embedding_loss(A a, B b, Target target) {
  return cosine_embedding_loss(a, b, target, c<Options>);
}

/// max(0, |anchor - positive| - |anchor - negative| + margin) of rows. shapes: [.., width] each.
/// torch.nn.functional.triplet_margin_loss.
template <value Anchor, value Positive, value Negative, class Options>
[[nodiscard]] constexpr auto triplet_margin_loss(Anchor anchor, Positive positive, Negative negative, Options options) {
  MEGANEURA_EXPECT_ALIKE("triplet_margin_loss<options>(anchor, positive, negative)", anchor, positive)
  MEGANEURA_EXPECT(
      (detail::are_of_one_type(anchor.facts(), negative.facts()) && anchor.facts().shape.rank >= 1),
      "meganeura: triplet_margin_loss<options>(anchor, positive, negative): all must be rows [.., width] of "
      "one shape and dtype",
      anchor, positive, negative)
  MEGANEURA_EXPECT(triplet_options(options).p > 0,
                   "meganeura: triplet_margin_loss<options>(anchor, positive, negative): p must be above 0", anchor,
                   positive, negative)
  return detail::layer<layers::triplet_margin>(fixed_text<"">{}, anchor, positive, negative, options);
}
template <triplet_options Options = triplet_options{}, value Anchor, value Positive, value Negative>
[[nodiscard]] constexpr auto triplet_margin_loss(Anchor anchor, Positive positive, Negative negative) {
  return triplet_margin_loss(anchor, positive, negative, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
