// SPDX-License-Identifier: MIT
// Checking commands as they come, and writing them into one command buffer at the end.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/vulkan/recording.hpp>
#include <meganeura/vulkan/recording_state.hpp>

#include <algorithm>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

namespace detail {

inline void check_owner(const device_state& expected, const std::shared_ptr<device_state>& found, const char* what) {
  if (found.get() == &expected) return;
  fail(error_category::invalid_argument,
       "{} belongs to device {} and the recording to another device object, {}; use "
       "objects of one device together",
       what, found->facts.name, expected.facts.name);
}

inline buffer_range check_binding(const device_state& device, const buffer_range& asked, spirv::binding_kind kind,
                                  std::string_view label) {
  const std::string what = fmt::format("a binding of \"{}\"", label);
  buffer_range range = resolve(asked, what.c_str());
  check_owner(device, range.buffer.state()->device, what.c_str());
  const device_facts& facts = device.facts;
  const bool texels = kind == spirv::binding_kind::uniform_texel_buffer;
  const bool uniform = kind == spirv::binding_kind::uniform_buffer;
  const bool address = kind == spirv::binding_kind::address;
  const std::uint64_t alignment = texels    ? facts.texel_alignment
                                  : uniform ? facts.uniform_alignment
                                  : address ? widest_load
                                            : facts.storage_alignment;
  if (range.offset % alignment != 0) {
    fail(error_category::invalid_argument, "{} starts at byte {} and {} needs multiples of {}", what, range.offset,
         facts.name, alignment);
  }
  if (address && range.buffer.state()->memory.address == 0) {
    fail(
        error_category::invalid_argument,
        "{} is by address and its buffer of {} bytes has none; those of more than {} bytes have, which a descriptor of "
        "{} covers at most",
        what, range.buffer.bytes(), facts.max_storage_range, facts.name);
  }
  if (texels && range.size % texel_bytes != 0) {
    fail(error_category::invalid_argument, "{} is a texel buffer of {} bytes; its size has to be a multiple of {}",
         what, range.size, texel_bytes);
  }
  if (const std::string reason = reason_to_refuse(facts, kind, range.size); !reason.empty())
    fail(error_category::unsupported, "{} cannot be made: {}; use a smaller batch, or split the tensor", what, reason);
  return range;
}

inline void check_groups(const device_state& device, const std::array<std::uint32_t, 3>& groups,
                         std::string_view label) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (groups[axis] == 0) {
      fail(error_category::invalid_argument, "\"{}\" is launched with no workgroup on axis {}; leave it out", label,
           axis);
    }
  }
  if (const std::string reason = reason_to_refuse(device.facts, groups); !reason.empty())
    fail(error_category::unsupported, "\"{}\" cannot run: {}; fold the grid", label, reason);
}

}  // namespace detail

MEGANEURA_INLINE void recorder::dispatch(const pipeline& kernel, std::span<const buffer_range> bindings,
                                         std::array<std::uint32_t, 3> groups, std::string_view label) try {
  if (!kernel) fail(error_category::invalid_argument, "an empty pipeline handle was dispatched");
  const detail::pipeline_state& state = *kernel.state();
  detail::check_owner(*commands_->device, state.device, "a pipeline");
  detail::dispatch_command item{kernel, {}, groups, std::string(label.empty() ? state.name : label)};
  if (bindings.size() != state.bindings.size()) {
    fail(error_category::invalid_argument, "\"{}\" was given {} bindings and kernel \"{}\" has {}", item.label,
         bindings.size(), state.name, state.bindings.size());
  }
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    item.bindings.push_back(detail::check_binding(*commands_->device, bindings[i], state.bindings[i], item.label));
  }
  detail::check_groups(*commands_->device, groups, item.label);
  commands_->commands.emplace_back(std::move(item));
} catch (...) {
  rethrow_as_error("recording a dispatch");
}

MEGANEURA_INLINE void recorder::barrier() try {
  std::vector<detail::command>& list = commands_->commands;
  // The recording starts with one, and two in a row do what one does.
  if (list.empty() || std::holds_alternative<detail::barrier_command>(list.back())) return;
  list.emplace_back(detail::barrier_command{});
} catch (...) {
  rethrow_as_error("recording a barrier");
}

