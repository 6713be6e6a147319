// SPDX-License-Identifier: MIT
// Checking, creating and caching compute pipelines.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/helper_threads.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/io/file.hpp>
#include <meganeura/io/user_folder.hpp>
#include <meganeura/vulkan/pipeline_state.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <system_error>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

namespace detail {

inline std::string refuse_size(const device_facts& facts, const spirv::module& kernel) {
  if (kernel.shared_bytes > facts.usable_shared_bytes()) {
    return fmt::format("it needs {} bytes of shared memory and the limit is {}", kernel.shared_bytes,
                       facts.usable_shared_bytes());
  }
  std::uint64_t invocations = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (kernel.local_size[axis] == 0 || kernel.local_size[axis] > facts.max_workgroup_size[axis]) {
      return fmt::format("its workgroup size on axis {} is {} and must be 1 to {}", axis, kernel.local_size[axis],
                         facts.max_workgroup_size[axis]);
    }
    invocations *= kernel.local_size[axis];
  }
  if (invocations > facts.max_workgroup_invocations) {
    return fmt::format("its workgroup has {} invocations and the limit is {}", invocations,
                       facts.max_workgroup_invocations);
  }
  const auto texels = static_cast<std::size_t>(
      std::count(kernel.bindings.begin(), kernel.bindings.end(), spirv::binding_kind::uniform_texel_buffer));
  const auto uniforms = static_cast<std::size_t>(
      std::count(kernel.bindings.begin(), kernel.bindings.end(), spirv::binding_kind::uniform_buffer));
  const auto addresses = static_cast<std::size_t>(
      std::count(kernel.bindings.begin(), kernel.bindings.end(), spirv::binding_kind::address));
  if (addresses != 0 && !facts.has_device_address) return "it needs addresses of buffers (bufferDeviceAddress)";
  if (addresses > push_constants / address_bytes) {
    return fmt::format("it reaches {} tensors by address and there is room for {}", addresses,
                       push_constants / address_bytes);
  }
  const std::size_t storages = kernel.bindings.size() - texels - uniforms - addresses;
  if (storages > facts.max_storage_buffers || texels > facts.max_texel_buffers ||
      uniforms > facts.max_uniform_buffers) {
    return fmt::format("it binds {} storage, {} texel and {} uniform buffers and the limits are {}, {} and {}",
                       storages, texels, uniforms, facts.max_storage_buffers, facts.max_texel_buffers,
                       facts.max_uniform_buffers);
  }
  return {};
}

inline std::string refuse_subgroup(const device_facts& facts, const spirv::module& kernel) {
  const std::uint32_t size = kernel.subgroup_size;
  if (size == 0) return {};
  // Such kernels count on neighbouring invocations being neighbouring lanes, none left out.
  if (!facts.has_full_subgroups) return "it needs full subgroups and the device does not promise them";
  if (kernel.local_size[0] % size != 0) {
    return fmt::format("it needs subgroups of {} and its workgroup is {} wide, which is no multiple", size,
                       kernel.local_size[0]);
  }
  if (facts.min_subgroup_size == facts.max_subgroup_size && size == facts.subgroup_size) return {};
  const bool power_of_two = (size & (size - 1)) == 0;
  if (facts.has_subgroup_size_control && power_of_two && size >= facts.min_subgroup_size &&
      size <= facts.max_subgroup_size) {
    const std::uint32_t invocations = kernel.local_size[0] * kernel.local_size[1] * kernel.local_size[2];
    if (invocations > size * facts.max_workgroup_subgroups) {
      return fmt::format("it needs {} invocations in subgroups of {} and a workgroup may have {} subgroups",
                         invocations, size, facts.max_workgroup_subgroups);
    }
    return {};
  }
  return fmt::format("it needs subgroups of {} and the device offers {} to {}{}", size, facts.min_subgroup_size,
                     facts.max_subgroup_size, facts.has_subgroup_size_control ? "" : " without a choice");
}

}  // namespace detail

