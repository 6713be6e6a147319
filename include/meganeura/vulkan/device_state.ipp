// SPDX-License-Identifier: MIT
// Opening a device, its memory, its one queue with its timeline, and asynchronous copies to and from the host.
#pragma once
#include <meganeura/vulkan/device_state.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::vulkan::detail {

MEGANEURA_INLINE void device_state::check(VkResult result, const char* what) {
  if (result == VK_ERROR_DEVICE_LOST) lost = true;
  require(result, what);
}

MEGANEURA_INLINE void device_state::require_alive() const {
  if (!lost) return;
  fail(error_category::device_lost, "device {} was lost earlier; its contents are gone, open the device anew",
       facts.name);
}

MEGANEURA_INLINE void device_state::open(std::shared_ptr<instance> owning_instance, VkPhysicalDevice chosen,
                                         device_facts found, std::uint64_t staging_bytes) {
  owner = std::move(owning_instance);
  physical = chosen;
  facts = std::move(found);
  queue_family = static_cast<std::uint32_t>(find_compute_family(*owner, physical));
  VkPhysicalDeviceMemoryProperties2 memory{};
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  owner->call.GetPhysicalDeviceMemoryProperties2(physical, &memory);
  memory_ = memory.memoryProperties;
  create_device(device_extensions(*owner, physical));
  call.GetDeviceQueue(handle, queue_family, 0, &queue_);
  create_transfer_objects(staging_bytes);
}

/// Keeps of the features on offer those that this folder or a module of the kernel language may need: 8- and 16-bit
/// numbers, subgroups, the memory model, cooperative matrices and addresses of buffers, and maintenance4 for buffers of
/// every size. Robust buffer access stays off: kernels are in bounds.
inline void select_features(const feature_chain& offered, feature_chain& chosen) {
  chosen.v11.storageBuffer16BitAccess = offered.v11.storageBuffer16BitAccess;
  chosen.v12.storageBuffer8BitAccess = offered.v12.storageBuffer8BitAccess;
  chosen.v12.shaderFloat16 = offered.v12.shaderFloat16;
  chosen.v12.shaderInt8 = offered.v12.shaderInt8;
  chosen.base.features.shaderInt16 = offered.base.features.shaderInt16;
  chosen.bfloat16.shaderBFloat16Type = offered.bfloat16.shaderBFloat16Type;
  chosen.bfloat16.shaderBFloat16CooperativeMatrix = offered.bfloat16.shaderBFloat16CooperativeMatrix;
  if (offered.has_workgroup_layout()) {
    chosen.workgroup_layout.workgroupMemoryExplicitLayout = VK_TRUE;
    chosen.workgroup_layout.workgroupMemoryExplicitLayout8BitAccess = VK_TRUE;
    chosen.workgroup_layout.workgroupMemoryExplicitLayout16BitAccess = VK_TRUE;
  }
  chosen.v12.vulkanMemoryModel = offered.v12.vulkanMemoryModel;
  chosen.v12.vulkanMemoryModelDeviceScope = offered.v12.vulkanMemoryModelDeviceScope;
  chosen.v12.bufferDeviceAddress = offered.v12.bufferDeviceAddress;
  chosen.v12.timelineSemaphore = offered.v12.timelineSemaphore;
  chosen.v12.shaderSubgroupExtendedTypes = offered.v12.shaderSubgroupExtendedTypes;
  chosen.v13.subgroupSizeControl = offered.v13.subgroupSizeControl;
  chosen.v13.computeFullSubgroups = offered.v13.computeFullSubgroups;
  chosen.subgroup_sizes.subgroupSizeControl = offered.subgroup_sizes.subgroupSizeControl;
  chosen.subgroup_sizes.computeFullSubgroups = offered.subgroup_sizes.computeFullSubgroups;
  chosen.v13.maintenance4 = offered.v13.maintenance4;
  chosen.robustness.pipelineRobustness = offered.robustness.pipelineRobustness;
  chosen.cooperative_matrix.cooperativeMatrix = offered.cooperative_matrix.cooperativeMatrix;
}

