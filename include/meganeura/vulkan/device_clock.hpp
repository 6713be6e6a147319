// SPDX-License-Identifier: MIT
// A device's timestamps as lengths, and as times of the host.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/vulkan/facts.hpp>
#include <meganeura/vulkan/host_interval.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

namespace detail {

/// Ticks count up to 2^bits and begin again.
class tick_length {
 public:
  tick_length(double nanoseconds, std::uint32_t bits) : nanoseconds_(nanoseconds), unused_(64 - std::min(bits, 64U)) {}
  explicit tick_length(const device_facts& facts) : tick_length(facts.timestamp_period, facts.timestamp_bits) {}

  /// From one to the other; less than 0 where `to` is the earlier one of two that are less than half a turn apart.
  [[nodiscard]] double nanoseconds(std::uint64_t from, std::uint64_t to) const {
    if (unused_ == 64) return 0;
    const auto ticks = static_cast<std::int64_t>((to - from) << unused_) >> unused_;
    return static_cast<double>(ticks) * nanoseconds_;
  }

 private:
  double nanoseconds_;
  std::uint32_t unused_;  // upper bits
};

/// One moment on both clocks: ticks, and nanoseconds of CLOCK_MONOTONIC.
struct clock_moment {
  std::uint64_t ticks = 0;
  std::int64_t host = 0;
};

struct tick_interval {
  std::uint64_t first = 0, last = 0;
};

/// Where the ticks of one device lie on the host's clock. What runs on a device runs one after the other, so that no
/// interval begins before an earlier one has ended; threads may ask for intervals in any order.
class device_clock {
 public:
  /// The host's time of an interval's first tick. By `sample`, both clocks at some moment; without one, by what was
  /// found before, as far as that is between submission and the end that the host saw.
  [[nodiscard]] std::int64_t begin_on_host(const tick_length& unit, const tick_interval& ran, const host_interval& seen,
                                           const std::optional<clock_moment>& sample) {
    const std::lock_guard lock(mutex_);
    const std::int64_t length = std::llround(unit.nanoseconds(ran.first, ran.last));
    const auto by = [&](const clock_moment& known) -> std::int64_t {
      return known.host + std::llround(unit.nanoseconds(known.ticks, ran.first));
    };
    std::int64_t begin = seen.ended - length;
    if (sample)
      begin = by(*sample);
    else if (latest_)
      begin = std::clamp<std::int64_t>(by(*latest_), seen.submitted, std::max(seen.submitted, begin));
    if (latest_) {
      const bool is_later = seen.submitted >= latest_->host || unit.nanoseconds(latest_->ticks, ran.first) >= 0;
      if (!is_later) return begin;
      begin = std::max(begin, latest_->host);
    }
    latest_ = clock_moment{ran.last, begin + length};
    return begin;
  }

 private:
  std::mutex mutex_;
  std::optional<clock_moment> latest_;  // the latest end
};

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan
