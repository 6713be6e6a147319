// SPDX-License-Identifier: MIT
// How long a kernel takes, alone and beside others.
#pragma once
#include <meganeura/config.hpp>

#include <cmath>

namespace meganeura::inline MEGANEURA_ABI {

/// Seconds of a kernel beside those of its launch; infinite for what no kernel computes.
struct kernel_time {
  double alone = 0;  // with the device to itself
  double busy = 0;   // of these, what its work takes of a device that others keep busy as well
  double room = 0;   // of what the device has for workgroups, all of its own together; 0 if little or not known

  /// How often all of the room is taken, one workgroup behind the other.
  static constexpr double few_rounds = 3;  // where some of the room is empty in the last of them
  [[nodiscard]] double rounds() const { return room <= 1 ? 1 : room > few_rounds ? room : std::ceil(room - 1e-6); }
  friend bool operator==(const kernel_time&, const kernel_time&) = default;
};

/// Seconds of launches. Kernels that wait for the same ones run side by side, as a group, which takes as long as the
/// longest of them and as the work of all of them.
struct launch_time {
  double group = 0;     // a barrier, from the kernels before it to those behind
  double dispatch = 0;  // each kernel between two of them

  /// Of a kernel that is a group of its own.
  [[nodiscard]] constexpr double alone() const { return group + dispatch; }
  friend bool operator==(const launch_time&, const launch_time&) = default;
};

}  // namespace meganeura::inline MEGANEURA_ABI