MEGANEURA_INLINE void recorder::copy(const buffer_range& source, const buffer_range& target) try {
  detail::copy_command item{detail::resolve(source, "the source of a copy"),
                            detail::resolve(target, "the target of a copy")};
  detail::check_owner(*commands_->device, item.source.buffer.state()->device, "the source of a copy");
  detail::check_owner(*commands_->device, item.target.buffer.state()->device, "the target of a copy");
  const std::uint64_t size = std::min(item.source.size, item.target.size);
  item.source.size = size;
  item.target.size = size;
  const bool same = item.source.buffer == item.target.buffer;
  if (same && item.source.offset < item.target.offset + size && item.target.offset < item.source.offset + size) {
    fail(error_category::invalid_argument, "a copy of {} bytes from {} to {} of one buffer overlaps itself", size,
         item.source.offset, item.target.offset);
  }
  commands_->commands.emplace_back(std::move(item));
} catch (...) {
  rethrow_as_error("recording a copy");
}

MEGANEURA_INLINE void recorder::fill(const buffer_range& target, std::uint32_t word) try {
  detail::fill_command item{detail::resolve(target, "a fill"), word};
  detail::check_owner(*commands_->device, item.target.buffer.state()->device, "the target of a fill");
  if (item.target.offset % 4 != 0 || item.target.size % 4 != 0) {
    fail(error_category::invalid_argument, "a fill covers {} bytes at offset {}; both have to be multiples of 4",
         item.target.size, item.target.offset);
  }
  commands_->commands.emplace_back(std::move(item));
} catch (...) {
  rethrow_as_error("recording a fill");
}

MEGANEURA_INLINE recording recorder::finish() try {
  commands_->device->require_alive();
  recording result(detail::recording_writer(*commands_).write());
  commands_->commands.clear();
  return result;
} catch (...) {
  rethrow_as_error("finishing a recording");
}

MEGANEURA_INLINE std::size_t recording::dispatch_count() const {
  return state_ == nullptr ? 0 : state_->dispatches.size();
}

namespace detail {

inline std::vector<std::uint64_t> dispatch_ticks(const recording_state* state) {
  if (state == nullptr || !state->measured.timestamps || state->dispatches.empty() || state->used == 0) {
    fail(error_category::invalid_argument,
         "timings were asked of a recording that has none; record with recording_options::timestamps, dispatch "
         "something and submit it first");
  }
  return state->read_ticks(0, 2 * state->dispatches.size());
}

}  // namespace detail

MEGANEURA_INLINE std::vector<timing> recording::timings() const try {
  const std::vector<std::uint64_t> ticks = detail::dispatch_ticks(state_.get());
  const detail::tick_length unit(state_->device->facts);
  std::vector<timing> result;
  for (std::size_t i = 0; i < state_->dispatches.size(); ++i) {
    const detail::dispatch_command& launch = *state_->dispatches[i];
    result.push_back({launch.label, launch.kernel.state()->name, unit.nanoseconds(ticks[0], ticks[2 * i]),
                      unit.nanoseconds(ticks[2 * i], ticks[2 * i + 1])});
  }
  return result;
} catch (...) {
  rethrow_as_error("reading timings");
}

MEGANEURA_INLINE std::int64_t recording::begin_on_host(const host_interval& seen) const try {
  const std::vector<std::uint64_t> ticks = detail::dispatch_ticks(state_.get());
  detail::device_state& device = *state_->device;
  return device.clock.begin_on_host(detail::tick_length(device.facts), {ticks.front(), ticks.back()}, seen,
                                    device.clock_sample());
} catch (...) {
  rethrow_as_error("placing timings on the host's clock");
}

MEGANEURA_INLINE std::vector<double> recording::group_times() const try {
  if (state_ == nullptr || !state_->measured.group_timestamps || state_->used == 0) {
    fail(error_category::invalid_argument,
         "times of groups were asked of a recording that has none; record with recording_options::group_timestamps and "
         "submit it first");
  }
  const std::vector<std::uint64_t> ticks = state_->read_ticks(state_->groups_begin, state_->group_queries);
  const detail::tick_length unit(state_->device->facts);
  std::vector<double> result;
  for (std::size_t i = 1; i < ticks.size(); ++i) result.push_back(unit.nanoseconds(ticks[i - 1], ticks[i]));
  return result;
} catch (...) {
  rethrow_as_error("reading times of groups");
}

MEGANEURA_INLINE double recording::duration() const try {
  if (state_ == nullptr || !state_->measured.duration || state_->used == 0) {
    fail(error_category::invalid_argument,
         "the duration was asked of a recording that has none; record with recording_options::duration and submit it "
         "first");
  }
  const std::vector<std::uint64_t> ticks = state_->read_ticks(state_->groups_begin + state_->group_queries, 2);
  return detail::tick_length(state_->device->facts).nanoseconds(ticks[0], ticks[1]);
} catch (...) {
  rethrow_as_error("reading a duration");
}

