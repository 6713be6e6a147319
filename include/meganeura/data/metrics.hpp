// SPDX-License-Identifier: MIT
// How good predictions are, in plain numbers. Of nothing every metric is NaN; a NaN among the predictions makes what is
// a mean NaN, and a row of scores that has one is predicted wrong.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// The share of rows whose label is among their `k` greatest scores; of equal scores the first counts as the greater.
/// shapes: scores [rows, classes] (logits or probabilities), labels [rows]. errors: invalid_argument for sizes that do
/// not fit, a label that is no class and not `ignore_index`, whose rows are left out as cross_entropy leaves them out,
/// and a k of 0.
[[nodiscard]] double top_k_accuracy(std::span<const float> scores, std::span<const std::int32_t> labels, std::size_t k,
                                    std::int32_t ignore_index = -100);

/// The share of rows whose greatest score is their label's: top_k_accuracy of 1. errors: the same.
[[nodiscard]] double accuracy(std::span<const float> scores, std::span<const std::int32_t> labels,
                              std::int32_t ignore_index = -100);

/// How often which class was taken for which. What a class never had (no row of it, none predicted) is NaN.
class confusion_matrix {
 public:
  /// errors: invalid_argument for no classes; out_of_memory.
  explicit confusion_matrix(std::size_t classes);

  /// Counts further rows. A row with a NaN counts for its label and for no prediction. errors: as top_k_accuracy;
  /// nothing is counted then.
  void add(std::span<const float> scores, std::span<const std::int32_t> labels, std::int32_t ignore_index = -100);

  [[nodiscard]] std::size_t classes() const { return classes_; }
  /// Rows of class `label` that were predicted to be `predicted`. errors: invalid_argument for what is no class.
  [[nodiscard]] std::uint64_t count(std::size_t label, std::size_t predicted) const;
  [[nodiscard]] double accuracy() const;
  /// Of the rows predicted to be of the class, the share that is. errors, here and below: invalid_argument.
  [[nodiscard]] double precision(std::size_t of) const;
  /// Of the rows of the class, the share that was predicted to be.
  [[nodiscard]] double recall(std::size_t of) const;
  /// The harmonic mean of both, 2 right / (rows predicted + rows of the class): 0 where only one of them is NaN.
  [[nodiscard]] double f1(std::size_t of) const;

 private:
  void check(std::size_t of) const;

  std::size_t classes_;
  std::vector<std::uint64_t> counts_;  // [label, predicted], with a last column for none
};

/// exp of a mean cross-entropy in nats.
[[nodiscard]] double perplexity(double mean_cross_entropy);

/// errors, here and below: invalid_argument for spans of different sizes.
[[nodiscard]] double mean_absolute_error(std::span<const float> predicted, std::span<const float> target);
[[nodiscard]] double mean_squared_error(std::span<const float> predicted, std::span<const float> target);
/// 1 minus the squared error's share of the targets' variance: 1 is perfect, 0 as good as their mean. Of targets that
/// are all equal it is NaN.
[[nodiscard]] double r2(std::span<const float> predicted, std::span<const float> target);

/// The area under the receiver's operating characteristic: how probably a row of class 1 has a greater score than one
/// of class 0, an equal one counting half. NaN where a class has no rows, or a score is NaN.
/// shapes: scores [rows], labels [rows] of 0 and 1. errors: invalid_argument for other labels and sizes.
[[nodiscard]] double roc_auc(std::span<const float> scores, std::span<const std::int32_t> labels);

/// A mean of numbers as they come, of losses over an epoch for example.
class running_mean {
 public:
  /// `count` numbers whose mean is `value`: the rows of a last, smaller batch weigh less. errors: invalid_argument for
  /// a count below 0.
  void add(double value, double count = 1);
  [[nodiscard]] double mean() const;  // NaN when there were none
  [[nodiscard]] double count() const { return count_; }
  void clear() { *this = {}; }

 private:
  double mean_ = 0, count_ = 0;
};

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/metrics.ipp>
#endif
