// SPDX-License-Identifier: MIT
// Choosing one of the devices that were found.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/vulkan/facts.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

namespace detail {

inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

inline std::string list_devices(const std::vector<device_facts>& found) {
  if (found.empty()) return "no device";
  std::string list;
  for (const device_facts& facts : found) {
    list += fmt::format("{}[{}] {} ({})", list.empty() ? "" : ", ", facts.index, facts.name, to_string(facts.type));
    if (!facts.unusable_because.empty()) list += fmt::format(" unusable: {}", facts.unusable_because);
  }
  return list;
}

inline int preference(device_type type) {
  switch (type) {
    case device_type::discrete_gpu:
      return 0;
    case device_type::integrated_gpu:
      return 1;
    case device_type::virtual_gpu:
      return 2;
    case device_type::other:
      return 3;
    case device_type::cpu:
      return 4;
  }
  return 5;
}

inline bool matches(const device_facts& facts, std::string_view wish) {
  if (wish.empty()) return true;
  std::uint32_t index = 0;
  const char* end = wish.data() + wish.size();
  const auto parsed = std::from_chars(wish.data(), end, index);
  if (parsed.ec == std::errc() && parsed.ptr == end) return facts.index == index;
  const std::string wanted = lower(wish);
  if (wanted == "cpu") return facts.type == device_type::cpu;
  return lower(facts.name).find(wanted) != std::string::npos;
}

}  // namespace detail

MEGANEURA_INLINE device_facts minimum_facts() try {
  device_facts least;
  least.name = "the least that Vulkan 1.1 allows";
  least.api_version = 1U << 22 | 2U << 12;  // SPIR-V 1.5 at most
  least.subgroup_size = least.min_subgroup_size = least.max_subgroup_size = 1;
  least.subgroup_operations = spirv::subgroup_basic;
  least.max_shared_bytes = 16384;
  least.max_workgroup_invocations = 128;
  least.max_workgroup_size = {128, 128, 64};
  least.max_workgroup_count = {65535, 65535, 65535};
  least.max_storage_buffers = 4;
  least.max_texel_buffers = 16;
  least.max_uniform_buffers = 12;
  least.max_storage_range = std::uint64_t{1} << 27;
  least.max_texel_elements = 65536;
  least.storage_alignment = least.texel_alignment = least.uniform_alignment = 256;
  least.max_buffer_bytes = std::uint64_t{1} << 30;
  least.max_allocations = 4096;
  least.has_timeline_semaphore = true;
  least.has_device_scope = true;
  return least;
} catch (...) {
  rethrow_as_error("listing the least facts");
}

MEGANEURA_INLINE device_facts weaker(const device_facts& found, const device_facts& most) try {
  device_facts result = found;
  const auto limit = [&](auto member) { result.*member = std::min(result.*member, most.*member); };
  limit(&device_facts::api_version);
  limit(&device_facts::max_workgroup_subgroups);
  limit(&device_facts::max_shared_bytes);
  limit(&device_facts::max_workgroup_invocations);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    result.max_workgroup_size[axis] = std::min(result.max_workgroup_size[axis], most.max_workgroup_size[axis]);
    result.max_workgroup_count[axis] = std::min(result.max_workgroup_count[axis], most.max_workgroup_count[axis]);
  }
  limit(&device_facts::max_storage_buffers);
  limit(&device_facts::max_texel_buffers);
  limit(&device_facts::max_uniform_buffers);
  limit(&device_facts::max_push_descriptors);
  limit(&device_facts::max_storage_range);
  limit(&device_facts::max_texel_elements);
  limit(&device_facts::max_buffer_bytes);
  limit(&device_facts::max_allocations);
  for (auto alignment :
       {&device_facts::storage_alignment, &device_facts::texel_alignment, &device_facts::uniform_alignment}) {
    result.*alignment = std::max(result.*alignment, most.*alignment);
  }
  result.subgroup_operations &= most.subgroup_operations;
  for (auto ability : {&device_facts::has_f16,
                       &device_facts::has_16bit_storage,
                       &device_facts::has_8bit_storage,
                       &device_facts::has_bf16,
                       &device_facts::has_int8,
                       &device_facts::has_int16,
                       &device_facts::has_int64,
                       &device_facts::has_float64,
                       &device_facts::has_float_atomics,
                       &device_facts::has_integer_dot,
                       &device_facts::has_cooperative_matrix,
                       &device_facts::has_memory_model,
                       &device_facts::has_device_scope,
                       &device_facts::has_workgroup_layout,
                       &device_facts::has_device_address,
                       &device_facts::has_timeline_semaphore,
                       &device_facts::has_pipeline_robustness,
                       &device_facts::has_memory_budget,
                       &device_facts::has_mapped_device_memory,
                       &device_facts::has_subgroup_size_control,
                       &device_facts::has_full_subgroups,
                       &device_facts::has_subgroup_extended_types,
                       &device_facts::has_special_values}) {
    result.*ability = result.*ability && most.*ability;
  }
  result.has_calibrated_timestamps = result.has_calibrated_timestamps && most.has_calibrated_timestamps;
  std::erase_if(result.cooperative_matrix_shapes, [&](const cooperative_matrix_shape& each) {
    return !result.has_cooperative_matrix ||
           std::ranges::find(most.cooperative_matrix_shapes, each) == most.cooperative_matrix_shapes.end();
  });
  result.quirks.prefers_texel_buffers = result.quirks.prefers_texel_buffers && most.quirks.prefers_texel_buffers;
  return result;
} catch (...) {
  rethrow_as_error("weakening a device");
}

MEGANEURA_INLINE std::size_t choose_device(const std::vector<device_facts>& found, std::string_view wish) try {
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t best = none;
  std::size_t refused = none;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!detail::matches(found[i], wish)) continue;
    if (!found[i].unusable_because.empty()) {
      refused = i;
    } else if (best == none || detail::preference(found[i].type) < detail::preference(found[best].type)) {
      best = i;
    }
  }
  if (best != none) return best;
  if (refused != none) {
    fail(error_category::unsupported, "Vulkan device {} cannot be used: {}; found: {}", found[refused].name,
         found[refused].unusable_because, detail::list_devices(found));
  }
  if (wish.empty()) {
    fail(error_category::no_device,
         "no Vulkan device was found; install a driver (Mesa's lavapipe runs on any processor: mesa-vulkan-drivers)");
  }
  fail(error_category::no_device,
       "no Vulkan device matches \"{}\"; found: {}; ask for an index, a part of a name or cpu", wish,
       detail::list_devices(found));
} catch (...) {
  rethrow_as_error("choosing a device");
}

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan
