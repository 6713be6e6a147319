// SPDX-License-Identifier: MIT
// Where the device's time goes in one step: each dispatch with what it had to do, and sums by kernel and by module.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/vulkan/recording.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// What a program measures of its steps beside their results.
enum class profiling {
  none,
  dispatches,  // each by itself, between barriers: all together take longer than a step that is not measured
  groups,      // of dispatches that may run side by side, one timestamp a group: as they follow each other in a step
};

/// One dispatch of a step, or a group of them: then the module is the first's, texts stand behind each other, "3 x"
/// before what is there three times, and work and floors are sums. Times are nanoseconds of the device.
struct profiled_dispatch {
  std::string module{};    // "layers.3.mlp", "layers.3.mlp backward"; empty for what no module made
  std::string text{};      // "matmul 128x576x576 split 32x32x144 16x16 slices 3": plan::description and the schedule
  std::string schedule{};  // of a product on matrix units, else empty
  std::string kernel{};    // the pipeline's name
  double begin = 0;        // after the step's first timestamp
  double nanoseconds = 0;
  std::uint64_t bytes = 0;  // that it must move, see plan::work
  double flops = 0;
  double floor = 0;  // nanoseconds that it needs at least by the rates of the device_profile, see plan::floor_seconds

  /// 100 where it is as quick as the floor, 50 where it takes twice as long; 0 before it was measured. The rates of a
  /// processor are rough guesses, which kernels there may exceed.
  [[nodiscard]] double percent_of_floor() const { return nanoseconds > 0 ? 100 * floor / nanoseconds : 0; }
};

/// Several dispatches together.
struct profile_row {
  std::string text{};  // what they have in common
  std::size_t count = 0;
  double nanoseconds = 0;
  double share = 0;  // of the step's dispatches, 0 to 1
  std::uint64_t bytes = 0;
  double flops = 0;
  double floor = 0;  // nanoseconds

  [[nodiscard]] double percent_of_floor() const { return nanoseconds > 0 ? 100 * floor / nanoseconds : 0; }
};

/// The dispatches of one step in their order, or the groups; copies are not measured, but for the time that they take
/// in a group.
class step_profile {
 public:
  step_profile() = default;
  explicit step_profile(std::vector<profiled_dispatch> dispatches) : dispatches_(std::move(dispatches)) {}

  [[nodiscard]] std::size_t size() const { return dispatches_.size(); }
  [[nodiscard]] bool empty() const { return dispatches_.empty(); }
  [[nodiscard]] const profiled_dispatch& operator[](std::size_t i) const { return dispatches_[i]; }
  [[nodiscard]] auto begin() const { return dispatches_.begin(); }
  [[nodiscard]] auto end() const { return dispatches_.end(); }

  /// A row for each text, what takes longest first: what is the same in several layers is one.
  [[nodiscard]] std::vector<profile_row> by_kernel() const;
  /// A row for each module, what takes longest first: of paths the first `depth` names, all of them unless said.
  /// "layers.3 backward" is a module beside "layers.3"; "(model)" has what no module made.
  [[nodiscard]] std::vector<profile_row> by_module(std::size_t depth = ~std::size_t{0}) const;
  /// All of them, as "total".
  [[nodiscard]] profile_row total() const;

 private:
  std::vector<profiled_dispatch> dispatches_;
};

/// A table: a line for each row in their order, and the total of these.
[[nodiscard]] std::string to_text(std::span<const profile_row> rows);
/// The table of by_kernel().
[[nodiscard]] std::string to_text(const step_profile& profile);

namespace detail {

/// What is known of a plan's dispatches before they run, by the rates of a device: everything but pipelines and times.
[[nodiscard]] std::vector<profiled_dispatch> dispatches_of(const plan::execution_plan& p, const device_profile& rates);
/// And these.
void set_times(std::span<profiled_dispatch> dispatches, std::span<const vulkan::timing> timings);
/// The groups of a plan of these dispatches. `times`: of each group, behind those of copies of inputs if there are any.
[[nodiscard]] std::vector<profiled_dispatch> groups_of(const plan::execution_plan& p,
                                                       std::span<const profiled_dispatch> dispatches,
                                                       std::span<const double> times);

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/profile.ipp>
#endif