MEGANEURA_INLINE void device_state::create_device(const std::vector<std::string>& extensions) {
  std::vector<std::string> enabled;
  for (const char* name :
       {"VK_EXT_pipeline_robustness", "VK_KHR_cooperative_matrix", "VK_KHR_shader_bfloat16",
        "VK_KHR_workgroup_memory_explicit_layout", "VK_EXT_memory_budget", "VK_KHR_portability_subset"}) {
    if (contains(extensions, name)) enabled.emplace_back(name);
  }
  if (facts.api_version < VK_API_VERSION_1_3 && contains(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
    enabled.emplace_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  if (facts.max_push_descriptors != 0) enabled.emplace_back(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
  const char* calibration = trace && facts.has_calibrated_timestamps ? calibration_extension(extensions) : nullptr;
  if (calibration != nullptr) enabled.emplace_back(calibration);
  std::vector<const char*> names;
  for (const std::string& name : enabled) names.push_back(name.c_str());

  feature_chain offered;
  feature_chain chosen;
  offered.link(facts.api_version, enabled);
  chosen.link(facts.api_version, enabled);
  owner->call.GetPhysicalDeviceFeatures2(physical, &offered.base);
  select_features(offered, chosen);
  constexpr float priority = 1.0F;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &chosen.base;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<std::uint32_t>(names.size());
  info.ppEnabledExtensionNames = names.data();
  check(owner->call.CreateDevice(physical, &info, nullptr, &handle), "vkCreateDevice");
  // First of all what closes it again, should anything below fail.
  call.DestroyDevice = reinterpret_cast<PFN_vkDestroyDevice>(owner->call.GetDeviceProcAddr(handle, "vkDestroyDevice"));
  keep_driver_loaded();  // again: some of its libraries are opened only now
  visit_functions(call, [this](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(owner->call.GetDeviceProcAddr(handle, name));
    if (function == nullptr) {
      fail(error_category::unsupported, "the driver of {} lacks {}; Vulkan 1.2 is needed", facts.name, name);
    }
  });
  if (facts.max_push_descriptors != 0) {
    call.CmdPushDescriptorSet = reinterpret_cast<PFN_vkCmdPushDescriptorSetKHR>(
        owner->call.GetDeviceProcAddr(handle, "vkCmdPushDescriptorSetKHR"));
  }
  if (calibration == nullptr) return;
  for (const char* name : {"vkGetCalibratedTimestampsEXT", "vkGetCalibratedTimestampsKHR"}) {
    if (call.GetCalibratedTimestamps != nullptr) break;
    call.GetCalibratedTimestamps =
        reinterpret_cast<PFN_vkGetCalibratedTimestampsEXT>(owner->call.GetDeviceProcAddr(handle, name));
  }
}

MEGANEURA_INLINE std::optional<clock_moment> device_state::clock_sample() {
  if (call.GetCalibratedTimestamps == nullptr) return {};
  std::array<VkCalibratedTimestampInfoEXT, 2> domains{};
  for (VkCalibratedTimestampInfoEXT& each : domains) each.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT;
  domains[0].timeDomain = VK_TIME_DOMAIN_DEVICE_EXT;
  domains[1].timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
  clock_moment best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();  // nanoseconds between the two readings, at most
  for (int i = 0; i < 8 && least > 5'000; ++i) {
    std::array<std::uint64_t, 2> now{};
    std::uint64_t deviation = 0;
    check(call.GetCalibratedTimestamps(handle, 2, domains.data(), now.data(), &deviation), "vkGetCalibratedTimestamps");
    if (i > 0 && deviation >= least) continue;
    best = {now[0], static_cast<std::int64_t>(now[1])}, least = deviation;
  }
  return best;
}

MEGANEURA_INLINE void device_state::create_transfer_objects(std::uint64_t staging_bytes) {
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, nullptr, VK_SEMAPHORE_TYPE_TIMELINE, 0};
  const VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
  check(call.CreateSemaphore(handle, &semaphore, nullptr, &timeline_), "vkCreateSemaphore");
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool.queueFamilyIndex = queue_family;
  check(call.CreateCommandPool(handle, &pool, nullptr, &transfer_pool_), "vkCreateCommandPool");
  // A quarter of the ring is one chunk, so that the host fills one while the device drains another.
  constexpr std::uint64_t smallest = 4096;
  const std::uint64_t ring = std::min(std::max(staging_bytes, smallest), facts.max_buffer_bytes / 64 * 64);
  staging_ = create_buffer(ring, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, memory_use::staging);
}

MEGANEURA_INLINE device_state::~device_state() {
  if (handle == VK_NULL_HANDLE || call.DestroyDevice == nullptr) return;
  if (queue_ != VK_NULL_HANDLE) {  // else opening failed before there was anything else
    // A lost device may never become idle; destroying its objects is allowed all the same (Vulkan 5.2.3).
    if (!lost) call.DeviceWaitIdle(handle);
    if (before_close != nullptr) before_close(*this);
    for (std::unique_ptr<read_back_slot>& slot : free_slots_) destroy_buffer(slot->buffer);
    destroy_buffer(staging_);
    call.DestroyCommandPool(handle, transfer_pool_, nullptr);
    call.DestroySemaphore(handle, timeline_, nullptr);
    call.DestroyPipelineCache(handle, pipeline_cache, nullptr);
  }
  call.DestroyDevice(handle, nullptr);
}

// --- memory ---------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE std::vector<std::uint32_t> memory_types(const VkPhysicalDeviceMemoryProperties& memory,
                                                         std::uint32_t allowed, memory_use use) {
  constexpr VkMemoryPropertyFlags device = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  std::array<VkMemoryPropertyFlags, 2> wishes{device, device};
  if (use == memory_use::mapped) wishes = {device | host, host};
  if (use == memory_use::staging) wishes = {host, host};
  if (use == memory_use::read_back) wishes = {host | cached, host};
  std::vector<std::uint32_t> found;
  for (const VkMemoryPropertyFlags wish : wishes) {
    int fewest_extras = std::numeric_limits<int>::max();
    std::uint32_t best = 0;
    for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
      const bool known = (flags & ~(device | host | cached)) == 0;  // neither lazy, protected nor vendor-coherent
      if ((allowed & (1U << i)) == 0 || (flags & wish) != wish || !known) continue;
      const int extras = std::popcount(flags & ~wish);
      if (extras >= fewest_extras) continue;
      fewest_extras = extras;
      best = i;
    }
    const bool any = fewest_extras != std::numeric_limits<int>::max();
    if (any && std::find(found.begin(), found.end(), best) == found.end()) found.push_back(best);
  }
  return found;
}

