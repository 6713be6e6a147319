// SPDX-License-Identifier: MIT
// Threads that help with work of one call.
#pragma once
#include <meganeura/config.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

/// Threads beside the caller's, joined on every way out.
class helper_threads {
 public:
  helper_threads() = default;
  helper_threads(const helper_threads&) = delete;
  helper_threads& operator=(const helper_threads&) = delete;
  ~helper_threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  /// Starts as many as the system grants, `count` at most; false when it granted fewer. The caller does the rest alone.
  template <class Work>
  [[nodiscard]] bool start(std::size_t count, const Work& work) noexcept {
    try {
      threads_.reserve(count);
      for (std::size_t i = 0; i < count; ++i) threads_.emplace_back(std::cref(work));
      return true;
    } catch (const std::exception&) {  // no thread, or no memory for one
      return false;
    }
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::detail