MEGANEURA_INLINE std::string reason_to_refuse(const device_facts& facts, const spirv::module& kernel) try {
  if (kernel.words.size() < 5 || kernel.words[0] != 0x07230203) return "its words are not a SPIR-V module";
  const std::uint32_t most = facts.api_version >= VK_API_VERSION_1_3 ? 0x10600 : 0x10500;  // Vulkan appendix A
  if (kernel.words[1] > most) {
    return fmt::format("it is SPIR-V 1.{} and the device reads up to 1.{}", kernel.words[1] >> 8 & 0xFF,
                       most >> 8 & 0xFF);
  }
  if (kernel.needs_f16 && !facts.has_f16) return "it needs 16-bit floats; a model of f32 does not";
  if (kernel.needs_int8 && !facts.has_int8) return "it needs 8-bit integers";
  if (kernel.needs_int16 && !facts.has_int16) return "it needs 16-bit integers";
  if (kernel.needs_bf16 && !facts.has_bf16) return "it needs VK_KHR_shader_bfloat16";
  if (kernel.needs_16bit_storage && !facts.has_16bit_storage)
    return "it needs 16-bit loads and stores; a model of f32 does not";
  if (kernel.needs_8bit_storage && !facts.has_8bit_storage) return "it needs 8-bit loads and stores";
  if (kernel.needs_device_scope && !facts.has_device_scope) return "it needs atomics of device scope";
  if (kernel.needs_workgroup_layout && !facts.has_workgroup_layout)
    return "it needs VK_KHR_workgroup_memory_explicit_layout";
  if (kernel.needs_special_values && !facts.has_special_values) return "it needs NaN and infinities to be preserved";
  if (const std::uint32_t missing = kernel.subgroup_operations & ~facts.subgroup_operations) {
    return fmt::format("it needs {} among the operations of subgroups", missing & spirv::subgroup_arithmetic
                                                                            ? "arithmetic"
                                                                        : missing & spirv::subgroup_shuffle ? "shuffles"
                                                                        : missing & spirv::subgroup_ballot  ? "ballots"
                                                                        : missing & spirv::subgroup_vote    ? "votes"
                                                                                                         : "elections");
  }
  if (kernel.needs_subgroup_extended_types && !facts.has_subgroup_extended_types)
    return "it needs operations of subgroups on 8- and 16-bit values";
  if (kernel.needs_cooperative_matrix && !(facts.has_cooperative_matrix && facts.has_memory_model)) {
    return "it needs VK_KHR_cooperative_matrix and the Vulkan memory model";
  }
  if (std::string reason = detail::refuse_subgroup(facts, kernel); !reason.empty()) return reason;
  return detail::refuse_size(facts, kernel);
} catch (...) {
  rethrow_as_error("looking at a device's limits");
}

namespace detail {
inline constexpr std::uint64_t max_uniform_range = 16384;  // what every device binds
}  // namespace detail

MEGANEURA_INLINE std::string reason_to_refuse(const device_facts& facts, spirv::binding_kind kind,
                                              std::uint64_t bytes) try {
  const std::uint64_t most = kind == spirv::binding_kind::uniform_texel_buffer
                                 ? facts.max_texel_elements * detail::texel_bytes
                             : kind == spirv::binding_kind::uniform_buffer ? detail::max_uniform_range
                             : kind == spirv::binding_kind::address        ? facts.max_buffer_bytes
                                                                           : facts.max_storage_range;
  if (bytes <= most) return {};
  return fmt::format("it covers {} bytes and {} binds {} at most", bytes, facts.name, most);
} catch (...) {
  rethrow_as_error("looking at a device's limits");
}

MEGANEURA_INLINE std::string reason_to_refuse(const device_facts& facts,
                                              const std::array<std::uint32_t, 3>& groups) try {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (groups[axis] <= facts.max_workgroup_count[axis]) continue;
    return fmt::format("it is launched with {} workgroups on axis {} and {} allows {}", groups[axis], axis, facts.name,
                       facts.max_workgroup_count[axis]);
  }
  return {};
} catch (...) {
  rethrow_as_error("looking at a device's limits");
}

MEGANEURA_INLINE const std::string& pipeline::name() const try {
  if (state_ == nullptr) fail(error_category::invalid_argument, "an empty pipeline handle was asked for its name");
  return state_->name;
} catch (...) {
  rethrow_as_error("naming a pipeline");
}

