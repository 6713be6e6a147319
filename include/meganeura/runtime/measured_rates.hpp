// SPDX-License-Identifier: MIT
// How long things take on a device: measured by a few small kernels, and kept beside its compiled ones.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/runtime/device.hpp>

#include <string>

namespace meganeura::inline MEGANEURA_ABI {

/// Measures a device, some 30 ms of a GPU's time beside what the driver takes to compile a dozen small kernels. Memory,
/// 192 MiB at most, is free again afterwards. What others submit meanwhile goes on, and is in the way. Rates are
/// rounded to a quarter of a doubling, so that two measurements seldom tell different ones, and plans are the same.
/// errors: what allocating, compiling and running throw; unsupported where the times make no sense.
[[nodiscard]] device_rates measure_rates(const device& on);

/// What the device can do and how long it takes, the one place that programs ask. The times are those that the library
/// was fitted to on an H100, H200 or lavapipe; of any other device they are measured when they are first asked for, or
/// read where an earlier process stored them (device_options::rates, device_options::disk_cache). Where that fails, the
/// device's log has the reason and they are the H100's by the number of multiprocessors.
[[nodiscard]] device_profile profile_of(const device& on);

namespace detail {

/// Whether make_device_profile has more than an estimate of it.
[[nodiscard]] bool has_known_rates(const device_facts& facts);
/// The same as measure_rates, by the clock of the device or of the host.
[[nodiscard]] device_rates measure_rates(const device& on, bool by_timestamps);
/// The file that programs read and write; empty where nothing is stored.
[[nodiscard]] std::string rates_file(const device& on);
/// errors: io.
void save_rates(const device_rates& rates, const std::string& path, const device& on);
/// errors: io; invalid_file for one that is damaged or of another device, driver or measurement.
[[nodiscard]] device_rates load_rates(const std::string& path, const device& on);

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/measured_rates.ipp>
#endif