namespace detail {

MEGANEURA_INLINE recording_state::~recording_state() {
  device->wait_quietly(used);
  const device_functions& call = device->call;
  for (const VkBufferView view : views) call.DestroyBufferView(device->handle, view, nullptr);
  call.DestroyQueryPool(device->handle, queries, nullptr);
  call.DestroyDescriptorPool(device->handle, descriptors, nullptr);
  call.DestroyCommandPool(device->handle, pool, nullptr);
}

MEGANEURA_INLINE std::vector<std::uint64_t> recording_state::read_ticks(std::size_t first, std::size_t count) const {
  device->wait(used);
  std::vector<std::uint64_t> ticks(count);
  device->check(
      device->call.GetQueryPoolResults(device->handle, queries, static_cast<std::uint32_t>(first),
                                       static_cast<std::uint32_t>(count), count * sizeof(std::uint64_t), ticks.data(),
                                       sizeof(std::uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
      "vkGetQueryPoolResults");
  return ticks;
}

MEGANEURA_INLINE recording_writer::recording_writer(command_list& list)
    : list_(list), device_(*list.device), state_(std::make_shared<recording_state>(list.device)) {
  state_->measured = list.options;
}

MEGANEURA_INLINE void recording_writer::create_descriptor_pool() {
  std::uint32_t dispatches = 0, sets = 0, barriers = 0;
  std::vector<VkDescriptorPoolSize> sizes;  // an empty kind may not be listed
  const auto count = [&](VkDescriptorType type) {
    for (VkDescriptorPoolSize& size : sizes) {
      if (size.type == type) return static_cast<void>(++size.descriptorCount);
    }
    sizes.push_back({type, 1});
  };
  for (const command& item : state_->commands) {
    if (std::holds_alternative<barrier_command>(item)) ++barriers;
    const auto* launch = std::get_if<dispatch_command>(&item);
    if (launch == nullptr) continue;
    ++dispatches;
    if (launch->kernel.state()->pushes_descriptors || launch->kernel.state()->descriptors == 0) continue;
    ++sets;
    for (const spirv::binding_kind kind : launch->kernel.state()->bindings) {
      if (kind != spirv::binding_kind::address) count(descriptor_type(kind));
    }
  }
  VkDescriptorPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  pool.maxSets = sets;
  pool.poolSizeCount = static_cast<std::uint32_t>(sizes.size());
  pool.pPoolSizes = sizes.data();
  if (sets != 0) {
    device_.check(device_.call.CreateDescriptorPool(device_.handle, &pool, nullptr, &state_->descriptors),
                  "vkCreateDescriptorPool");
  }
  if (list_.options.timestamps) state_->groups_begin = 2 * std::size_t{dispatches};
  if (list_.options.group_timestamps) state_->group_queries = 2 + barriers;
  query_count_ = static_cast<std::uint32_t>(state_->groups_begin + state_->group_queries);
  if (list_.options.duration) query_count_ += 2;
  if (query_count_ == 0) return;
  VkQueryPoolCreateInfo queries{};
  queries.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
  queries.queryCount = query_count_;
  device_.check(device_.call.CreateQueryPool(device_.handle, &queries, nullptr, &state_->queries), "vkCreateQueryPool");
}

// Bottom of pipe: it waits for what came before.
MEGANEURA_INLINE void recording_writer::write_timestamp(std::size_t query) {
  device_.call.CmdWriteTimestamp(state_->handle, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, state_->queries,
                                 static_cast<std::uint32_t>(query));
}

MEGANEURA_INLINE void recording_writer::write_group_timestamp() {
  if (list_.options.group_timestamps) write_timestamp(state_->groups_begin + groups_ended_++);
}

MEGANEURA_INLINE void recording_writer::create_command_buffer() {
  VkCommandPoolCreateInfo commands{};
  commands.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  commands.queueFamilyIndex = device_.queue_family;
  device_.check(device_.call.CreateCommandPool(device_.handle, &commands, nullptr, &state_->pool),
                "vkCreateCommandPool");
  const VkCommandBufferAllocateInfo one{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, state_->pool,
                                        VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  device_.check(device_.call.AllocateCommandBuffers(device_.handle, &one, &state_->handle), "vkAllocateCommandBuffers");
}

/// Whether a command may write memory the host has mapped; a binding counts, whatever the kernel does with it.
inline bool reaches_host(const command& item) {
  const auto is_mapped = [](const buffer_range& range) { return range.buffer.state()->memory.mapped != nullptr; };
  if (const auto* launch = std::get_if<dispatch_command>(&item)) {
    return std::any_of(launch->bindings.begin(), launch->bindings.end(), is_mapped);
  }
  if (const auto* copied = std::get_if<copy_command>(&item)) return is_mapped(copied->target);
  const auto* filled = std::get_if<fill_command>(&item);
  return filled != nullptr && is_mapped(filled->target);
}

inline memory_scope scope_of(const command& item) {
  if (std::holds_alternative<barrier_command>(item)) return {};
  const auto* launch = std::get_if<dispatch_command>(&item);
  if (launch == nullptr) return scope::transfer;
  memory_scope result{VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 0};
  for (const spirv::binding_kind kind : launch->kernel.state()->bindings)
    result |= kind == spirv::binding_kind::uniform_buffer ? scope::uniform : scope::storage;
  return result;
}

/// What the commands behind a barrier do, up to the next one.
inline memory_scope scope_behind(std::span<const command> commands) {
  memory_scope result;
  for (const command& item : commands) {
    if (std::holds_alternative<barrier_command>(item)) break;
    result |= scope_of(item);
  }
  return result;
}

MEGANEURA_INLINE std::shared_ptr<recording_state> recording_writer::write() {
  state_->commands = list_.commands;
  for (const command& item : state_->commands) all_ |= scope_of(item);
  create_descriptor_pool();
  create_command_buffer();
  // Simultaneous use: the same step is submitted again while its predecessor still runs.
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr,
                                       VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, nullptr};
  device_.check(device_.call.BeginCommandBuffer(state_->handle, &begin), "vkBeginCommandBuffer");
  // After whatever was submitted before, and for all that follows: later barriers tell of this recording alone.
  if (all_.stages != 0) add_barrier(device_.call, state_->handle, scope::any, all_);
  if (state_->queries != VK_NULL_HANDLE) {
    device_.call.CmdResetQueryPool(state_->handle, state_->queries, 0, query_count_);
  }
  if (list_.options.duration) write_timestamp(query_count_ - 2);
  write_group_timestamp();
  const std::span<const command> commands = state_->commands;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    rest_ = commands.subspan(i + 1);
    std::visit([this](const auto& one) { write(one); }, commands[i]);
    before_ |= scope_of(commands[i]);
  }
  write_group_timestamp();
  if (std::any_of(commands.begin(), commands.end(), reaches_host))
    add_barrier(device_.call, state_->handle, before_, scope::host);
  if (list_.options.duration) write_timestamp(query_count_ - 1);
  device_.check(device_.call.EndCommandBuffer(state_->handle), "vkEndCommandBuffer");
  ++device_.recordings;
  return std::move(state_);
}

MEGANEURA_INLINE VkBufferView recording_writer::view_of(const buffer_range& range) {
  const VkBuffer handle = range.buffer.state()->memory.handle;
  VkBufferView& view = views_[{handle, range.offset, range.size}];
  if (view != VK_NULL_HANDLE) return view;
  const VkBufferViewCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                    nullptr,
                                    0,
                                    handle,
                                    VK_FORMAT_R32G32B32A32_SFLOAT,
                                    range.offset,
                                    range.size};
  state_->views.push_back(VK_NULL_HANDLE);  // its place first: a view without one would never be destroyed
  device_.check(device_.call.CreateBufferView(device_.handle, &info, nullptr, &view), "vkCreateBufferView");
  state_->views.back() = view;
  return view;
}

// Descriptors in the command buffer are nearer to the device than those of a set of each dispatch: 1.4 % of a step of
// 1,273 dispatches on an H100.
MEGANEURA_INLINE void recording_writer::bind(const dispatch_command& item) {
  const pipeline_state& kernel = *item.kernel.state();
  if (kernel.descriptors == 0) return;
  VkDescriptorSet set = VK_NULL_HANDLE;
  if (!kernel.pushes_descriptors) {
    const VkDescriptorSetAllocateInfo request{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, nullptr,
                                              state_->descriptors, 1, &kernel.set_layout};
    device_.check(device_.call.AllocateDescriptorSets(device_.handle, &request, &set), "vkAllocateDescriptorSets");
  }
  std::vector<VkDescriptorBufferInfo> ranges(item.bindings.size());
  std::vector<VkBufferView> views(item.bindings.size());
  std::vector<VkWriteDescriptorSet> writes;
  for (std::size_t i = 0; i < item.bindings.size(); ++i) {
    if (kernel.bindings[i] == spirv::binding_kind::address) continue;
    const buffer_range& range = item.bindings[i];
    VkWriteDescriptorSet& write = writes.emplace_back();
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set;
    write.dstBinding = static_cast<std::uint32_t>(i);
    write.descriptorCount = 1;
    write.descriptorType = descriptor_type(kernel.bindings[i]);
    if (kernel.bindings[i] != spirv::binding_kind::uniform_texel_buffer) {
      ranges[i] = {range.buffer.state()->memory.handle, range.offset, range.size};
      write.pBufferInfo = &ranges[i];
    } else {
      views[i] = view_of(range);
      write.pTexelBufferView = &views[i];
    }
  }
  const auto count = static_cast<std::uint32_t>(writes.size());
  constexpr VkPipelineBindPoint point = VK_PIPELINE_BIND_POINT_COMPUTE;
  if (kernel.pushes_descriptors)
    return device_.call.CmdPushDescriptorSet(state_->handle, point, kernel.layout, 0, count, writes.data());
  device_.call.UpdateDescriptorSets(device_.handle, count, writes.data(), 0, nullptr);
  device_.call.CmdBindDescriptorSets(state_->handle, point, kernel.layout, 0, 1, &set, 0, nullptr);
}

MEGANEURA_INLINE void recording_writer::push_addresses(const dispatch_command& item) {
  const pipeline_state& kernel = *item.kernel.state();
  if (kernel.addresses == 0) return;
  std::vector<std::uint64_t> addresses;
  for (std::size_t i = 0; i < item.bindings.size(); ++i) {
    if (kernel.bindings[i] == spirv::binding_kind::address)
      addresses.push_back(item.bindings[i].buffer.state()->memory.address + item.bindings[i].offset);
  }
  device_.call.CmdPushConstants(state_->handle, kernel.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                kernel.addresses * static_cast<std::uint32_t>(address_bytes), addresses.data());
}

MEGANEURA_INLINE void recording_writer::write(const dispatch_command& item) {
  const pipeline_state& kernel = *item.kernel.state();
  const VkCommandBuffer commands = state_->handle;
  if (bound_ != kernel.handle) {
    device_.call.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.handle);
    bound_ = kernel.handle;
  }
  bind(item);
  push_addresses(item);
  const std::size_t query = 2 * state_->dispatches.size();
  if (list_.options.timestamps) {  // between barriers: the difference is this dispatch alone
    add_barrier(device_.call, commands, all_, all_);
    write_timestamp(query);
  }
  const instance_functions& debug = device_.owner->call;
  if (debug.CmdBeginDebugUtilsLabel != nullptr) {
    VkDebugUtilsLabelEXT label{};
    label.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT;
    label.pLabelName = item.label.c_str();
    debug.CmdBeginDebugUtilsLabel(commands, &label);
  }
  device_.call.CmdDispatch(commands, item.groups[0], item.groups[1], item.groups[2]);
  if (debug.CmdEndDebugUtilsLabel != nullptr) debug.CmdEndDebugUtilsLabel(commands);
  if (list_.options.timestamps) {
    write_timestamp(query + 1);
    add_barrier(device_.call, commands, all_, all_);
  }
  state_->dispatches.push_back(&item);
}

MEGANEURA_INLINE void recording_writer::write(const copy_command& item) {
  const VkBufferCopy region{item.source.offset, item.target.offset, item.source.size};
  device_.call.CmdCopyBuffer(state_->handle, item.source.buffer.state()->memory.handle,
                             item.target.buffer.state()->memory.handle, 1, &region);
}

MEGANEURA_INLINE void recording_writer::write(const fill_command& item) {
  device_.call.CmdFillBuffer(state_->handle, item.target.buffer.state()->memory.handle, item.target.offset,
                             item.target.size, item.word);
}

// From all that was written so far, not by the last commands alone: a kernel may read what a copy wrote two barriers
// ago.
MEGANEURA_INLINE void recording_writer::write(const barrier_command&) {
  write_group_timestamp();
  const memory_scope behind = scope_behind(rest_);
  if (before_.stages != 0 && behind.stages != 0) add_barrier(device_.call, state_->handle, before_, behind);
}

}  // namespace detail
}  // namespace meganeura::inline MEGANEURA_ABI::vulkan