namespace detail {

MEGANEURA_INLINE pipeline_state::~pipeline_state() {
  device->call.DestroyPipeline(device->handle, handle, nullptr);
  device->call.DestroyPipelineLayout(device->handle, layout, nullptr);
  device->call.DestroyDescriptorSetLayout(device->handle, set_layout, nullptr);
}

inline void create_layouts(pipeline_state& state) {
  device_state& device = *state.device;
  std::vector<VkDescriptorSetLayoutBinding> slots;
  for (std::uint32_t i = 0; i < state.bindings.size(); ++i) {
    if (state.bindings[i] == spirv::binding_kind::address)
      ++state.addresses;
    else
      slots.push_back({i, descriptor_type(state.bindings[i]), 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  }
  state.descriptors = static_cast<std::uint32_t>(slots.size());
  state.pushes_descriptors = !slots.empty() && slots.size() <= device.facts.max_push_descriptors;
  VkDescriptorSetLayoutCreateInfo set{};
  set.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  if (state.pushes_descriptors) set.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR;
  set.bindingCount = state.descriptors;
  set.pBindings = slots.data();
  device.check(device.call.CreateDescriptorSetLayout(device.handle, &set, nullptr, &state.set_layout),
               "vkCreateDescriptorSetLayout");
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &state.set_layout;
  const VkPushConstantRange addresses{VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                      state.addresses * static_cast<std::uint32_t>(address_bytes)};
  layout.pushConstantRangeCount = state.addresses != 0 ? 1 : 0;
  layout.pPushConstantRanges = &addresses;
  device.check(device.call.CreatePipelineLayout(device.handle, &layout, nullptr, &state.layout),
               "vkCreatePipelineLayout");
}

inline void compile(pipeline_state& state, const spirv::module& kernel, VkShaderModule words) {
  device_state& device = *state.device;
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  subgroup.requiredSubgroupSize = kernel.subgroup_size;
  std::vector<VkSpecializationMapEntry> constants;
  for (std::uint32_t i = 0; i < kernel.specialization.size(); ++i) constants.push_back({i, i * 4, 4});
  const VkSpecializationInfo specialization{static_cast<std::uint32_t>(constants.size()), constants.data(),
                                            kernel.specialization.size() * 4, kernel.specialization.data()};
  // Kernels stay in bounds by construction, so the driver need not check for them.
  VkPipelineRobustnessCreateInfoEXT robustness{};
  robustness.sType = VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT;
  robustness.storageBuffers = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_DISABLED_EXT;
  robustness.uniformBuffers = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_DISABLED_EXT;
  robustness.vertexInputs = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_DISABLED_EXT;
  robustness.images = VK_PIPELINE_ROBUSTNESS_IMAGE_BEHAVIOR_DISABLED_EXT;
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  if (device.facts.has_pipeline_robustness) info.pNext = &robustness;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  // Where there is one size only, asking for it gains nothing and brings a limit on the workgroup with it.
  const bool choice = device.facts.min_subgroup_size != device.facts.max_subgroup_size;
  if (kernel.subgroup_size != 0 && choice && device.facts.has_subgroup_size_control) info.stage.pNext = &subgroup;
  if (kernel.subgroup_size != 0) info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = words;
  info.stage.pName = "main";
  if (!constants.empty()) info.stage.pSpecializationInfo = &specialization;
  info.layout = state.layout;
  device.check(
      device.call.CreateComputePipelines(device.handle, device.pipeline_cache, 1, &info, nullptr, &state.handle),
      "vkCreateComputePipelines");
}

MEGANEURA_INLINE std::shared_ptr<pipeline_state> create_pipeline(const std::shared_ptr<device_state>& device,
                                                                 const spirv::module& kernel) {
  auto state = std::make_shared<pipeline_state>(device);
  state->name = kernel.name;
  state->bindings = kernel.bindings;
  create_layouts(*state);
  const VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0,
                                      kernel.words.size() * sizeof(std::uint32_t), kernel.words.data()};
  VkShaderModule words = VK_NULL_HANDLE;
  device->check(device->call.CreateShaderModule(device->handle, &info, nullptr, &words), "vkCreateShaderModule");
  try {
    compile(*state, kernel, words);
  } catch (...) {
    device->call.DestroyShaderModule(device->handle, words, nullptr);
    throw;
  }
  device->call.DestroyShaderModule(device->handle, words, nullptr);
  ++device->pipelines;
  device->cache_is_newer = true;
  return state;
}

MEGANEURA_INLINE std::vector<pipeline> create_pipelines(const std::shared_ptr<device_state>& device,
                                                        std::span<const spirv::module> kernels) {
  device->require_alive();
  if (kernels.empty()) return {};
  for (const spirv::module& kernel : kernels) {
    const std::string reason = reason_to_refuse(device->facts, kernel);
    if (reason.empty()) continue;
    fail(error_category::unsupported, "kernel \"{}\" cannot run on {}: {}; generate it for this device's facts",
         kernel.name, device->facts.name, reason);
  }
  std::vector<pipeline> made(kernels.size());
  const auto work = [&](std::size_t i) { made[i] = pipeline(create_pipeline(device, kernels[i])); };
  if (!meganeura::detail::run_in_parallel(kernels.size(), device->threads, work)) {
    write_log(device->owner->log(), log_level::warning,
              "no further thread could be started to compile {} kernels; fewer threads went on", kernels.size());
  }
  return made;
}

// --- the cache on disk ----------------------------------------------------------------------------------------------

/// What precedes the driver's bytes in the file. The driver checks little of its own data, so nothing unverified may
/// reach it.
struct cache_header {
  std::array<char, 8> magic{'m', 'e', 'g', 'a', 'p', 'i', 'p', 'e'};
  std::uint32_t version = 1;
  std::uint32_t driver_version = 0;
  uuid device_uuid{}, driver_uuid{}, pipeline_cache_uuid{};
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
  [[nodiscard]] bool operator==(const cache_header&) const = default;
};
static_assert(sizeof(cache_header) == 80, "written to disk as it is: no padding");

/// FNV-1a with 64 bits: it guards against damage, not against malice.
inline std::uint64_t checksum(std::span<const std::byte> data) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::byte item : data) hash = (hash ^ static_cast<std::uint64_t>(item)) * 0x100000001b3ULL;
  return hash;
}

