// SPDX-License-Identifier: MIT
// Internal: the Vulkan objects of a pipeline, how they are made, and the pipeline cache on disk.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/vulkan/device_state.hpp>
#include <meganeura/vulkan/pipeline.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::vulkan::detail {

struct pipeline_state {
  explicit pipeline_state(std::shared_ptr<device_state> owner) : device(std::move(owner)) {}
  ~pipeline_state();
  pipeline_state(const pipeline_state&) = delete;
  pipeline_state& operator=(const pipeline_state&) = delete;

  std::shared_ptr<device_state> device;
  std::string name;
  std::vector<spirv::binding_kind> bindings;
  std::uint32_t descriptors = 0, addresses = 0;  // of these
  bool pushes_descriptors = false;               // these are part of a command buffer, not of a set
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipeline handle = VK_NULL_HANDLE;
};

/// Of a binding that has a descriptor.
[[nodiscard]] constexpr VkDescriptorType descriptor_type(spirv::binding_kind kind) {
  constexpr VkDescriptorType types[] = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
                                        VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER};
  return types[static_cast<std::size_t>(kind)];
}

/// Expects the module to have passed reason_to_refuse.
[[nodiscard]] std::shared_ptr<pipeline_state> create_pipeline(const std::shared_ptr<device_state>& device,
                                                              const spirv::module& kernel);

/// Creates them on the device's threads; the first failure is thrown after all threads ended.
[[nodiscard]] std::vector<pipeline> create_pipelines(const std::shared_ptr<device_state>& device,
                                                     std::span<const spirv::module> kernels);

/// Where the cache of this device lies below `directory` (empty: the user's cache folder).
/// An empty path when there is no such place.
[[nodiscard]] std::filesystem::path cache_path(const device_facts& facts, const std::string& directory);

/// The driver's bytes out of a cache file, or nothing when file, checksum or device do not match.
[[nodiscard]] std::vector<std::byte> unpack_cache(std::span<const std::byte> file, const device_facts& facts);
[[nodiscard]] std::vector<std::byte> pack_cache(std::span<const std::byte> data, const device_facts& facts);

/// The same from a file, its header checked before anything else of it is read. errors: io; invalid_file when it
/// shrinks meanwhile; out_of_memory.
[[nodiscard]] std::vector<std::byte> read_cache(const std::string& path, const device_facts& facts);

/// Creates device.pipeline_cache, from the file at device.cache_file if that can be believed.
void open_pipeline_cache(device_state& device);

/// Writes a temporary file and renames it, so that no reader ever sees half a cache. errors: io.
void save_pipeline_cache(device_state& device);
void save_pipeline_cache_quietly(device_state& device) noexcept;  // logs instead of throwing

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/pipeline.ipp>
#endif
