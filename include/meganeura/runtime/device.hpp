// SPDX-License-Identifier: MIT
// The device as users name it, and what the choice of kernels and their generators are told of it.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/fusion/region_limits.hpp>
#include <meganeura/vulkan/device.hpp>

#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

using vulkan::device;
using vulkan::device_facts;
using vulkan::device_options;
using vulkan::enumerate_devices;
using vulkan::rate_measurement;

/// Matrix units of the device that products can use, the first choice first: 16x16x16, for which schedules and costs
/// were measured, then the larger ones.
[[nodiscard]] std::vector<matrix_shape> usable_units(const device_facts& facts);

/// The one place where what a device can do becomes what the other folders see. How long things take on it is what an
/// H100 or lavapipe was found to take; see profile_of for devices that are opened.
[[nodiscard]] device_profile make_device_profile(const device_facts& facts);

/// How much a kernel may read at once, so that what is fused can be bound.
[[nodiscard]] fusion::region_limits make_region_limits(const device_facts& facts, fusion::region_limits limits = {});

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/device.ipp>
#endif
