// SPDX-License-Identifier: MIT
// Evaluation over the batches of a whole set.
#include <meganeura/data/loader.hpp>
#include <meganeura/data/metrics.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/nn/class_losses.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

struct two_modes {
  static constexpr auto forward(value auto x) {
    return linear<"out", 5>(dropout<"drop", 0.5>(batch_norm<"bn">(linear<"fc", 7>(x))));
  }
};
using classifier = model<two_modes, input<"x", dtype::f32, dims<support::batch, 3>>>;

struct rows {
  std::vector<float> x;
  std::vector<std::int32_t> label;
};

TEST(runtime_evaluate_all, is_that_of_all_rows_at_once_with_a_smaller_last_batch) {
  constexpr std::size_t count = 37;
  const auto x = support::uniform(3 * count, 1);
  const auto labels = support::classes(count, 2);
  const auto fill = [&](const data::chosen_samples& chosen, rows& into) {
    into = {};
    for (const std::size_t i : chosen.indices) {
      into.x.insert(into.x.end(), x.begin() + static_cast<std::ptrdiff_t>(3 * i),
                    x.begin() + static_cast<std::ptrdiff_t>(3 * i + 3));
      into.label.push_back(labels[i]);
    }
  };
  trainer<classifier, cross_entropy<"label">> fit(support::shared_device(), sgd{}, {}, {.ema = 0.5f});
  fit.parameters().init({.seed = 1});
  fit.step(bind<"x">(x), bind<"label">(labels)).wait();
  const auto before = support::everything(fit);
  data::loader batches(count, 16, fill, {.last = data::keep});
  const auto bound = [](const rows& each) { return std::tuple(bind<"x">(each.x), bind<"label">(each.label)); };
  std::vector<float> logits;
  data::confusion_matrix confusion(5);
  std::vector<std::size_t> sizes;
  const double found = fit.evaluate_all(batches, bound, [&](const rows& each, const std::vector<float>& scores) {
    logits.insert(logits.end(), scores.begin(), scores.end());
    confusion.add(scores, each.label);
    sizes.push_back(each.label.size());
  });
  EXPECT_EQ(sizes, (std::vector<std::size_t>{16, 16, 5}));
  const double expected = static_cast<double>(fit.evaluate(bind<"x">(x), bind<"label">(labels)));
  EXPECT_NEAR(found, expected, expected * oracle::tolerance(dtype::f32));
  EXPECT_EQ(logits.size(), 5 * count);
  EXPECT_LE(oracle::relative_error(logits,
                                   [&] {
                                     const std::vector<float> at_once = fit.evaluated();
                                     return std::vector<double>(at_once.begin(), at_once.end());
                                   }()),
            oracle::tolerance(dtype::f32, 16));
  EXPECT_EQ(confusion.accuracy(), data::accuracy(logits, labels));
  EXPECT_EQ(support::everything(fit), before);

  // Without a function, of any range.
  const std::vector<rows> two{{{x.begin(), x.begin() + 6}, {labels[0], labels[1]}},
                              {{x.begin() + 6, x.begin() + 9}, {labels[2]}}};
  const double three =
      static_cast<double>(fit.evaluate(bind<"x">(std::span(x).first(9)), bind<"label">(std::span(labels).first(3))));
  EXPECT_NEAR(fit.evaluate_all(two, bound), three, three * oracle::tolerance(dtype::f32));

  // Of running means, which are no longer the weights.
  fit.step(bind<"x">(x), bind<"label">(labels)).wait();
  const double mean = static_cast<double>(
      fit.evaluate_averages(bind<"x">(std::span(x).first(9)), bind<"label">(std::span(labels).first(3))));
  std::size_t visited = 0;
  EXPECT_NEAR(fit.evaluate_all_averages(two, bound, [&](const rows&, const std::vector<float>&) { ++visited; }), mean,
              mean * oracle::tolerance(dtype::f32));
  EXPECT_EQ(visited, 2u);
  EXPECT_GT(std::abs(fit.evaluate_all(two, bound) - mean), 1e-4 * mean);
  EXPECT_EQ(support::sentence_of([&] { fit.evaluate_all(std::vector<rows>(), bound); }),
            "evaluate_all: there is no batch; give it a range that has one");
}

// A weighted mean.
struct weighed {
  static constexpr auto forward(value auto logits, value auto label, value auto weights) {
    auto each = cross_entropy_loss<cross_entropy_options{.reduction = loss_reduction::none}>(logits, label, weights);
    constexpr auto zero = constant<0, dtype::i32>;
    auto total = sum(select(less(label, zero), constant<0.0f>, gather<0>(weights, maximum(label, zero))));
    return results<"loss", "weight">(sum(each) / maximum(total, constant<1e-9f>), total);
  }
};

struct pair_of_losses {
  double in_batches, at_once;
};
template <class Loss, class... Weights>
pair_of_losses losses_of(const std::vector<rows>& batches, const rows& whole, const Weights&... weights) {
  trainer<classifier, Loss> fit(support::shared_device(), sgd{}, {}, {.program = {.checks = checks::none}});
  fit.parameters().init({.seed = 1});
  const auto bound = [&](const rows& each) {
    return std::tuple(bind<"x">(each.x), bind<"label">(each.label), bind<"weights">(weights)...);
  };
  const double in_batches = fit.evaluate_all(batches, bound);
  return {in_batches,
          static_cast<double>(std::apply([&](const auto&... each) { return fit.evaluate(each...); }, bound(whole)))};
}

TEST(runtime_evaluate_all, a_batch_weighs_what_its_loss_is_a_mean_of) {
  const rows whole{support::uniform(3 * 10, 3), {0, 1, 2, -100, -100, -100, -100, 4, -100, -100}};
  std::vector<rows> batches;
  for (const auto& [first, last] : {std::pair(0, 4), std::pair(4, 7), std::pair(7, 10)})
    batches.push_back({{whole.x.begin() + 3 * first, whole.x.begin() + 3 * last},
                       {whole.label.begin() + first, whole.label.begin() + last}});
  const std::vector<float> weights{1, 2, 1, 2, 3};
  const pair_of_losses found[] = {
      losses_of<cross_entropy<"label">>(batches, whole),
      losses_of<cross_entropy<"label", cross_entropy_options{.ignore_index = 0}>>(batches, whole),
      losses_of<cross_entropy<"label", cross_entropy_options{.reduction = loss_reduction::sum}>>(batches, whole),
      losses_of<nll<"label", cross_entropy_options{.ignore_index = 2}>>(batches, whole),
      losses_of<loss<weighed, labels<"label">, input<"weights", dtype::f32, dims<5>>>>(batches, whole, weights),
  };
  for (const auto& [in_batches, at_once] : found) EXPECT_NEAR(in_batches, at_once, std::abs(at_once) * 1e-5);
  const rows none{{1, 2, 3}, {-100}};
  EXPECT_EQ(losses_of<cross_entropy<"label">>({none, none}, none).in_batches, 0);
}

}  // namespace
