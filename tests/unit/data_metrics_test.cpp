// SPDX-License-Identifier: MIT
// Metrics against their definitions, and what they are of nothing, of ties and of NaN.
#include <meganeura/data/metrics.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace {

using namespace meganeura;
using support::refusal;
using floats = std::vector<float>;
using labels = std::vector<std::int32_t>;

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

TEST(data_metrics, accuracy_counts_the_greatest_scores) {
  const floats scores{1, 5, 2, 9, 0, -1, 3, 3, 1, -4, -2, -3};  // greatest: 1, 0, 0 and 1, 1
  EXPECT_EQ(data::accuracy(scores, labels{1, 0, 0, 1}), 1);
  EXPECT_EQ(data::accuracy(scores, labels{1, 1, 1, 2}), 0.25);  // of equal scores the first
  EXPECT_EQ(data::top_k_accuracy(scores, labels{1, 1, 1, 2}, 2), 1);
  EXPECT_EQ(data::top_k_accuracy(scores, labels{0, 2, 2, 0}, 2), 0);
  EXPECT_EQ(data::top_k_accuracy(scores, labels{0, 2, 2, 0}, 3), 1);
  EXPECT_EQ(data::accuracy(floats{nan_value, 1, 0, 1, nan_value, 0}, labels{1, 0}), 0);
  EXPECT_TRUE(std::isnan(data::accuracy({}, {})));
  EXPECT_EQ(refusal([&] {
              (void)data::accuracy(scores, labels{0, 1, 2, 3});
            }),
            "accuracy: label 3 is 3; there are 3 classes");
  EXPECT_EQ(refusal([&] { (void)data::accuracy(scores, labels{-1}); }),
            "accuracy: label 0 is -1; there are 12 classes");
  EXPECT_EQ(refusal([&] { (void)data::accuracy(scores, labels(5)); }),
            "accuracy: 12 scores were given for 5 labels; give as many for each");
  EXPECT_EQ(refusal([&] { (void)data::accuracy({}, labels(5)); }),
            "accuracy: 0 scores were given for 5 labels; give as many for each");
  EXPECT_EQ(refusal([&] { (void)data::top_k_accuracy(scores, labels(5), 2); }),
            "top_k_accuracy: 12 scores were given for 5 labels; give as many for each");
  EXPECT_EQ(refusal([&] { (void)data::top_k_accuracy(scores, labels(4), 0); }),
            "top_k_accuracy: nothing is among the 0 greatest; take a k of 1");
}

TEST(data_metrics, rows_without_a_label_are_left_out) {
  const floats scores{1, 5, 9, 0, 3, 2};  // greatest: 1, 0, 0
  EXPECT_EQ(data::accuracy(scores, labels{1, -100, 1}), 0.5);
  EXPECT_EQ(data::accuracy(scores, labels{1, 0, 1}, 1), 1);
  EXPECT_EQ(data::top_k_accuracy(scores, labels{-1, -1, 1}, 2, -1), 1);
  EXPECT_TRUE(std::isnan(data::accuracy(scores, labels{-100, -100, -100})));
  EXPECT_EQ(refusal([&] {
              (void)data::accuracy(scores, labels{1, -100, 1}, -1);
            }),
            "accuracy: label 1 is -100; there are 2 classes");
  data::confusion_matrix matrix(2);
  matrix.add(scores, labels{1, -100, 1});
  EXPECT_EQ(matrix.accuracy(), 0.5);
  EXPECT_EQ(matrix.count(0, 0) + matrix.count(0, 1), 0u);
}

TEST(data_metrics, a_confusion_matrix_gives_precision_recall_and_f1) {
  data::confusion_matrix matrix(4);
  EXPECT_TRUE(std::isnan(matrix.accuracy()));
  const auto one = [](std::size_t predicted) {
    floats scores(4);
    scores[predicted] = 1;
    return scores;
  };
  const std::size_t rows[][2] = {{0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 0}, {1, 0}, {1, 1}, {2, 1}};  // label, predicted
  for (const auto& [label, predicted] : rows) matrix.add(one(predicted), labels{static_cast<std::int32_t>(label)});
  EXPECT_EQ(matrix.count(1, 0), 2u);
  EXPECT_EQ(matrix.accuracy(), 0.5);
  EXPECT_EQ(matrix.precision(0), 0.5);
  EXPECT_DOUBLE_EQ(matrix.recall(0), 2.0 / 3);
  EXPECT_DOUBLE_EQ(matrix.f1(0), 4.0 / 7);
  EXPECT_TRUE(std::isnan(matrix.precision(2)));  // never predicted
  EXPECT_EQ(matrix.recall(2), 0);
  EXPECT_EQ(matrix.f1(2), 0);
  EXPECT_TRUE(std::isnan(matrix.precision(3)) && std::isnan(matrix.recall(3)) && std::isnan(matrix.f1(3)));
  matrix.add(floats{0, nan_value, 0, 0}, labels{1});  // of class 1, predicted nothing
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 4.0 / 9);
  EXPECT_DOUBLE_EQ(matrix.recall(1), 2.0 / 5);
  EXPECT_EQ(matrix.precision(0), 0.5);
  matrix.add({}, {});
  EXPECT_EQ(refusal([&] { matrix.add(floats(3), labels{0}); }),
            "confusion_matrix: 3 scores were given for each label; it has 4 classes");
  EXPECT_EQ(refusal([&] { (void)matrix.recall(4); }), "confusion_matrix: class 4 was asked for; there are 4");
  EXPECT_EQ(refusal([] { data::confusion_matrix none(0); }), "confusion_matrix: has at least 1 class, not 0");
  EXPECT_EQ(support::thrown_by([] { data::confusion_matrix much(~std::size_t{0}); }), error_category::out_of_memory);
}

