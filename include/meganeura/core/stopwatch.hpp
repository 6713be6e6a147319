// SPDX-License-Identifier: MIT
// How long the parts of a job took.
#pragma once
#include <meganeura/config.hpp>

#include <chrono>

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

}  // namespace meganeura::inline MEGANEURA_ABI::detail
