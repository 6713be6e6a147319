// SPDX-License-Identifier: MIT
// When something ran, as the host saw it.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

/// What the host knows of a submission: when it began to submit it and when it saw that it had ended, in nanoseconds of
/// CLOCK_MONOTONIC.
struct host_interval {
  std::int64_t submitted = 0, ended = 0;
};

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan
