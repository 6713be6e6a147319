// SPDX-License-Identifier: MIT
// Faults on demand, in the process that asks for them: threads, memory and Vulkan calls that fail, and a count of the
// Vulkan objects that live. Each guard ends its fault when it goes away.
#pragma once
#include <meganeura/vulkan/api.hpp>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

namespace meganeura::faults {

/// Whether to go through every point of failure instead of a sample: MEGANEURA_ALL_FAULTS=1, minutes.
[[nodiscard]] inline bool all_points() { return std::getenv("MEGANEURA_ALL_FAULTS") != nullptr; }

/// About `most` of the numbers below `count`: the first sixteen and the rest spread, or all of them when asked.
[[nodiscard]] inline std::vector<std::uint64_t> points(std::uint64_t count, std::uint64_t most) {
  std::vector<std::uint64_t> chosen;
  const std::uint64_t stride = all_points() || count <= most ? 1 : count / most + 1;
  for (std::uint64_t at = 0; at < count; at += at < 16 ? 1 : stride) chosen.push_back(at);
  return chosen;
}

/// pthread_create succeeds `allowed` times and then says EAGAIN.
class thread_limit {
 public:
  explicit thread_limit(int allowed);
  ~thread_limit();
  thread_limit(const thread_limit&) = delete;
  thread_limit& operator=(const thread_limit&) = delete;
};

/// Counts this thread's operator new outside Vulkan calls; number `fail_at` throws std::bad_alloc, and when `lasting`
/// every later one too.
class allocation_fault {
 public:
  explicit allocation_fault(std::uint64_t fail_at = std::numeric_limits<std::uint64_t>::max(), bool lasting = false);
  ~allocation_fault();
  allocation_fault(const allocation_fault&) = delete;
  allocation_fault& operator=(const allocation_fault&) = delete;
  [[nodiscard]] std::uint64_t count() const;
};

/// The Vulkan function `name` ("" = any that reports a loss) returns `result` at its call number `fail_at`, without
/// being executed, and when `lasting` ever after.
class vulkan_fault {
 public:
  vulkan_fault(std::string name, VkResult result, std::uint64_t fail_at = std::numeric_limits<std::uint64_t>::max(),
               bool lasting = false);
  ~vulkan_fault();
  vulkan_fault(const vulkan_fault&) = delete;
  vulkan_fault& operator=(const vulkan_fault&) = delete;
  [[nodiscard]] std::uint64_t count() const;  // calls so far
};

/// What a call to the system that changes files does at number `fail_at`: openat, write, fsync, renameat, unlinkat,
/// flock, fchmod and fchown are counted together.
class file_fault {
 public:
  enum class kind : std::uint8_t {
    refused,       // returns -1 with `code`; a write has written half of its bytes before
    killed,        // the process ends by SIGKILL before the call
    killed_within  // ... after half of the bytes of a write, or after the call
  };
  file_fault(kind what, std::uint64_t fail_at, int code = 0);
  ~file_fault();
  file_fault(const file_fault&) = delete;
  file_fault& operator=(const file_fault&) = delete;
  [[nodiscard]] bool happened() const;
};

/// Vulkan objects made and not destroyed, by the name of what made them; empty when nothing leaks.
[[nodiscard]] std::string living_objects();

}  // namespace meganeura::faults