MEGANEURA_INLINE std::uint64_t device_state::room_in(std::uint32_t heap) const {
  const std::uint64_t size = memory_.memoryHeaps[heap].size;
  if (!facts.has_memory_budget) return size;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 memory{};
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  memory.pNext = &budget;
  owner->call.GetPhysicalDeviceMemoryProperties2(physical, &memory);
  const std::uint64_t limit = budget.heapBudget[heap];
  const std::uint64_t used = budget.heapUsage[heap];
  return std::min(size, limit > used ? limit - used : 0);
}

/// Takes the first memory type whose heap has room and gives it: the window through which the host sees device memory
/// may be small and full, and then plain host memory does as well.
MEGANEURA_INLINE void device_state::allocate_memory(raw_buffer& buffer, VkBufferUsageFlags usage, memory_use use) {
  VkMemoryRequirements needs{};
  call.GetBufferMemoryRequirements(handle, buffer.handle, &needs);
  const VkMemoryAllocateFlagsInfo addressed{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, nullptr,
                                            VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, 0};
  const bool has_address = (usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) != 0;
  std::string refused;
  for (const std::uint32_t type : memory_types(memory_, needs.memoryTypeBits, use)) {
    const std::uint32_t heap = memory_.memoryTypes[type].heapIndex;
    const std::uint64_t room = room_in(heap), size = memory_.memoryHeaps[heap].size;
    if (needs.size > room) {
      refused = fmt::format("heap {} has room for {} of its {}", heap, room, size);
      continue;
    }
    const VkMemoryAllocateInfo request{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, has_address ? &addressed : nullptr,
                                       needs.size, type};
    const VkResult result = call.AllocateMemory(handle, &request, nullptr, &buffer.memory);
    if (result == VK_SUCCESS) {
      const bool is_near = (memory_.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
      buffer.is_device_local = is_near && (use == memory_use::device_local || facts.has_mapped_device_memory);
      buffer.counted_bytes = use == memory_use::device_local || use == memory_use::mapped ? needs.size : 0;
      allocated_bytes += buffer.counted_bytes;
      return static_cast<void>(++allocations);
    }
    buffer.memory = VK_NULL_HANDLE;
    if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY && result != VK_ERROR_OUT_OF_HOST_MEMORY)
      check(result, "vkAllocateMemory");
    refused = fmt::format("heap {} of {} bytes refused them with {}", heap, size, result_name(result));
  }
  if (refused.empty()) {
    fail(error_category::unsupported, "device {} has no memory type for this buffer; its driver breaks Vulkan's rules",
         facts.name);
  }
  fail(error_category::out_of_memory, "{} bytes were asked of {} and {}; use a smaller batch or model", needs.size,
       facts.name, refused);
}

