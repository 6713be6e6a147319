// SPDX-License-Identifier: MIT
// What a step of a plan has to move and to compute, and how long a device needs for that at least.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/device_profile.hpp>
#include <meganeura/plan/plan.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::plan {

struct work {
  /// What must be read and written: each tensor that is bound once, one that is overwritten in place twice; of a tensor
  /// that a kernel reads in part, that part.
  std::uint64_t bytes = 0;
  double flops = 0;  // as graph::flops counts; an update's are its program's
};

[[nodiscard]] work work_of(const execution_plan& p, const step& s);

/// Seconds that it takes at least: its bytes at the bandwidth, or its operations at the rate of what computes them if
/// that is longer. As good as the rates of the profile are; a launch is no part of it.
[[nodiscard]] double floor_seconds(const execution_plan& p, const step& s, const device_profile& device);

}  // namespace meganeura::inline MEGANEURA_ABI::plan

#if MEGANEURA_HEADER_ONLY
#include <meganeura/plan/work.ipp>
#endif
