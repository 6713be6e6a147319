// SPDX-License-Identifier: MIT
// Evaluation over the batches of a whole set.
#include <meganeura/data/loader.hpp>
#include <meganeura/data/metrics.hpp>
#include <meganeura/frontend.hpp>
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

}  // namespace
