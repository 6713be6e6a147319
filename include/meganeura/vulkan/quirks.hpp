// SPDX-License-Identifier: MIT
// What a driver does that its reported limits do not say, as a table of named facts.
#pragma once
#include <meganeura/config.hpp>

#include <array>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

/// All are false or 0 for a driver nobody has measured.
struct quirk_set {
  bool prefers_texel_buffers = false;     // vec4 texel fetches are far cheaper than storage-buffer loads
  std::uint32_t max_loop_iterations = 0;  // an invocation stops after so many, of all its loops; 0 = never
  std::uint32_t max_shared_bytes = 0;     // a workgroup that uses more loses the device; 0 = the reported limit holds
};

struct quirk {
  const char* name;
  std::uint32_t vendor_id;  // 0 = any vendor
  std::uint32_t driver_id;  // VkDriverId, 0 = any driver
  void (*set)(quirk_set& quirks);
  const char* evidence;
};

/// PCI vendor 0x10DE is NVIDIA. VkDriverId 4 is NVIDIA's proprietary driver, 13 is Mesa's llvmpipe (lavapipe).
inline constexpr std::array<quirk, 3> quirk_table{{
    {"lavapipe prefers texel buffers", 0, 13, [](quirk_set& quirks) { quirks.prefers_texel_buffers = true; },
     "Mesa 22.3.6: a storage-buffer load becomes eight scalar, bounds-checked loads; f32 GEMM 512^3 gains 2 to 4 "
     "times"},
    {"lavapipe stops long loops", 0, 13, [](quirk_set& quirks) { quirks.max_loop_iterations = 65535; },
     "Mesa 22.3.6: LP_MAX_TGSI_LOOP_ITERATIONS, one counter for all loops of a kernel; what is left is skipped without "
     "an error"},
    {"NVIDIA accepts too much shared memory", 0x10DE, 4, [](quirk_set& quirks) { quirks.max_shared_bytes = 49152; },
     "driver 580.159, H200: over 48 KiB the pipeline is created and its dispatch loses the device"},
}};

[[nodiscard]] constexpr quirk_set find_quirks(std::uint32_t vendor_id, std::uint32_t driver_id) {
  quirk_set found;
  for (const quirk& entry : quirk_table) {
    const bool vendor_matches = entry.vendor_id == 0 || entry.vendor_id == vendor_id;
    const bool driver_matches = entry.driver_id == 0 || entry.driver_id == driver_id;
    if (!vendor_matches || !driver_matches) continue;
    entry.set(found);
  }
  return found;
}

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan
