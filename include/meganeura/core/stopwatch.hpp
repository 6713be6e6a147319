// SPDX-License-Identifier: MIT
// How long the parts of a job took.
#pragma once
#include <meganeura/config.hpp>

#include <chrono>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::detail {

class stopwatch {
 public:
  /// Milliseconds since it was made, or since the last call.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double passed = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return passed;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// What was made, and how long that took.
template <class T>
struct timed {
  T made;
  double milliseconds;
};

template <class Make>
[[nodiscard]] auto take_time(Make&& make) {
  stopwatch watch;
  auto made = make();
  return timed<decltype(made)>{std::move(made), watch.lap()};
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