MEGANEURA_INLINE raw_buffer device_state::create_buffer(std::uint64_t bytes, VkBufferUsageFlags usage, memory_use use) {
  if (bytes > facts.max_buffer_bytes) {
    fail(error_category::out_of_memory, "{} bytes were asked in one buffer and {} allows {}; split the allocation",
         bytes, facts.name, facts.max_buffer_bytes);
  }
  if (++live_allocations > facts.max_allocations) {
    --live_allocations;
    fail(error_category::out_of_memory,
         "a buffer was asked of {}, which allows {} allocations at a time; close sessions that are done", facts.name,
         facts.max_allocations);
  }
  raw_buffer result;
  result.bytes = bytes;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = usage;
  try {
    check(call.CreateBuffer(handle, &info, nullptr, &result.handle), "vkCreateBuffer");
    allocate_memory(result, usage, use);
    check(call.BindBufferMemory(handle, result.handle, result.memory, 0), "vkBindBufferMemory");
    if ((usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) != 0) {
      const VkBufferDeviceAddressInfo of{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr, result.handle};
      result.address = call.GetBufferDeviceAddress(handle, &of);
    }
    if (use == memory_use::device_local) return result;
    void* address = nullptr;
    check(call.MapMemory(handle, result.memory, 0, VK_WHOLE_SIZE, 0, &address), "vkMapMemory");
    result.mapped = static_cast<std::byte*>(address);
    return result;
  } catch (...) {
    destroy_buffer(result);
    throw;
  }
}

MEGANEURA_INLINE void device_state::destroy_buffer(raw_buffer& buffer) {
  call.DestroyBuffer(handle, buffer.handle, nullptr);
  call.FreeMemory(handle, buffer.memory, nullptr);  // unmaps as well
  if (buffer.bytes != 0) --live_allocations;
  allocated_bytes -= buffer.counted_bytes;
  buffer = {};
}

// --- the queue ------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE std::uint64_t device_state::submit(VkCommandBuffer commands) {
  require_alive();
  const std::lock_guard lock(mutex_);
  return submit_locked(commands);
}

/// One vkQueueSubmit for the pending copies and the commands; each of the two has a timeline value of its own, so that
/// whoever waits for the copies does not wait for the commands.
MEGANEURA_INLINE std::uint64_t device_state::submit_locked(VkCommandBuffer commands) {
  close_batch();
  std::array<VkCommandBuffer, 2> buffers{};
  std::array<std::uint64_t, 2> values{};
  std::array<VkTimelineSemaphoreSubmitInfo, 2> timelines{};
  std::array<VkSubmitInfo, 2> infos{};
  std::uint32_t count = 0;
  for (const VkCommandBuffer item : {batch_, commands}) {
    if (item == VK_NULL_HANDLE) continue;
    buffers[count] = item;
    values[count] = submitted_ + count + 1;
    timelines[count].sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    timelines[count].signalSemaphoreValueCount = 1;
    timelines[count].pSignalSemaphoreValues = &values[count];
    infos[count].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    infos[count].pNext = &timelines[count];
    infos[count].commandBufferCount = 1;
    infos[count].pCommandBuffers = &buffers[count];
    infos[count].signalSemaphoreCount = 1;
    infos[count].pSignalSemaphores = &timeline_;
    ++count;
  }
  if (count == 0) return submitted_;
  retired_.reserve(retired_.size() + 1);  // now: once the queue has the work, the books must not fail
  staging_marks_.reserve(staging_marks_.size() + 1);
  check(call.QueueSubmit(queue_, count, infos.data(), VK_NULL_HANDLE), "vkQueueSubmit");
  ++submissions;
  if (batch_ != VK_NULL_HANDLE) {
    retired_.push_back({batch_, values[0]});
    if (staging_head_ != staging_marked_) staging_marks_.push_back({staging_head_, values[0]});
    staging_marked_ = staging_head_;
    batch_ = VK_NULL_HANDLE;
    batch_is_closed_ = false;
  }
  submitted_ += count;
  return submitted_;
}

