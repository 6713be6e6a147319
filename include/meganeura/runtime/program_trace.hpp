// SPDX-License-Identifier: MIT
// Internal: what a program writes into a trace: the parts of its build, submissions, waits and dispatches.
#pragma once
#include <meganeura/io/trace_file.hpp>
#include <meganeura/runtime/build_times.hpp>
#include <meganeura/runtime/device.hpp>
#include <meganeura/runtime/profile.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

/// Whether programs on that device write one.
[[nodiscard]] inline bool has_trace(const device& on) { return on.trace() && on.trace()->is_open(); }

/// Steps are written once somebody has waited for them, those that nobody waited for at the end. Nothing is thrown: a
/// trace that cannot be written stops no program. Moments are nanoseconds of CLOCK_MONOTONIC.
class program_trace {
 public:
  /// `dispatches` in the order in which they are timed; none where they are not.
  program_trace(const device& on, std::vector<profiled_dispatch> dispatches);
  ~program_trace();
  program_trace(const program_trace&) = delete;
  program_trace& operator=(const program_trace&) = delete;

  /// What was done one after the other, from `begin` on; before it, what making the graph took.
  void built(std::int64_t begin, const build_times& times) noexcept;
  /// From `begin` to now.
  void submitted(const vulkan::recording& commands, std::uint64_t step, std::int64_t begin) noexcept;
  /// From `begin` to now, when the step has ended.
  void waited(std::uint64_t step, std::int64_t begin) noexcept;

 private:
  struct step_under_way {
    vulkan::recording commands;
    std::uint64_t step = 0;
    std::int64_t submitted = 0;
    std::uint32_t thread = 0;  // that submitted it
  };
  void write_step(const step_under_way& ended, std::int64_t seen);

  device device_;
  std::shared_ptr<io::trace_file> file_;
  std::uint64_t number_;  // of the program
  std::mutex mutex_;
  std::vector<profiled_dispatch> dispatches_;
  std::vector<std::string> fixed_;  // arguments of each that are the same in every step
  std::vector<step_under_way> steps_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/program_trace.ipp>
#endif
