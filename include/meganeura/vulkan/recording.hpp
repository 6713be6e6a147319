// SPDX-License-Identifier: MIT
// A fixed list of dispatches and copies: recorded once, submitted any number of times.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/vulkan/buffer.hpp>
#include <meganeura/vulkan/host_interval.hpp>
#include <meganeura/vulkan/pipeline.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

class device;

namespace detail {
struct recording_state;
struct command_list;
}  // namespace detail

/// What a recording does besides its commands.
struct recording_options {
  /// Measures every dispatch. Each then runs alone, between barriers: the sum is more than an unmeasured run takes.
  bool timestamps = false;
  /// Measures what lies between barriers, as it runs: a timestamp for each, which delays little.
  bool group_timestamps = false;
  /// Measures the whole, from what was submitted before to the end of the last command.
  bool duration = false;
};

struct timing {
  std::string label{};   // what was dispatched
  std::string kernel{};  // the pipeline's name
  double begin = 0;      // nanoseconds after the first dispatch's
  double nanoseconds = 0;
};

/// Shared ownership; keeps its buffers and pipelines alive. Submit it with `device::submit`.
class recording {
 public:
  recording() = default;
  explicit recording(std::shared_ptr<detail::recording_state> state) : state_(std::move(state)) {}
  explicit operator bool() const { return state_ != nullptr; }

  [[nodiscard]] std::size_t dispatch_count() const;
  /// One entry a dispatch, in order, of the last submission, which is waited for.
  /// errors: invalid_argument when recorded without timestamps or never submitted.
  [[nodiscard]] std::vector<timing> timings() const;
  /// Nanoseconds of each group of commands, in order, of the last submission, which is waited for: from the end of the
  /// group before it to its own. A group is what lies between barriers, empty ones too.
  /// errors: invalid_argument when recorded without group timestamps or never submitted.
  [[nodiscard]] std::vector<double> group_times() const;
  /// When the first dispatch of the last submission, which is waited for, began: nanoseconds of CLOCK_MONOTONIC, read
  /// beside the device's clock where the device writes a trace and `device_facts::has_calibrated_timestamps`, and
  /// otherwise one within `seen` and behind what the device did before. errors: as timings.
  [[nodiscard]] std::int64_t begin_on_host(const host_interval& seen) const;
  /// Nanoseconds of the last submission on the device, which is waited for.
  /// errors: invalid_argument when recorded without duration or never submitted.
  [[nodiscard]] double duration() const;

  [[nodiscard]] const std::shared_ptr<detail::recording_state>& state() const { return state_; }

 private:
  std::shared_ptr<detail::recording_state> state_;
};

/// Collects commands and turns them into a recording. Commands between two barriers may run at the same time; every
/// recording starts with a barrier, so that recordings need none between them.
/// Each call checks its arguments against the buffers and the device. errors: invalid_argument, unsupported.
class recorder {
 public:
  explicit recorder(const device& on, recording_options options = {});

  /// Bindings in the order of the module's; `label` names the dispatch in timings and debuggers, default the
  /// pipeline's name.
  void dispatch(const pipeline& kernel, std::span<const buffer_range> bindings, std::array<std::uint32_t, 3> groups,
                std::string_view label = {});
  void dispatch(const pipeline& kernel, std::initializer_list<buffer_range> bindings,
                std::array<std::uint32_t, 3> groups, std::string_view label = {}) {
    dispatch(kernel, std::span<const buffer_range>(bindings.begin(), bindings.size()), groups, label);
  }

  /// What comes after sees what came before: read after write, write after read, write after write.
  void barrier();
  /// Copies min(source, target) bytes; a source and target that overlap are refused.
  void copy(const buffer_range& source, const buffer_range& target);
  /// Repeats a 32-bit word; offset and size in multiples of 4.
  void fill(const buffer_range& target, std::uint32_t word);

  /// The recorder is empty afterwards.
  [[nodiscard]] recording finish();

 private:
  std::shared_ptr<detail::command_list> commands_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/recording_state.hpp>  // which ends with recording.ipp
#endif
