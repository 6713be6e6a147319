// SPDX-License-Identifier: MIT
// What a run says of itself, kept as curves: a page to look at, TensorBoard's events, a line of blocks on a terminal.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Numbers of a run by the step that gave them:
///   log.add("loss/training", fit.steps(), loss);
///   log.save_page("run.html", "my run");
/// What stands before a '/' is the picture that a curve is drawn in.
class run_log {
 public:
  struct point {
    std::uint64_t step;
    double value;
    double seconds;  // since 1970, when it was added
  };
  struct curve {
    std::string name;
    std::vector<point> points;
  };

  /// Adds a point to a curve, which begins with its first one. errors: out_of_memory.
  void add(std::string_view name, std::uint64_t step, double value);
  /// Adds how many a second there were since the call before, of what there are `count` of by now: samples, tokens. The
  /// first call adds no point.
  void add_speed(std::string_view name, std::uint64_t step, double count);
  /// In the order of their first points.
  [[nodiscard]] std::span<const curve> curves() const { return curves_; }

  /// Writes a page with a picture of all curves, which needs nothing but itself. Of a curve with more than a thousand
  /// points neighbours are drawn as their mean; what is not finite is left out and counted. errors: `io`.
  void save_page(const std::string& path, std::string_view title) const;
  /// Writes all points as TensorBoard reads them into a file of this folder, which is made where there is none;
  /// written again it is the same file. errors: `io`.
  void save_events(const std::string& folder) const;

 private:
  struct counted {
    std::string name;
    double last;
    std::int64_t nanoseconds;  // of a steady clock, since <chrono> is a slow header
  };
  std::vector<curve> curves_;
  std::vector<counted> counts_;
};

/// Values as a line of at most `width` blocks, from the least to the greatest; where there are more, each block is a
/// mean of neighbours. What is not finite is a gap.
[[nodiscard]] std::string sparkline(std::span<const double> values, std::size_t width = 24);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/run_log.ipp>
#endif