TEST(data_metrics, errors_of_numbers) {
  const floats predicted{2.5f, 0, 2, 8}, target{3, -0.5f, 2, 7};
  EXPECT_EQ(data::mean_absolute_error(predicted, target), 0.5);
  EXPECT_EQ(data::mean_squared_error(predicted, target), 0.375);
  EXPECT_NEAR(data::r2(predicted, target), 1 - 1.5 / 29.1875, 1e-12);
  EXPECT_EQ(data::r2(target, target), 1);
  EXPECT_TRUE(std::isnan(data::r2(floats{1, 2}, floats{0.1f, 0.1f})));
  EXPECT_TRUE(std::isnan(data::mean_absolute_error({}, {})));
  EXPECT_TRUE(std::isnan(data::r2({}, {})));
  EXPECT_TRUE(std::isnan(data::mean_squared_error(floats{nan_value, 1}, floats{1, 1})));
  EXPECT_TRUE(std::isnan(data::r2(floats{nan_value, 1}, floats{1, 2})));
  EXPECT_DOUBLE_EQ(data::perplexity(std::log(50.0)), 50);
  EXPECT_TRUE(std::isnan(data::perplexity(nan_value)));
  EXPECT_EQ(refusal([&] { (void)data::r2(predicted, floats(3)); }), "r2: 4 predictions were given for 3 targets");
}

TEST(data_metrics, the_area_under_the_curve_is_the_share_of_pairs_in_order) {
  EXPECT_EQ(data::roc_auc(floats{0.1f, 0.4f, 0.35f, 0.8f}, labels{0, 0, 1, 1}), 0.75);
  EXPECT_EQ(data::roc_auc(floats{1, 1, 1}, labels{0, 1, 1}), 0.5);
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    floats scores;
    labels of;
    for (int row = 0; row < 30; ++row) {
      scores.push_back(static_cast<float>(random() % 8));  // many ties
      of.push_back(static_cast<std::int32_t>(random() % 2));
    }
    double wins = 0, pairs = 0;
    for (std::size_t a = 0; a < 30; ++a) {
      for (std::size_t b = 0; b < 30; ++b) {
        if (of[a] != 1 || of[b] != 0) continue;
        pairs += 1;
        wins += scores[a] > scores[b] ? 1 : scores[a] == scores[b] ? 0.5 : 0;
      }
    }
    EXPECT_DOUBLE_EQ(data::roc_auc(scores, of), wins / pairs);
  }
  EXPECT_TRUE(std::isnan(data::roc_auc({}, {})));
  EXPECT_TRUE(std::isnan(data::roc_auc(floats{1, 2}, labels{1, 1})));
  EXPECT_TRUE(std::isnan(data::roc_auc(floats{1, nan_value, 0}, labels{1, 1, 0})));
  EXPECT_EQ(refusal([] {
              (void)data::roc_auc(floats{1, 2}, labels{1, 2});
            }),
            "roc_auc: label 1 is 2; there are 0 and 1");
  EXPECT_EQ(refusal([] {
              (void)data::roc_auc(floats{1, 2}, labels{1});
            }),
            "roc_auc: 2 scores were given for 1 labels; give one for each");
}

TEST(data_metrics, a_running_mean_weighs_by_counts) {
  data::running_mean mean;
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.add(2, 3);
  mean.add(6);
  mean.add(1e9, 0);
  EXPECT_EQ(mean.mean(), 3);
  EXPECT_EQ(mean.count(), 4);
  for (int i = 0; i < 1000000; ++i) mean.add(3);
  EXPECT_EQ(mean.mean(), 3);
  mean.add(nan_value);
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.clear();
  EXPECT_EQ(mean.count(), 0);
  EXPECT_EQ(refusal([&] { mean.add(1, -1); }), "running_mean: a count of -1 was added; it is 0 or more");
}

}  // namespace
