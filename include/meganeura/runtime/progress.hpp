// SPDX-License-Identifier: MIT
// A training progress line: rewritten in place on a terminal, with the losses so far as blocks; one line an epoch in a
// log.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

/// Any number of numbers as at most 48: means of equally many neighbours, the last perhaps of fewer.
class neighbour_means {
 public:
  void add(double number);
  [[nodiscard]] std::span<const double> means() const { return means_; }

 private:
  std::vector<double> means_;
  std::uint64_t count_ = 0, each_ = 1;  // numbers, and of a mean
};

}  // namespace detail

/// Prints only to the stream it is given. Call `update` after every step and `finish_epoch` after every epoch.
class progress {
 public:
  progress(std::FILE* stream, std::size_t epochs, std::size_t samples_per_epoch);

  /// `done` samples of this epoch are trained; on a terminal the line is refreshed at most ten times a second.
  void update(std::size_t done, float loss);

  /// Takes the line off a terminal, so that something else can be printed; the next `update` shows it again.
  void clear();

  /// Leaves one finished line behind, wherever it goes.
  void finish_epoch(float mean_loss);

 private:
  [[nodiscard]] std::string line(float loss) const;

  std::FILE* stream_;
  detail::neighbour_means losses_;  // that were shown
  std::size_t epochs_, samples_, epoch_ = 0, done_ = 0;
  bool terminal_;
  std::int64_t start_, shown_ = 0;  // nanoseconds, since <chrono> is a slow header
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/progress.ipp>
#endif
