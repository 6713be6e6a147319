// SPDX-License-Identifier: MIT
// How long a device takes for a step of a program, and for each of its kernels alone.
#pragma once
#include <meganeura/meganeura.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

/// Times programs on a device whose clocks are up: these fall where it waits and rise late, so that what is timed
/// stands behind other steps.
class step_timer {
 public:
  step_timer(const meganeura::device& gpu, int rounds)
      : rounds_(rounds), has_timestamps_(gpu.facts().timestamp_bits != 0) {}

  /// What a program needs to be timed: of the device's clock, or where it has none of the host's.
  void prepare(meganeura::program_options& how) const { how.duration = has_timestamps_; }

  /// us {"median", "min", "max"}. errors: invalid_argument where a step has no kernels, so that there is nothing to
  /// measure.
  [[nodiscard]] nlohmann::json time(meganeura::program& run) const {
    if (run.plan().steps.empty())
      meganeura::fail(meganeura::error_category::invalid_argument,
                      "the plan of a step has no kernels: there is nothing to measure");
    if (has_timestamps_) {
      for (const auto start = clock::now(); passed(start) < 3e5;) submit(run, 20);
    }
    std::vector<double> us;
    for (int i = 0; i < rounds_; ++i) {
      const auto start = clock::now();
      submit(run, has_timestamps_ ? 12 : 1);
      us.push_back(has_timestamps_ ? run.duration() * 1e-3 : passed(start));
    }
    std::ranges::sort(us);
    return {{"median", us[us.size() / 2]}, {"min", us.front()}, {"max", us.back()}};
  }

  /// [{"name", "us"}] of a program with profiling::dispatches; none where the device has no clock.
  [[nodiscard]] nlohmann::json kernels(meganeura::program& run) const {
    std::map<std::string, std::vector<double>> all;
    for (int i = 0; has_timestamps_ && i < 9; ++i) {
      submit(run, 12);
      for (const meganeura::profile_row& each : run.profile().by_kernel())
        all[each.text].push_back(each.nanoseconds * 1e-3);
    }
    nlohmann::json kernels = nlohmann::json::array();
    for (auto& [name, us] : all) {
      std::ranges::sort(us);
      kernels.push_back({{"name", name}, {"us", us[us.size() / 2]}});
    }
    return kernels;
  }

 private:
  using clock = std::chrono::steady_clock;
  static double passed(clock::time_point since) {
    return std::chrono::duration<double, std::micro>(clock::now() - since).count();
  }
  static void submit(meganeura::program& run, int count) {
    std::uint64_t last = 0;
    for (int i = 0; i < count; ++i) last = run.submit({});
    run.wait(last);
  }

  int rounds_;
  bool has_timestamps_;
};
