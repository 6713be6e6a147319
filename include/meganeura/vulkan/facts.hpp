// SPDX-License-Identifier: MIT
// What is known of one device before anything is run on it: identity, limits and abilities, as plain data.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/spirv/module.hpp>
#include <meganeura/vulkan/quirks.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

using uuid = std::array<std::uint8_t, 16>;

/// In Vulkan's numbering (VkPhysicalDeviceType).
enum class device_type : std::uint8_t { other, integrated_gpu, discrete_gpu, virtual_gpu, cpu };

/// In Vulkan's numbering (VkComponentTypeKHR).
enum class component_type : std::uint32_t {
  float16 = 0,
  float32 = 1,
  float64 = 2,
  sint8 = 3,
  sint16 = 4,
  sint32 = 5,
  sint64 = 6,
  uint8 = 7,
  uint16 = 8,
  uint32 = 9,
  uint64 = 10,
  bfloat16 = 1000141000
};

/// In Vulkan's and SPIR-V's numbering.
enum class matrix_scope : std::uint32_t { device = 1, workgroup = 2, subgroup = 3, queue_family = 5 };

/// One line of VK_KHR_cooperative_matrix's table: result[m, n] = a[m, k] * b[k, n] + c[m, n].
struct cooperative_matrix_shape {
  std::uint32_t m = 0, n = 0, k = 0;
  component_type a{}, b{}, c{}, result{};
  matrix_scope scope = matrix_scope::subgroup;
  bool saturating = false;
  [[nodiscard]] bool operator==(const cooperative_matrix_shape&) const = default;
};

struct memory_heap {
  std::uint64_t bytes = 0;
  bool device_local = false;
};

inline constexpr std::uint64_t widest_load = 16;  // bytes that a kernel reads at once

struct device_facts {
  std::uint32_t index = 0;  // place in the driver's enumeration, what MEGANEURA_DEVICE=<index> means
  std::string name;         // "llvmpipe (LLVM 15.0.6, 256 bits)"
  std::string driver;       // name and version, "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)"
  device_type type = device_type::other;
  std::uint32_t vendor_id = 0, device_id = 0, driver_id = 0, driver_version = 0;
  std::uint32_t api_version = 0;  // Vulkan's packing: major << 22 | minor << 12 | patch
  uuid device_uuid{}, driver_uuid{}, pipeline_cache_uuid{};

  // Where a driver does not say which sizes it may choose, the smallest is 1.
  std::uint32_t subgroup_size = 0, min_subgroup_size = 0, max_subgroup_size = 0;
  std::uint32_t subgroup_operations = 0;      // in compute kernels; of spirv::subgroup_operation
  std::uint32_t max_workgroup_subgroups = 0;  // of one workgroup, when a kernel asks for a subgroup size
  std::uint32_t max_shared_bytes = 0;         // workgroup memory, as reported
  std::uint32_t max_workgroup_invocations = 0;
  std::array<std::uint32_t, 3> max_workgroup_size{}, max_workgroup_count{};
  std::uint32_t max_storage_buffers = 0, max_texel_buffers = 0, max_uniform_buffers = 0;  // bindings of one kernel
  std::uint32_t max_push_descriptors = 0;  // of one kernel, written into the command buffer itself; 0 = no such thing
  std::uint64_t max_storage_range = 0;     // bytes one descriptor may cover
  std::uint64_t max_texel_elements = 0;    // of 16 bytes each
  std::uint64_t storage_alignment = 1, texel_alignment = 1, uniform_alignment = 1;  // of a binding's offset, bytes
  std::uint64_t max_buffer_bytes = 0;  // of one buffer, the allocation limit included
  std::uint32_t max_allocations = 0;   // alive at one time
  std::vector<memory_heap> heaps;
  bool unified_memory = false;       // every heap is device-local: host and device share one memory
  double timestamp_period = 0;       // nanoseconds a tick
  std::uint32_t timestamp_bits = 0;  // 0 = no timestamps

