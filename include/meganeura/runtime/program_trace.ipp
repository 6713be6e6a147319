// SPDX-License-Identifier: MIT
// Definitions for runtime/program_trace.hpp.
#pragma once
#include <meganeura/runtime/program_trace.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

MEGANEURA_INLINE program_trace::program_trace(const device& on, std::vector<profiled_dispatch> dispatches)
    : device_(on), file_(on.trace()), number_(file_->next_number()), dispatches_(std::move(dispatches)) {
  for (const profiled_dispatch& each : dispatches_) {
    fixed_.push_back(fmt::format(R"("module":{},"schedule":{},"bytes":{},"flops":{:.0f},"floor_us":{:.3f})",
                                 io::json_text(each.module), io::json_text(each.schedule), each.bytes, each.flops,
                                 each.floor / 1e3));
  }
}

MEGANEURA_INLINE program_trace::~program_trace() {
  for (const step_under_way& each : steps_) {
    try {
      if (!dispatches_.empty()) (void)each.commands.timings();  // which waits
      write_step(each, io::monotonic_now());
    } catch (...) {  // a lost device
    }
  }
}

MEGANEURA_INLINE void program_trace::built(std::int64_t begin, const build_times& times) noexcept try {
  const std::uint32_t thread = file_->thread_track(device_.log());
  const std::string program = fmt::format(R"("program":{})", number_);
  const auto nanoseconds = [](double milliseconds) { return std::llround(1e6 * milliseconds); };
  begin -= nanoseconds(times.trace) + nanoseconds(times.differentiate);
  std::vector<io::trace_slice> slices{{thread, "build", "build", begin, begin, program}};
  for (const build_phase& each : build_phases) {
    const std::int64_t length = nanoseconds(times.*each.milliseconds);
    if (length == 0) continue;
    const std::int64_t from = slices.front().end;
    slices.push_back({thread, each.name, "build", from, slices.front().end = from + length, {}});
  }
  file_->write(slices, {}, device_.log());
} catch (...) {
}

MEGANEURA_INLINE void program_trace::submitted(const vulkan::recording& commands, std::uint64_t step,
                                               std::int64_t begin) noexcept try {
  if (!file_->is_open()) return;
  const std::int64_t end = io::monotonic_now();
  const std::uint32_t thread = file_->thread_track(device_.log());
  const std::string arguments = fmt::format(R"("program":{},"step":{})", number_, step);
  const io::trace_slice slice{thread, "submit", "step", begin, end, arguments};
  file_->write({&slice, 1}, {}, device_.log());
  const std::lock_guard lock(mutex_);
  steps_.push_back({commands, step, begin, thread});
} catch (...) {
}

MEGANEURA_INLINE void program_trace::waited(std::uint64_t step, std::int64_t begin) noexcept try {
  const std::int64_t end = io::monotonic_now();
  const std::lock_guard lock(mutex_);
  const auto later = std::ranges::find_if(steps_, [&](const step_under_way& each) { return each.step > step; });
  const std::vector<step_under_way> ended(steps_.begin(), later);  // those before it have, too
  steps_.erase(steps_.begin(), later);
  if (ended.empty() || ended.back().step != step || !file_->is_open()) return;
  const std::string arguments = fmt::format(R"("program":{},"step":{})", number_, step);
  const io::trace_slice slice{file_->thread_track(device_.log()), "wait", "step", begin, end, arguments};
  file_->write({&slice, 1}, {}, device_.log());
  for (const step_under_way& each : ended) write_step(each, end);
} catch (...) {
}

MEGANEURA_INLINE void program_trace::write_step(const step_under_way& ended, std::int64_t seen) {
  if (dispatches_.empty()) return;
  set_times(dispatches_, ended.commands.timings());
  const std::int64_t begin = ended.commands.begin_on_host({ended.submitted, seen});
  const auto after = [&](double nanoseconds) { return begin + std::llround(nanoseconds); };
  const std::string name = fmt::format("step {}", ended.step), step = fmt::format(R"("program":{})", number_);
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < dispatches_.size(); ++i) {
    const profiled_dispatch& each = dispatches_[i];
    arguments.push_back(fmt::format(R"({},"kernel":{},"percent_of_floor":{:.2f})", fixed_[i],
                                    io::json_text(each.kernel), each.percent_of_floor()));
  }
  const std::uint32_t track = device_.trace_track();
  const profiled_dispatch& last = dispatches_.back();
  std::vector<io::trace_slice> slices{{track, name, "step", begin, after(last.begin + last.nanoseconds), step}};
  for (std::size_t i = 0; i < dispatches_.size(); ++i) {
    const profiled_dispatch& each = dispatches_[i];
    slices.push_back(
        {track, each.text, "dispatch", after(each.begin), after(each.begin + each.nanoseconds), arguments[i]});
  }
  const io::trace_arrow arrow{file_->next_number(), ended.thread, track, ended.submitted, begin};
  file_->write(slices, {&arrow, 1}, device_.log());
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
