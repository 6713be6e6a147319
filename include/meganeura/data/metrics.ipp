// SPDX-License-Identifier: MIT
// Bodies of data/metrics.hpp.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/data/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

inline constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

inline double share(double part, double whole) { return whole > 0 ? part / whole : undefined; }

/// The number of classes. errors: invalid_argument.
inline std::size_t check_scores(const char* call, std::span<const float> scores, std::span<const std::int32_t> labels,
                                std::int32_t ignore_index) {
  const std::size_t rows = labels.size(), classes = rows == 0 ? 0 : scores.size() / rows;
  if (scores.size() != rows * classes || (rows > 0 && classes == 0)) {
    fail(error_category::invalid_argument, "{}: {} scores were given for {} labels; give as many for each", call,
         scores.size(), rows);
  }
  for (std::size_t i = 0; i < rows; ++i) {
    if (labels[i] == ignore_index || (labels[i] >= 0 && static_cast<std::size_t>(labels[i]) < classes)) continue;
    fail(error_category::invalid_argument, "{}: label {} is {}; there are {} classes", call, i, labels[i], classes);
  }
  return classes;
}

inline bool has_nan(std::span<const float> values) {
  return std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

/// term(predicted, target), on average. errors: invalid_argument.
template <class Term>
double mean_over(const char* call, std::span<const float> predicted, std::span<const float> target, const Term& term) {
  if (predicted.size() != target.size()) {
    fail(error_category::invalid_argument, "{}: {} predictions were given for {} targets", call, predicted.size(),
         target.size());
  }
  double sum = 0;
  for (std::size_t i = 0; i < target.size(); ++i) sum += term(double{predicted[i]}, double{target[i]});
  return target.empty() ? undefined : sum / static_cast<double>(target.size());
}

/// errors: invalid_argument.
inline double share_among_greatest(const char* call, std::span<const float> scores,
                                   std::span<const std::int32_t> labels, std::size_t k, std::int32_t ignore_index) {
  const std::size_t classes = check_scores(call, scores, labels, ignore_index);
  std::size_t right = 0, counted = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignore_index) continue;
    ++counted;
    const auto row = scores.subspan(i * classes, classes);
    const auto label = static_cast<std::size_t>(labels[i]);
    std::size_t greater = 0;
    for (std::size_t j = 0; j < classes; ++j) {
      greater += row[j] > row[label] || (row[j] == row[label] && j < label) ? 1 : 0;
    }
    right += greater < k && !has_nan(row) ? 1 : 0;
  }
  return share(static_cast<double>(right), static_cast<double>(counted));
}

}  // namespace detail

MEGANEURA_INLINE double top_k_accuracy(std::span<const float> scores, std::span<const std::int32_t> labels,
                                       std::size_t k, std::int32_t ignore_index) {
  if (k == 0) fail(error_category::invalid_argument, "top_k_accuracy: nothing is among the 0 greatest; take a k of 1");
  return detail::share_among_greatest("top_k_accuracy", scores, labels, k, ignore_index);
}

MEGANEURA_INLINE double accuracy(std::span<const float> scores, std::span<const std::int32_t> labels,
                                 std::int32_t ignore_index) {
  return detail::share_among_greatest("accuracy", scores, labels, 1, ignore_index);
}

MEGANEURA_INLINE confusion_matrix::confusion_matrix(std::size_t classes) : classes_(classes) {
  if (classes == 0) fail(error_category::invalid_argument, "confusion_matrix: has at least 1 class, not 0");
  constexpr std::size_t most = std::size_t{1} << 31;  // the square is countable
  counts_ =
      allocate_for<std::uint64_t>("confusion_matrix", classes > most ? ~std::uint64_t{0} : classes * (classes + 1));
}

MEGANEURA_INLINE void confusion_matrix::add(std::span<const float> scores, std::span<const std::int32_t> labels,
                                            std::int32_t ignore_index) {
  const std::size_t found = detail::check_scores("confusion_matrix", scores, labels, ignore_index);
  if (labels.empty()) return;
  if (found != classes_) {
    fail(error_category::invalid_argument, "confusion_matrix: {} scores were given for each label; it has {} classes",
         found, classes_);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignore_index) continue;
    const auto row = scores.subspan(i * classes_, classes_);
    const auto predicted = detail::has_nan(row) ? row.end() : std::max_element(row.begin(), row.end());
    ++counts_[static_cast<std::size_t>(labels[i]) * (classes_ + 1) + static_cast<std::size_t>(predicted - row.begin())];
  }
}