inline cache_header make_header(const device_facts& facts) {
  cache_header header;
  header.driver_version = facts.driver_version;
  header.device_uuid = facts.device_uuid;
  header.driver_uuid = facts.driver_uuid;
  header.pipeline_cache_uuid = facts.pipeline_cache_uuid;
  return header;
}

/// Far more than drivers fill for a process's kernels: what is larger is neither read nor written.
inline constexpr std::uint64_t most_cache_bytes = std::uint64_t{256} << 20;

/// Whether a header that begins a file of `file_bytes` is of this device and driver and tells the truth about the size.
inline bool believable(const cache_header& header, std::uint64_t file_bytes, const device_facts& facts) {
  cache_header expected = make_header(facts);
  expected.bytes = file_bytes - sizeof header;
  expected.checksum = header.checksum;  // of what has not been read yet
  return header == expected && header.bytes <= most_cache_bytes;
}

MEGANEURA_INLINE std::vector<std::byte> unpack_cache(std::span<const std::byte> file, const device_facts& facts) {
  if (file.size() < sizeof(cache_header)) return {};
  cache_header header;
  std::memcpy(&header, file.data(), sizeof header);
  const std::span<const std::byte> data = file.subspan(sizeof header);
  if (!believable(header, file.size(), facts) || header.checksum != checksum(data)) return {};
  return {data.begin(), data.end()};
}

MEGANEURA_INLINE std::vector<std::byte> read_cache(const std::string& path, const device_facts& facts) {
  const io::file_reader file(path);
  cache_header header;
  if (file.size() < sizeof header) return {};
  file.read(0, std::as_writable_bytes(std::span(&header, 1)));
  if (!believable(header, file.size(), facts)) return {};
  auto data = allocate_for<std::byte>(path, header.bytes);
  file.read(sizeof header, data);
  if (header.checksum != checksum(data)) return {};
  return data;
}

