// SPDX-License-Identifier: MIT
// What is timed of a workload: each pass as a program of its own, built, run and read.
#pragma once
#include <meganeura/runtime/build_times.hpp>
#include <meganeura/runtime/profile.hpp>
#include <meganeura/runtime/program.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "workload.hpp"

namespace inferena {

/// What is asked of a workload. The last two are whole steps with an update, at a rate of 0.
enum class task { inference, latency, forward_backward, sgd, adamw };
inline constexpr task every_task[] = {task::inference, task::latency, task::forward_backward, task::sgd, task::adamw};
[[nodiscard]] const char* to_string(task of);
/// Whether the workload has it.
[[nodiscard]] bool has(const workload& of, task which);

/// A workload's graph for a task, made ready to be built.
struct prepared {
  pass made;
  meganeura::kernels::step_values numbers;  // of an update
  meganeura::build_times times;             // the trace and the differentiation
};
[[nodiscard]] prepared prepare(const workload& of, task which);

/// Milliseconds.
struct series {
  double median = 0, least = 0, most = 0;
  int rounds = 0;
};

struct measurement {
  meganeura::build_times built;
  series wall, device;      // from submission to the end of the wait; between the first and the last command
  series processor;         // of all threads of this process, a software device's among them
  double back_to_back = 0;  // ms a step of several that are submitted without a wait, inputs written for each
  std::size_t dispatches = 0;
  std::uint32_t groups = 0;
  std::uint64_t predicted_bytes = 0, allocated_bytes = 0;           // of the device: weights, what the plan has
  std::vector<meganeura::profile_row> slowest{}, slowest_groups{};  // if asked for
};

struct measure_options {
  int rounds = 30;
  int warm_ups = 5;
  double busy_seconds = 0.5;  // of steps behind warm-ups, where there are any: clocks fall while pipelines compile
  double most_seconds = 4;    // fewer rounds, but at least 5, where a step is slow; none where rounds are 0
  bool has_timestamps = true;
};

/// Runs a program; `numbers` as its step needs them.
[[nodiscard]] measurement measure(meganeura::program& run, const prepared& from, const measure_options& options);

/// Sets every input.
void bind(meganeura::program& run, const pass& of);

/// Kernels of a step by time, each alone on the device, or groups as they follow each other, those of one size in all
/// layers together. `run` was built with `profile`.
[[nodiscard]] std::vector<meganeura::profile_row> slowest_rows(const meganeura::program& run, std::size_t count);

}  // namespace inferena
