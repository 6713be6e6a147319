// SPDX-License-Identifier: MIT
// A training progress line: rewritten in place on a terminal, one line an epoch in a log.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/boundary.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>

namespace meganeura::inline MEGANEURA_ABI {

/// Prints only to the stream it is given. Call `update` after every step and `finish_epoch` after every epoch.
class progress {
 public:
  progress(std::FILE* stream, std::size_t epochs, std::size_t samples_per_epoch)
      : stream_(stream), epochs_(epochs), samples_(samples_per_epoch), terminal_(::isatty(::fileno(stream)) == 1) {}

  /// `done` samples of this epoch are trained; on a terminal the line is refreshed at most ten times a second.
  void update(std::size_t done, float loss) try {
    done_ = done;
    const auto now = clock::now();
    if (!terminal_ || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    fmt::print(stream_, "\r\x1b[K{}", line(loss));
    std::fflush(stream_);
  } catch (...) {
    rethrow_as_error("showing progress");
  }

  /// Leaves one finished line behind, wherever it goes.
  void finish_epoch(float mean_loss) try {
    done_ = samples_;
    fmt::print(stream_, "{}{}\n", terminal_ ? "\r\x1b[K" : "", line(mean_loss));
    std::fflush(stream_);
    ++epoch_;
    done_ = 0;
  } catch (...) {
    rethrow_as_error("showing progress");
  }

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] std::string line(float loss) const {
    const double seconds = std::chrono::duration<double>(clock::now() - start_).count();
    const auto trained = static_cast<double>(epoch_ * samples_ + done_);
    const double left = trained > 0 ? seconds * (static_cast<double>(epochs_ * samples_) - trained) / trained : 0;
    return fmt::format("epoch {}/{}  {:3.0f} %  loss {:.4f}  {:.0f} samples/s  {:.1f} s, {:.1f} s left", epoch_ + 1,
                       epochs_, 100.0 * static_cast<double>(done_) / static_cast<double>(samples_),
                       static_cast<double>(loss), trained / seconds, seconds, left);
  }

  std::FILE* stream_;
  std::size_t epochs_, samples_, epoch_ = 0, done_ = 0;
  bool terminal_;
  clock::time_point start_ = clock::now(), shown_{};
};

}  // namespace meganeura::inline MEGANEURA_ABI