MEGANEURA_INLINE void device_state::wait(std::uint64_t value) {
  require_alive();
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &value;
  const auto sleep = [&](std::chrono::nanoseconds most) {
    const VkResult result = call.WaitSemaphores(handle, &info, static_cast<std::uint64_t>(most.count()));
    check(result, "vkWaitSemaphores");
    return result == VK_SUCCESS;
  };
  const auto poll = [&](std::chrono::nanoseconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    do {
      if (completed() >= value) return true;
    } while (std::chrono::steady_clock::now() < until);
    return false;
  };
  const auto is_done = [&] {
    const std::chrono::nanoseconds polled = std::chrono::microseconds(poll_microseconds), last{last_wait_.load()};
    // Steps are alike: it may sleep through most of one, but not through its end.
    if (polled.count() != 0 && last > 2 * polled) return sleep(last - polled) || poll(2 * polled);
    return polled.count() != 0 && poll(polled);
  };
  if (poll_microseconds != 0 && completed() >= value) return;
  const auto begin = std::chrono::steady_clock::now();
  bool done = is_done();
  while (!done) {
    require_alive();  // in slices of a second, so that a loss noticed by another thread ends this wait too
    done = sleep(std::chrono::seconds(1));
  }
  last_wait_ = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

MEGANEURA_INLINE void device_state::wait_quietly(std::uint64_t value) noexcept {
  if (lost || value == 0) return;
  try {
    {
      // A copy of the open batch is not yet on its way: nobody else may submit anything, so do it here.
      const std::lock_guard lock(mutex_);
      if (value > submitted_) submit_locked(VK_NULL_HANDLE);
    }
    wait(value);
  } catch (const std::exception& problem) {
    log_quietly(log_level::error, problem.what());
    end_use_quietly(value);
  }
}

/// The wait was refused, and its caller destroys what the device may still use.
MEGANEURA_INLINE void device_state::end_use_quietly(std::uint64_t value) noexcept {
  if (lost) return;
  const std::lock_guard lock(mutex_);
  call.DeviceWaitIdle(handle);
  // Copies that could not be submitted name what is going away, and would be submitted with whatever comes next.
  if (value > submitted_) lost = true;
}

MEGANEURA_INLINE void device_state::log_quietly(log_level level, const char* text) noexcept {
  if (owner->log()) owner->log()(level, text);
}

MEGANEURA_INLINE std::uint64_t device_state::completed() {
  require_alive();
  std::uint64_t value = 0;
  check(call.GetSemaphoreCounterValue(handle, timeline_, &value), "vkGetSemaphoreCounterValue");
  // Some drivers report a loss by an absurd counter instead of a result.
  if (value == std::numeric_limits<std::uint64_t>::max()) check(VK_ERROR_DEVICE_LOST, "vkGetSemaphoreCounterValue");
  return value;
}

MEGANEURA_INLINE std::uint64_t device_state::submitted() {
  const std::lock_guard lock(mutex_);
  return submitted_;
}

// --- copies ---------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE void device_state::open_batch() {
  if (batch_is_closed_) submit_locked(VK_NULL_HANDLE);  // an earlier submission failed: its copies go first
  if (batch_ != VK_NULL_HANDLE) return;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  if (!retired_.empty() && retired_.front().value <= completed()) {
    commands = retired_.front().handle;
    retired_.erase(retired_.begin());
  } else {
    const VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, transfer_pool_,
                                           VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    check(call.AllocateCommandBuffers(handle, &info, &commands), "vkAllocateCommandBuffers");
  }
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr,
                                       VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, nullptr};
  check(call.BeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
  add_barrier(call, commands, scope::any, scope::transfer);  // which may still read or write what is copied now
  batch_ = commands;
  batch_reaches_host_ = false;
  batch_writes_.clear();
}

MEGANEURA_INLINE void device_state::close_batch() {
  if (batch_ == VK_NULL_HANDLE || batch_is_closed_) return;
  if (batch_reaches_host_) add_barrier(call, batch_, scope::transfer, scope::host);
  check(call.EndCommandBuffer(batch_), "vkEndCommandBuffer");
  batch_is_closed_ = true;
}

MEGANEURA_INLINE void device_state::copy_in_batch(VkBuffer source, VkBuffer target, const VkBufferCopy& region) {
  const auto collides = [&](const touched_range& write) {
    const bool reads =
        write.buffer == source && write.begin < region.srcOffset + region.size && region.srcOffset < write.end;
    const bool writes =
        write.buffer == target && write.begin < region.dstOffset + region.size && region.dstOffset < write.end;
    return reads || writes;
  };
  if (std::any_of(batch_writes_.begin(), batch_writes_.end(), collides)) {
    add_barrier(call, batch_, scope::transfer, scope::transfer);
    batch_writes_.clear();
  }
  batch_writes_.push_back({target, region.dstOffset, region.dstOffset + region.size});
  call.CmdCopyBuffer(batch_, source, target, 1, &region);
}