MEGANEURA_INLINE void confusion_matrix::check(std::size_t of) const {
  if (of < classes_) return;
  fail(error_category::invalid_argument, "confusion_matrix: class {} was asked for; there are {}", of, classes_);
}

MEGANEURA_INLINE std::uint64_t confusion_matrix::count(std::size_t label, std::size_t predicted) const {
  check(label);
  check(predicted);
  return counts_[label * (classes_ + 1) + predicted];
}

MEGANEURA_INLINE double confusion_matrix::accuracy() const {
  double right = 0;
  for (std::size_t i = 0; i < classes_; ++i) right += static_cast<double>(count(i, i));
  return detail::share(right, static_cast<double>(std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0})));
}

MEGANEURA_INLINE double confusion_matrix::precision(std::size_t of) const {
  double predicted = 0;
  for (std::size_t i = 0; i < classes_; ++i) predicted += static_cast<double>(count(i, of));
  return detail::share(static_cast<double>(count(of, of)), predicted);
}

MEGANEURA_INLINE double confusion_matrix::recall(std::size_t of) const {
  check(of);
  const auto row = counts_.begin() + static_cast<std::ptrdiff_t>(of * (classes_ + 1));
  const auto rows = std::accumulate(row, row + static_cast<std::ptrdiff_t>(classes_ + 1), std::uint64_t{0});
  return detail::share(static_cast<double>(count(of, of)), static_cast<double>(rows));
}

MEGANEURA_INLINE double confusion_matrix::f1(std::size_t of) const {
  const double p = precision(of), r = recall(of);
  if (std::isnan(p) && std::isnan(r)) return detail::undefined;
  return count(of, of) == 0 ? 0 : 2 * p * r / (p + r);
}

MEGANEURA_INLINE double perplexity(double mean_cross_entropy) { return std::exp(mean_cross_entropy); }

MEGANEURA_INLINE double mean_absolute_error(std::span<const float> predicted, std::span<const float> target) {
  return detail::mean_over("mean_absolute_error", predicted, target,
                           [](double a, double b) { return std::fabs(a - b); });
}

MEGANEURA_INLINE double mean_squared_error(std::span<const float> predicted, std::span<const float> target) {
  return detail::mean_over("mean_squared_error", predicted, target,
                           [](double a, double b) { return (a - b) * (a - b); });
}

MEGANEURA_INLINE double r2(std::span<const float> predicted, std::span<const float> target) {
  const double mean = detail::mean_over("r2", predicted, target, [](double, double b) { return b; });
  const double spread =
      detail::mean_over("r2", predicted, target, [&](double, double b) { return (b - mean) * (b - mean); });
  const bool equal = std::adjacent_find(target.begin(), target.end(), std::not_equal_to<>()) == target.end();
  return equal ? detail::undefined : 1 - mean_squared_error(predicted, target) / spread;
}

MEGANEURA_INLINE double roc_auc(std::span<const float> scores, std::span<const std::int32_t> labels) {
  if (scores.size() != labels.size()) {
    fail(error_category::invalid_argument, "roc_auc: {} scores were given for {} labels; give one for each",
         scores.size(), labels.size());
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == 0 || labels[i] == 1) continue;
    fail(error_category::invalid_argument, "roc_auc: label {} is {}; there are 0 and 1", i, labels[i]);
  }
  if (detail::has_nan(scores)) return detail::undefined;
  auto order = allocate_for<std::size_t>("roc_auc", scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double wins = 0, zeros = 0, ones = 0;
  for (std::size_t first = 0; first < order.size();) {  // one score after another, with all that have it
    double here[2] = {};
    const float score = scores[order[first]];
    for (; first < order.size() && scores[order[first]] == score; ++first) ++here[labels[order[first]]];
    wins += here[1] * (zeros + here[0] / 2);
    zeros += here[0];
    ones += here[1];
  }
  return detail::share(wins, zeros * ones);
}

MEGANEURA_INLINE void running_mean::add(double value, double count) {
  if (!(count >= 0))
    fail(error_category::invalid_argument, "running_mean: a count of {} was added; it is 0 or more", count);
  if (count == 0) return;
  count_ += count;
  mean_ += (value - mean_) * (count / count_);
}

MEGANEURA_INLINE double running_mean::mean() const { return count_ > 0 ? mean_ : detail::undefined; }

}  // namespace meganeura::inline MEGANEURA_ABI::data
