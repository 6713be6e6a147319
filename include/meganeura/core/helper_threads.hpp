// SPDX-License-Identifier: MIT
// Work of one call on several threads.
#pragma once
#include <meganeura/config.hpp>

#include <algorithm>
#include <atomic>
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

/// Calls work(0) to work(count - 1), each once, on up to so many threads, the caller's among them; false when the
/// system granted fewer, which then do it all. When all have ended, what the first of them in order threw is thrown.
template <class Work>
bool run_in_parallel(std::size_t count, std::size_t threads, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next{0};
  const auto some = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  bool granted = true;
  {
    helper_threads helpers;
    granted = helpers.start(std::max<std::size_t>(std::min(threads, count), 1) - 1, some);
    some();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  return granted;
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
