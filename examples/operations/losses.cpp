// SPDX-License-Identifier: MIT
// Losses, each beside its formula.
#include "operation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace operations {

namespace {

using values = std::vector<mn::node_value>;
using arguments = std::vector<numbers>;

constexpr std::size_t count = 4, width = 5;
constexpr const char* pair_shapes = "[..], [..] -> [], or [..] unreduced";

double mean_of(const numbers& list) {
  double sum = 0;
  for (const double x : list) sum += x;
  return sum / static_cast<double>(list.size());
}

// The mean over pairs.
operation pair(const char* call, const char* torch, operand x, operand y, double (*of)(double, double),
               mn::node_value (*build)(mn::node_value, mn::node_value)) {
  x.extents = y.extents = {4, 5};
  const auto definition = [of](const arguments& a) {
    numbers losses(a[0].size());
    std::transform(a[0].begin(), a[0].end(), a[1].begin(), losses.begin(), of);
    return numbers{mean_of(losses)};
  };
  return {call, pair_shapes, torch, "", {x, y}, [build](const values& a) { return build(a[0], a[1]); }, definition};
}

operand floats(double low, double high) { return {{}, low, high}; }

double square(double x) { return x * x; }
double soft_plus(double x) { return std::log(1 + std::exp(x)); }
double huber(double d, double bend) { return d < bend ? d * d / 2 : bend * (d - bend / 2); }

#define PAIR(call, torch, x_range, y_range, definition, built)                                \
  list.push_back(pair(                                                                        \
      call, torch, x_range, y_range, [](double x, double y) -> double { return definition; }, \
      [](mn::node_value x, mn::node_value y) -> mn::node_value { return built; }))

void add_pairs(std::vector<operation>& list) {
  const operand any = floats(-2, 2), chance = floats(0.1, 0.9);
  PAIR("mean_squared_error_loss(x, y)", "nn.functional.mse_loss", any, any, square(x - y),
       mn::mean_squared_error_loss(x, y));
  PAIR("l1_loss(x, y)", "nn.functional.l1_loss", any, any, std::fabs(x - y), mn::l1_loss(x, y));
  PAIR("smooth_l1_loss<options>(x, y)", "nn.functional.smooth_l1_loss", any, any, huber(std::fabs(x - y), 0.5) / 0.5,
       mn::smooth_l1_loss(x, y, mn::smooth_l1_options{.beta = 0.5f}));
  PAIR("huber_loss<options>(x, y)", "nn.functional.huber_loss", any, any, huber(std::fabs(x - y), 1.5),
       mn::huber_loss(x, y, mn::huber_options{.delta = 1.5f}));
  PAIR("log_cosh_loss(x, y)", "", floats(-5, 5), any, std::log(std::cosh(x - y)), mn::log_cosh_loss(x, y));
  PAIR("quantile_loss<options>(x, y)", "", any, any, std::fmax(0.75 * (y - x), -0.25 * (y - x)),
       mn::quantile_loss(x, y, mn::quantile_options{.q = 0.75f}));
  PAIR("binary_cross_entropy_loss(x, y)", "nn.functional.binary_cross_entropy", chance, chance,
       -y * std::log(x) - (1 - y) * std::log(1 - x), mn::binary_cross_entropy_loss(x, y));
  PAIR("binary_cross_entropy_with_logits_loss(x, y)", "nn.functional.binary_cross_entropy_with_logits", floats(-6, 6),
       chance, y * soft_plus(-x) + (1 - y) * soft_plus(x), mn::binary_cross_entropy_with_logits_loss(x, y));
  PAIR("focal_loss<options>(x, y)", "torchvision.ops.sigmoid_focal_loss", any, chance,
       (y * soft_plus(-x) + (1 - y) * soft_plus(x)) * square(y / (1 + std::exp(x)) + (1 - y) / (1 + std::exp(-x))) *
           (0.25 * y + 0.75 * (1 - y)),
       mn::focal_loss(x, y));
  PAIR("kl_div_loss<options>(x, y)", "nn.functional.kl_div", any, chance, y * (std::log(y) - x), mn::kl_div_loss(x, y));
  PAIR("hinge_embedding_loss<options>(x, y)", "nn.functional.hinge_embedding_loss", any, any,
       (y == 1 ? 0 : std::fmax(0, 0.5 - x)) + (y == -1 ? 0 : x),
       mn::hinge_embedding_loss(x, y, mn::hinge_options{.margin = 0.5f}));
  PAIR("hinge_loss<options>(x, y)", "", any, any, std::fmax(0, 0.5 - x * y),
       mn::hinge_loss(x, y, mn::hinge_options{.margin = 0.5f}));
  PAIR("squared_hinge_loss<options>(x, y)", "", any, any, square(std::fmax(0, 1 - x * y)),
       mn::squared_hinge_loss(x, y));
  PAIR("soft_margin_loss(x, y)", "nn.functional.soft_margin_loss", any, any, soft_plus(-x * y),
       mn::soft_margin_loss(x, y));
  PAIR("poisson_nll_loss<options>(x, y)", "nn.functional.poisson_nll_loss", any, floats(0, 5),
       std::exp(x) - x * y + (y > 1 ? y * std::log(y) - y + std::log(2 * M_PI * y) / 2 : 0),
       mn::poisson_nll_loss(x, y, mn::poisson_nll_options{.full = true}));
}

void add_threes(std::vector<operation>& list) {
  const operand row{{4, 5}};
  list.push_back({"gaussian_nll_loss<options>(x, y, variance)",
                  "[..], [..], [..] -> []",
                  "nn.functional.gaussian_nll_loss",
                  "",
                  {row, row, {{4, 1}, 0.5, 2}},
                  [](const values& x) { return mn::gaussian_nll_loss(x[0], x[1], x[2]); },
                  [](const arguments& x) {
                    numbers losses;
                    for (std::size_t i = 0; i < count * width; ++i) {
                      const double variance = x[2][i / width];
                      losses.push_back((std::log(variance) + square(x[0][i] - x[1][i]) / variance) / 2);
                    }
                    return numbers{mean_of(losses)};
                  }});
  list.push_back(
      {"margin_ranking_loss<options>(a, b, y)",
       "[..], [..], [..] -> []",
       "nn.functional.margin_ranking_loss",
       "",
       {row, row, row},
       [](const values& x) { return mn::margin_ranking_loss(x[0], x[1], x[2], mn::ranking_options{.margin = 0.5f}); },
       [](const arguments& x) {
         numbers losses;
         for (std::size_t i = 0; i < count * width; ++i)
           losses.push_back(std::fmax(0, 0.5 - x[2][i] * (x[0][i] - x[1][i])));
         return numbers{mean_of(losses)};
       }});
  list.push_back({"cosine_embedding_loss<options>(a, b, y)",
                  "[.., width], [.., width], [..] -> []",
                  "nn.functional.cosine_embedding_loss",
                  "",
                  {row, row, {{4}, -1, 0}},
                  [](const values& x) {  // targets of a fourth of the rows 1, of the others -1
                    const auto y = mn::floor(x[2]);
                    return mn::cosine_embedding_loss(x[0], x[1], y) +
                           mn::cosine_embedding_loss(x[0], x[1], -y, mn::ranking_options{.margin = 0.25f}) * 2;
                  },
                  [](const arguments& x) {
                    numbers losses;
                    for (std::size_t n = 0; n < count; ++n) {
                      double dot = 0, a = 0, b = 0;
                      for (std::size_t i = n * width; i < (n + 1) * width; ++i)
                        dot += x[0][i] * x[1][i], a += square(x[0][i]), b += square(x[1][i]);
                      const double cosine = dot / std::sqrt(a * b);
                      losses.push_back(std::fmax(0, cosine) + 2 * (1 - cosine));
                    }
                    return numbers{mean_of(losses)};
                  }});
  list.push_back({"triplet_margin_loss<options>(anchor, positive, negative)",
                  "[.., width], [.., width], [.., width] -> []",
                  "nn.functional.triplet_margin_loss",
                  "",
                  {row, row, row},
                  [](const values& x) {
                    return mn::triplet_margin_loss(x[0], x[1], x[2], mn::triplet_options{.margin = 2, .swap = true});
                  },
                  [](const arguments& x) {
                    const auto distance = [&](std::size_t n, const numbers& a, const numbers& b) {
                      double sum = 0;
                      for (std::size_t i = n * width; i < (n + 1) * width; ++i) sum += square(a[i] - b[i] + 1e-6f);
                      return std::sqrt(sum);
                    };
                    numbers losses;
                    for (std::size_t n = 0; n < count; ++n) {
                      const double far = std::fmin(distance(n, x[0], x[2]), distance(n, x[1], x[2]));
                      losses.push_back(std::fmax(0, distance(n, x[0], x[1]) - far + 2));
                    }
                    return numbers{mean_of(losses)};
                  }});
}

// log_softmax over classes that lie `stride` apart, `classes` of them from `at` on.
double log_chance(const numbers& x, std::size_t at, std::size_t classes, std::size_t stride, std::size_t chosen) {
  double sum = 0;
  for (std::size_t k = 0; k < classes; ++k) sum += std::exp(x[at + k * stride]);
  return x[at + chosen * stride] - std::log(sum);
}

// Logits [2, 3 classes, 5], labels [2, 5] of which -1 and 3 are no class: the mean of each position's loss times its
// weight, by the sum of the weights.
numbers by_labels(const arguments& x, const numbers& weights,
                  const std::function<double(std::size_t at, std::size_t label)>& loss) {
  double sum = 0, total = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    if (x[1][i] < 0 || x[1][i] > 2) continue;
    const auto label = static_cast<std::size_t>(x[1][i]);
    sum += loss(i / 5 * 15 + i % 5, label), total += weights[label];
  }
  return {sum / total};
}

