// SPDX-License-Identifier: MIT
// Bodies of runtime/progress.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/data/run_log.hpp>
#include <meganeura/runtime/progress.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
inline std::int64_t steady_nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

MEGANEURA_INLINE void neighbour_means::add(double number) {
  constexpr std::size_t most = 48;
  const std::uint64_t before = count_++ % each_;
  if (before != 0) {
    means_.back() += (number - means_.back()) / static_cast<double>(before + 1);
    return;
  }
  if (means_.size() == most) {
    for (std::size_t i = 0; i < most / 2; ++i) means_[i] = (means_[2 * i] + means_[2 * i + 1]) / 2;
    means_.resize(most / 2);
    each_ *= 2;
  }
  means_.push_back(number);
}

}  // namespace detail

MEGANEURA_INLINE progress::progress(std::FILE* stream, std::size_t epochs, std::size_t samples_per_epoch)
    : stream_(stream),
      epochs_(epochs),
      samples_(samples_per_epoch),
      terminal_(::isatty(::fileno(stream)) == 1),
      start_(detail::steady_nanoseconds()) {}

MEGANEURA_INLINE void progress::update(std::size_t done, float loss) try {
  done_ = done;
  const std::int64_t now = detail::steady_nanoseconds();
  if (!terminal_ || now - shown_ < 100'000'000) return;
  shown_ = now;
  losses_.add(static_cast<double>(loss));
  fmt::print(stream_, "\r\x1b[K{}  {}", line(loss), data::sparkline(losses_.means()));
  std::fflush(stream_);
} catch (...) {
  rethrow_as_error("showing progress");
}

MEGANEURA_INLINE void progress::clear() {
  if (!terminal_) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
}

MEGANEURA_INLINE void progress::finish_epoch(float mean_loss) try {
  done_ = samples_;
  fmt::print(stream_, "{}{}\n", terminal_ ? "\r\x1b[K" : "", line(mean_loss));
  std::fflush(stream_);
  ++epoch_;
  done_ = 0;
} catch (...) {
  rethrow_as_error("showing progress");
}

MEGANEURA_INLINE std::string progress::line(float loss) const {
  const double seconds = 1e-9 * static_cast<double>(detail::steady_nanoseconds() - start_);
  const auto trained = static_cast<double>(epoch_ * samples_ + done_);
  const double whole = std::max(trained, static_cast<double>(epochs_ * samples_));  // further epochs may be done
  const double left = trained > 0 ? seconds * (whole - trained) / trained : 0;
  const double share = samples_ == 0 ? 1 : static_cast<double>(done_) / static_cast<double>(samples_);
  return fmt::format("{}{:3.0f} %  loss {:.4f}  {:.0f} samples/s  {:.1f} s, {:.1f} s left",
                     epochs_ == 1 ? std::string() : fmt::format("epoch {}/{}  ", epoch_ + 1, epochs_), 100 * share,
                     static_cast<double>(loss), trained / seconds, seconds, left);
}

}  // namespace meganeura::inline MEGANEURA_ABI
