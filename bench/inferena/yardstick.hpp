// SPDX-License-Identifier: MIT
// What a machine takes now for what never changes, on all of its processors: see bench/history.py.
#pragma once
#include <meganeura/runtime/device.hpp>

namespace inferena {

/// Processor time in milliseconds, of all threads. Machines differ in more than their speed: one hashes as quickly as
/// another and takes three times as long to load floats from many places.
struct yardsticks {
  double hashing_ms = 0;  // on the host
  double kernel_ms = 0;   // on a software device; of another one, what it takes to submit a kernel
};
[[nodiscard]] yardsticks measure_yardsticks(const meganeura::device& on);

}  // namespace inferena