void add_classes(std::vector<operation>& list) {
  const operand logits{{2, 3, 5}, -4, 4}, labels{{2, 5}, -1, 4, mn::dtype::i32}, weights{{3}, 0.5, 2};
  list.push_back(
      {"cross_entropy_loss<options>(logits, labels)",
       "[.., classes], [..] -> [], or [..] unreduced",
       "nn.functional.cross_entropy",
       "SoftmaxCrossEntropyLoss",
       {logits, labels},
       [](const values& x) { return mn::cross_entropy_loss(x[0], x[1], mn::cross_entropy_options{.axis = 1}); },
       [](const arguments& x) {
         return by_labels(x, {1, 1, 1},
                          [&](std::size_t at, std::size_t label) { return -log_chance(x[0], at, 3, 5, label); });
       }});
  list.push_back({"cross_entropy_loss<options>(logits, labels, weights)",
                  "[.., classes], [..], [classes] -> [], or [..] unreduced",
                  "nn.functional.cross_entropy",
                  "SoftmaxCrossEntropyLoss",
                  {logits, labels, weights},
                  [](const values& x) {
                    return mn::cross_entropy_loss(x[0], x[1], x[2],
                                                  mn::cross_entropy_options{.axis = 1, .label_smoothing = 0.25f});
                  },
                  [](const arguments& x) {
                    return by_labels(x, x[2], [&](std::size_t at, std::size_t label) {
                      double loss = -0.75 * x[2][label] * log_chance(x[0], at, 3, 5, label);
                      for (std::size_t k = 0; k < 3; ++k) loss -= 0.25 / 3 * x[2][k] * log_chance(x[0], at, 3, 5, k);
                      return loss;
                    });
                  }});
  list.push_back({"cross_entropy_loss<options>(logits, shares)",
                  "[.., classes], [.., classes] -> [], or [..] unreduced",
                  "nn.functional.cross_entropy",
                  "",
                  {{{2, 5}, -4, 4}, {{2, 5}, 0, 1}},
                  [](const values& x) {
                    return mn::cross_entropy_loss(x[0], x[1], mn::cross_entropy_options{.label_smoothing = 0.25f});
                  },
                  [](const arguments& x) {
                    double sum = 0;
                    for (std::size_t i = 0; i < 10; ++i)
                      sum -= (0.75 * x[1][i] + 0.05) * log_chance(x[0], i / 5 * 5, 5, 1, i % 5);
                    return numbers{sum / 2};
                  }});
  list.push_back({"nll_loss<options>(scores, labels, weights)",
                  "[.., classes], [..], [classes] -> [], or [..] unreduced",
                  "nn.functional.nll_loss",
                  "NegativeLogLikelihoodLoss",
                  {logits, labels, weights},
                  [](const values& x) { return mn::nll_loss(x[0], x[1], x[2], mn::cross_entropy_options{.axis = 1}); },
                  [](const arguments& x) {
                    return by_labels(x, x[2], [&](std::size_t at, std::size_t label) {
                      return -x[2][label] * x[0][at + 5 * label];
                    });
                  }});
}

}  // namespace

void add_losses(std::vector<operation>& list) {
  add_pairs(list);
  add_threes(list);
  add_classes(list);
}

}  // namespace operations