  // What the driver offers. An opened device has of it what modules of the kernel language can need.
  bool has_f16 = false;            // arithmetic, and 16-bit loads and stores in storage buffers
  bool has_16bit_storage = false;  // the latter alone
  bool has_8bit_storage = false;
  bool has_bf16 = false;   // VK_KHR_shader_bfloat16 with its cooperative matrices
  bool has_int8 = false;   // arithmetic and storage
  bool has_int16 = false;  // the same
  bool has_int64 = false;
  bool has_float64 = false;
  bool has_float_atomics = false;  // atomic add of f32 in storage buffers
  bool has_integer_dot = false;    // accelerated or not
  bool has_cooperative_matrix = false;
  bool has_memory_model = false;
  bool has_workgroup_layout = false;  // workgroup memory laid out by a kernel, with 8- and 16-bit elements
  bool has_device_scope = false;      // atomics of all workgroups, in either memory model
  bool has_device_address = false;    // kernels may find buffers by address, however long
  bool has_timeline_semaphore = false;
  bool has_pipeline_robustness = false;
  bool has_memory_budget = false;
  bool has_mapped_device_memory = false;  // the host sees memory of the device, at least some of it
  bool has_subgroup_size_control = false;
  bool has_subgroup_extended_types = false;  // operations of subgroups on 8- and 16-bit values
  bool has_special_values = false;           // 32-bit floats may be told to keep NaN, infinities and the sign of zero
  bool has_calibrated_timestamps = false;    // its clock and CLOCK_MONOTONIC can be read at one time
  bool has_full_subgroups = false;           // a kernel may ask that no lane of a subgroup is empty
  std::vector<cooperative_matrix_shape> cooperative_matrix_shapes;
  std::optional<matrix_shape> emulated_units;  // not the driver's, but what device_options ask for
  std::uint32_t compute_units = 0;             // NVIDIA: SMs, AMD: CUs, CPU: threads; an estimate elsewhere
  quirk_set quirks;
  std::string unusable_because;  // empty when the library can run here

  /// What a workgroup may use: the reported limit, or less where the driver is known to break before it.
  [[nodiscard]] constexpr std::uint32_t usable_shared_bytes() const {
    const bool breaks_earlier = quirks.max_shared_bytes != 0 && quirks.max_shared_bytes < max_shared_bytes;
    return breaks_earlier ? quirks.max_shared_bytes : max_shared_bytes;
  }
  /// An offset that suits every kind of binding of this device.
  [[nodiscard]] constexpr std::uint64_t binding_alignment() const {
    std::uint64_t alignment = widest_load;  // an RGBA32F texel as well
    if (storage_alignment > alignment) alignment = storage_alignment;
    if (texel_alignment > alignment) alignment = texel_alignment;
    if (uniform_alignment > alignment) alignment = uniform_alignment;
    return alignment;  // all are powers of two
  }
};

[[nodiscard]] constexpr const char* to_string(device_type type) {
  constexpr const char* names[] = {"other", "integrated GPU", "discrete GPU", "virtual GPU", "CPU"};
  return names[static_cast<int>(type)];
}

/// The least that a conforming driver may offer, from the table of required limits of Vulkan 1.1, with the timeline
/// semaphores this library needs: no subgroup operation beyond the basic ones, no narrow types, four storage buffers.
[[nodiscard]] device_facts minimum_facts();

/// `found` with nothing more than `most` has: the smaller of each limit, the larger of each alignment, the abilities
/// and the shapes of matrices of both. Identity, heaps and what cannot be taken away (subgroup sizes, compute units)
/// stay those of `found`.
[[nodiscard]] device_facts weaker(const device_facts& found, const device_facts& most);

/// Index into `found` of the device that `wish` names: an enumeration index, a part of the name (case ignored), "cpu",
/// or empty for the best there is (discrete, integrated, virtual, CPU).
/// errors: no_device with a list of what was found; unsupported when the named device cannot be used.
[[nodiscard]] std::size_t choose_device(const std::vector<device_facts>& found, std::string_view wish);

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/facts.ipp>
#endif