MEGANEURA_INLINE std::vector<std::byte> pack_cache(std::span<const std::byte> data, const device_facts& facts) {
  cache_header header = make_header(facts);
  header.bytes = data.size();
  header.checksum = checksum(data);
  std::vector<std::byte> file(sizeof header + data.size());
  std::memcpy(file.data(), &header, sizeof header);
  std::copy(data.begin(), data.end(), file.begin() + sizeof header);
  return file;
}

MEGANEURA_INLINE std::filesystem::path cache_path(const device_facts& facts, const std::string& directory) {
  io::check_path(directory);
  const std::filesystem::path folder = directory.empty() ? io::user_cache_folder() : std::filesystem::path(directory);
  if (folder.empty()) return {};
  std::string name = "pipelines-";
  for (const std::uint8_t byte : facts.device_uuid) name += fmt::format("{:02x}", byte);
  name += '-';
  for (const std::uint8_t byte : facts.driver_uuid) name += fmt::format("{:02x}", byte);
  return folder / (name + ".bin");
}

/// The driver's bytes, or none with a word to the log: a cache is never a reason not to open a device.
inline std::vector<std::byte> read_cache_quietly(device_state& device) {
  std::string why = "it is damaged or of another driver";
  device.cache_origin = pipeline_cache_origin::rejected;
  try {
    std::vector<std::byte> data = read_cache(device.cache_file.string(), device.facts);
    if (!data.empty()) device.cache_origin = pipeline_cache_origin::loaded;
    if (!data.empty()) return data;
  } catch (const error& problem) {
    why = problem.what();
  }
  write_log(device.owner->log(), log_level::warning, "the pipeline cache {} is ignored and will be written anew: {}",
            shown_path(device.cache_file.string()), why);
  return {};
}

MEGANEURA_INLINE void open_pipeline_cache(device_state& device) {
  std::vector<std::byte> data;
  device.cache_origin = pipeline_cache_origin::off;
  if (!device.cache_file.empty()) {
    std::error_code unknown;
    if (!std::filesystem::exists(device.cache_file, unknown) && !unknown) {
      device.cache_origin = pipeline_cache_origin::absent;
    } else {
      data = read_cache_quietly(device);
    }
  }
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  device.check(device.call.CreatePipelineCache(device.handle, &info, nullptr, &device.pipeline_cache),
               "vkCreatePipelineCache");
}

inline void write_pipeline_cache(device_state& device) {
  std::size_t size = 0;
  device.check(device.call.GetPipelineCacheData(device.handle, device.pipeline_cache, &size, nullptr),
               "vkGetPipelineCacheData");
  std::vector<std::byte> data(size);
  device.check(device.call.GetPipelineCacheData(device.handle, device.pipeline_cache, &size, data.data()),
               "vkGetPipelineCacheData");
  data.resize(size);
  if (size > most_cache_bytes) return;  // it would not be read
  std::error_code problem;              // one of the folder shows when the file is written
  std::filesystem::create_directories(device.cache_file.parent_path(), problem);
  const std::vector<std::byte> packed = pack_cache(data, device.facts);
  const std::span<const std::byte> pieces[] = {packed};
  io::write_file(device.cache_file.string(), pieces);
}

MEGANEURA_INLINE void save_pipeline_cache(device_state& device) {
  // Cleared before the driver is asked, so that a pipeline made meanwhile is saved the next time.
  if (device.cache_file.empty() || device.lost || !device.cache_is_newer.exchange(false)) return;
  try {
    write_pipeline_cache(device);
  } catch (...) {
    device.cache_is_newer = true;
    throw;
  }
}

MEGANEURA_INLINE void save_pipeline_cache_quietly(device_state& device) noexcept {
  try {
    save_pipeline_cache(device);
  } catch (const std::exception& problem) {
    device.log_quietly(log_level::warning, problem.what());
  }
}

}  // namespace detail
}  // namespace meganeura::inline MEGANEURA_ABI::vulkan