/// A position in the ring with `bytes` (at most a quarter of it) in one piece; waits for the oldest copies when full.
MEGANEURA_INLINE std::uint64_t device_state::reserve_staging(std::uint64_t bytes) {
  const std::uint64_t size = staging_.bytes;
  std::uint64_t begin = (staging_head_ + 15) / 16 * 16;
  if (begin % size + bytes > size) begin = (begin / size + 1) * size;
  while (begin + bytes - staging_tail_ > size) {
    if (staging_marks_.empty()) {
      if (batch_ == VK_NULL_HANDLE) {  // nothing in flight and nothing pending: the ring is empty
        staging_tail_ = begin;
        staging_marked_ = begin;
        break;
      }
      submit_locked(VK_NULL_HANDLE);
      if (staging_marks_.empty()) continue;
    }
    wait(staging_marks_.front().value);
    staging_tail_ = staging_marks_.front().end;
    staging_marks_.erase(staging_marks_.begin());
  }
  staging_head_ = begin + bytes;
  return begin % size;
}

MEGANEURA_INLINE void device_state::upload(VkBuffer target, last_use& used, std::uint64_t offset,
                                           std::span<const std::byte> bytes) {
  require_alive();
  const std::lock_guard lock(mutex_);
  const std::uint64_t chunk_bytes = staging_.bytes / 4;
  while (!bytes.empty()) {
    const std::uint64_t size = std::min<std::uint64_t>(bytes.size(), chunk_bytes);
    const std::uint64_t position = reserve_staging(size);
    std::memcpy(staging_.mapped + position, bytes.data(), size);
    open_batch();
    used.raise(pending_value());
    copy_in_batch(staging_.handle, target, {position, offset, size});
    bytes = bytes.subspan(size);
    offset += size;
    if (staging_head_ - staging_marked_ >= chunk_bytes) submit_locked(VK_NULL_HANDLE);
  }
}

MEGANEURA_INLINE std::unique_ptr<read_back_slot> device_state::take_slot(std::uint64_t bytes) {
  const std::uint64_t done = completed();
  std::size_t best = free_slots_.size();
  for (std::size_t i = 0; i < free_slots_.size(); ++i) {
    if (free_slots_[i]->buffer.bytes < bytes || free_slots_[i]->value > done) continue;
    if (best == free_slots_.size() || free_slots_[i]->buffer.bytes < free_slots_[best]->buffer.bytes) best = i;
  }
  if (best != free_slots_.size()) {
    std::unique_ptr<read_back_slot> slot = std::move(free_slots_[best]);
    free_slots_.erase(free_slots_.begin() + static_cast<std::ptrdiff_t>(best));
    return slot;
  }
  // One that holds more takes the place of all that were too small: what stays is what was in use at one time.
  slots_made_ -= std::erase_if(free_slots_, [&](const std::unique_ptr<read_back_slot>& each) {
    const bool idle = each->value <= done;
    if (idle) destroy_buffer(each->buffer);
    return idle;
  });
  auto slot = std::make_unique<read_back_slot>();
  constexpr std::uint64_t smallest = 4096;
  free_slots_.reserve(slots_made_ + 1);  // so that giving one back cannot fail
  slot->buffer =
      create_buffer(std::max(bytes, std::min(std::bit_ceil(std::max(bytes, smallest)), facts.max_buffer_bytes)),
                    VK_BUFFER_USAGE_TRANSFER_DST_BIT, memory_use::read_back);
  ++slots_made_;
  return slot;
}

MEGANEURA_INLINE std::unique_ptr<read_back_slot> device_state::read_back(VkBuffer source, last_use& used,
                                                                         std::uint64_t offset, std::uint64_t size) {
  require_alive();
  const std::lock_guard lock(mutex_);
  std::unique_ptr<read_back_slot> slot = take_slot(size);
  try {
    open_batch();
    slot->value = pending_value();
    used.raise(slot->value);
    copy_in_batch(source, slot->buffer.handle, {offset, 0, size});
    batch_reaches_host_ = true;
    submit_locked(VK_NULL_HANDLE);
  } catch (...) {
    free_slots_.push_back(std::move(slot));  // the copy into it may be on its way
    throw;
  }
  return slot;
}

MEGANEURA_INLINE void device_state::give_back(std::unique_ptr<read_back_slot> slot) noexcept {
  if (slot == nullptr) return;
  const std::lock_guard lock(mutex_);
  free_slots_.push_back(std::move(slot));
}

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan::detail
