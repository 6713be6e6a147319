// SPDX-License-Identifier: MIT
// The front door: arguments checked here, work done by the internal states.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/io/trace_file.hpp>
#include <meganeura/io/user_folder.hpp>
#include <meganeura/vulkan/buffer_state.hpp>
#include <meganeura/vulkan/device.hpp>
#include <meganeura/vulkan/device_state.hpp>
#include <meganeura/vulkan/pipeline_state.hpp>
#include <meganeura/vulkan/recording_state.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

namespace detail {

inline std::shared_ptr<instance> make_instance(const device_options& options) {
  return std::make_shared<instance>(options.validation || environment_switch("MEGANEURA_VALIDATION"), options.log);
}

inline std::vector<device_facts> all_facts(const instance& owner, const std::vector<VkPhysicalDevice>& physical) {
  std::vector<device_facts> found;
  for (const VkPhysicalDevice item : physical) {
    found.push_back(query_facts(owner, item, static_cast<std::uint32_t>(found.size())));
  }
  return found;
}

// Before the device is opened, which then has what a trace needs.
inline void open_trace(device_state& state, const device_options& options, const log_sink& log) {
  const std::string path = options.trace.empty() ? io::environment("MEGANEURA_TRACE") : options.trace;
  if (!path.empty()) state.trace = io::trace_file::open(path, options.trace_events, log);
}

inline void add_device_track(device_state& state, const log_sink& log) {
  if (!state.trace) return;
  const bool is_exact = state.call.GetCalibratedTimestamps != nullptr;
  const char* clock = state.facts.timestamp_bits == 0 ? ", which has no timestamps"
                      : is_exact                      ? ""
                                                      : ", times estimated";
  state.trace_track = state.trace->add_track(state.facts.name + clock, log);
  write_log(log, log_level::info, "a trace is written to {}; each dispatch runs alone, which takes longer",
            state.trace->path());
}

// Ranges, sizes and numbers of buffers may be less than any device's: what needs more is refused where it is met.
inline void check_at_most(const device_facts& most) {
  const device_facts least = minimum_facts();
  const auto refuse = [](const std::string& found) {
    fail(error_category::invalid_argument,
         "device_options::at_most has {}; begin with vulkan::minimum_facts() or with the facts of a device, and change "
         "what is to be less",
         found);
  };
  const auto check = [&](const std::string& name, std::uint64_t found, std::uint64_t needed) {
    if (found < needed) refuse(fmt::format("{} = {}, and kernels need {}", name, found, needed));
  };
  if (most.api_version < (1U << 22 | 1U << 12)) refuse("an api_version before 1.1");
  if (!most.has_timeline_semaphore) refuse("no timeline semaphores");
  check("max_shared_bytes", most.max_shared_bytes, least.max_shared_bytes);
  check("max_workgroup_invocations", most.max_workgroup_invocations, least.max_workgroup_invocations);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    check(fmt::format("max_workgroup_size[{}]", axis), most.max_workgroup_size[axis], least.max_workgroup_size[axis]);
    check(fmt::format("max_workgroup_count[{}]", axis), most.max_workgroup_count[axis],
          least.max_workgroup_count[axis]);
  }
  check("max_storage_buffers", most.max_storage_buffers, least.max_storage_buffers);
  check("max_texel_buffers", most.max_texel_buffers, least.max_texel_buffers);
  check("max_uniform_buffers", most.max_uniform_buffers, least.max_uniform_buffers);
  check("max_buffer_bytes", most.max_buffer_bytes, widest_load);
  check("max_allocations", most.max_allocations, 1);
  for (const std::uint64_t alignment : {most.storage_alignment, most.texel_alignment, most.uniform_alignment}) {
    if (!std::has_single_bit(alignment)) refuse(fmt::format("an alignment of {}, which is no power of two", alignment));
  }
}

inline void check_emulated_units(const std::optional<matrix_shape>& wanted, std::uint32_t subgroup_size) {
  if (!wanted || is_usable(*wanted, subgroup_size)) return;
  fail(error_category::invalid_argument,
       "matrix units of {}x{}x{} were to be emulated on subgroups of {}; kernels use units of 8, 16 or 32 each "
       "way, whose m n results are a multiple of the subgroup",
       wanted->m, wanted->n, wanted->k, subgroup_size);
}

}  // namespace detail

MEGANEURA_INLINE std::vector<device_facts> enumerate_devices(const device_options& options) try {
  const std::shared_ptr<detail::instance> owner = detail::make_instance(options);
  return detail::all_facts(*owner, owner->physical_devices());
} catch (...) {
  rethrow_as_error("listing the devices");
}

MEGANEURA_INLINE device::device(const device_options& options) try {
  std::shared_ptr<detail::instance> owner = detail::make_instance(options);
  const std::vector<VkPhysicalDevice> physical = owner->physical_devices();
  const std::vector<device_facts> found = detail::all_facts(*owner, physical);
  const char* environment = std::getenv("MEGANEURA_DEVICE");
  std::string wish = options.device;
  if (wish.empty() && environment != nullptr) wish = environment;
  const std::size_t chosen = choose_device(found, wish);
  write_log(owner->log(), log_level::info, "opening Vulkan device {} with {}", found[chosen].name,
            found[chosen].driver);

  state_ = std::make_shared<detail::device_state>();
  state_->rate_option = options.rates;
  state_->threads = options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  const bool is_software = found[chosen].type == device_type::cpu;  // which needs the processor itself
  state_->poll_microseconds = options.poll_microseconds.value_or(is_software ? 0 : 1000);
  if (options.at_most) detail::check_at_most(*options.at_most);
  device_facts facts = options.at_most ? weaker(found[chosen], *options.at_most) : found[chosen];
  detail::check_emulated_units(options.emulated_units, facts.subgroup_size);
  facts.emulated_units = options.emulated_units;
  const log_sink& log = owner->log();
  detail::open_trace(*state_, options, log);
  state_->open(owner, physical[chosen], std::move(facts), options.staging_bytes);
  detail::add_device_track(*state_, log);
  if (options.disk_cache) state_->cache_file = detail::cache_path(state_->facts, options.cache_directory);
  detail::open_pipeline_cache(*state_);
  state_->before_close = &detail::save_pipeline_cache_quietly;
} catch (...) {
  rethrow_as_error("opening a device");
}

MEGANEURA_INLINE const std::shared_ptr<detail::device_state>& device::state() const try {
  if (state_ == nullptr) {
    fail(error_category::invalid_argument, "this device was moved from; use what it was moved into, or copy devices");
  }
  return state_;
} catch (...) {
  rethrow_as_error("using a device");
}

MEGANEURA_INLINE const device_facts& device::facts() const { return state()->facts; }

MEGANEURA_INLINE buffer device::allocate(std::uint64_t bytes, memory_kind kind) const try {
  state()->require_alive();
  if (bytes == 0) fail(error_category::invalid_argument, "a buffer of 0 bytes was asked of {}", facts().name);
  VkBufferUsageFlags usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
                             VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                             VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  // Whole texels, so that any tail can be viewed as such; beyond the limit the message shall name what was asked.
  const std::uint64_t rounded = bytes > facts().max_buffer_bytes ? bytes : (bytes + 15) / 16 * 16;
  if (facts().has_device_address && rounded > facts().max_storage_range)  // it may hold what no descriptor covers
    usage |= VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  auto made = std::make_shared<detail::buffer_state>(state());
  made->memory = state()->create_buffer(
      rounded, usage, kind == memory_kind::mapped ? detail::memory_use::mapped : detail::memory_use::device_local);
  return buffer(std::move(made));
} catch (...) {
  rethrow_as_error("allocating a buffer");
}

MEGANEURA_INLINE std::string device::reason_to_refuse(std::span<const std::uint64_t> buffer_bytes) const try {
  for (const std::uint64_t bytes : buffer_bytes) {
    if (bytes <= facts().max_buffer_bytes) continue;
    return fmt::format("{} bytes are needed in one buffer and {} allows {}", bytes, facts().name,
                       facts().max_buffer_bytes);
  }
  const std::uint64_t living = state()->live_allocations, most = facts().max_allocations;
  if (living + buffer_bytes.size() <= most) return {};
  return fmt::format("{} allocations are needed beside {} that live and {} allows {}; close sessions that are done",
                     buffer_bytes.size(), living, facts().name, most);
} catch (...) {
  rethrow_as_error("looking at a device's limits");
}

MEGANEURA_INLINE void device::upload(const buffer& target, std::uint64_t offset, std::span<const std::byte> bytes) const
    try {
  state()->require_alive();
  if (bytes.empty()) return;
  const buffer_range range = detail::resolve({target, offset, bytes.size()}, "an upload");
  state()->upload(target.state()->memory.handle, target.state()->used, range.offset, bytes);
} catch (...) {
  rethrow_as_error("an upload");
}

MEGANEURA_INLINE read_back_ticket device::read_back(const buffer& source, std::uint64_t offset,
                                                    std::uint64_t size) const try {
  state()->require_alive();
  const buffer_range range = detail::resolve({source, offset, size}, "a read-back");
  auto ticket = std::make_shared<detail::ticket_state>(state());
  ticket->slot = state()->read_back(source.state()->memory.handle, source.state()->used, range.offset, range.size);
  ticket->bytes = range.size;
  return read_back_ticket(std::move(ticket));
} catch (...) {
  rethrow_as_error("a read-back");
}

MEGANEURA_INLINE std::vector<pipeline> device::create_pipelines(std::span<const spirv::module> kernels) const try {
  return detail::create_pipelines(state(), kernels);
} catch (...) {
  rethrow_as_error("compiling kernels");
}

MEGANEURA_INLINE pipeline device::create_pipeline(const spirv::module& kernel) const try {
  return detail::create_pipelines(state(), {&kernel, 1}).front();
} catch (...) {
  rethrow_as_error("compiling a kernel");
}

MEGANEURA_INLINE std::uint64_t device::submit(const recording& commands) const try {
  if (!commands) fail(error_category::invalid_argument, "an empty recording handle was submitted");
  detail::recording_state& state = *commands.state();
  if (state.device != this->state()) {
    fail(error_category::invalid_argument, "a recording was submitted to another device");
  }
  const std::uint64_t value = state_->submit(state.handle);
  state.used.raise(value);
  return value;
} catch (...) {
  rethrow_as_error("a submission");
}

MEGANEURA_INLINE recorder::recorder(const device& on, recording_options options) try
    : commands_(std::make_shared<detail::command_list>(detail::command_list{on.state(), options, {}})) {
  if ((options.timestamps || options.group_timestamps || options.duration) && on.facts().timestamp_bits == 0) {
    fail(error_category::unsupported, "timestamps were asked for and the compute queue of {} has none",
         on.facts().name);
  }
} catch (...) {
  rethrow_as_error("beginning a recording");
}

MEGANEURA_INLINE void device::wait(std::uint64_t value) const try {
  if (value > state()->submitted()) {
    fail(error_category::invalid_argument, "timeline value {} was waited for and the last submitted is {}", value,
         state()->submitted());
  }
  state()->wait(value);
} catch (...) {
  rethrow_as_error("waiting for the device");
}

MEGANEURA_INLINE bool device::is_done(std::uint64_t value) const try {
  return state()->completed() >= value;
} catch (...) {
  rethrow_as_error("asking the device for its progress");
}

MEGANEURA_INLINE void device::wait_idle() const try { state()->wait(state()->submit(VK_NULL_HANDLE)); } catch (...) {
  rethrow_as_error("waiting for the device");
}

MEGANEURA_INLINE void device::save_pipeline_cache() const try {
  state()->require_alive();
  detail::save_pipeline_cache(*state_);
} catch (...) {
  rethrow_as_error("saving the pipeline cache");
}

MEGANEURA_INLINE pipeline_cache_origin device::cache_origin() const { return state()->cache_origin; }
MEGANEURA_INLINE std::string device::cache_file() const try { return state()->cache_file.string(); } catch (...) {
  rethrow_as_error("naming the pipeline cache");
}

MEGANEURA_INLINE rate_measurement device::rate_option() const { return state()->rate_option; }
MEGANEURA_INLINE device_profile device::profile(const std::function<device_profile()>& find) const try {
  const std::lock_guard lock(state()->profile_mutex);
  if (!state_->profile) state_->profile = find();
  return *state_->profile;
} catch (...) {
  rethrow_as_error("finding a device's profile");
}

MEGANEURA_INLINE device_counters device::counters() const {
  return {state()->allocations, state()->pipelines, state()->recordings, state()->submissions};
}

MEGANEURA_INLINE std::uint32_t device::threads() const { return state()->threads; }
MEGANEURA_INLINE std::uint64_t device::allocated_bytes() const { return state()->allocated_bytes; }
MEGANEURA_INLINE std::uint64_t device::validation_messages() const { return state()->owner->messages(); }
MEGANEURA_INLINE const std::shared_ptr<io::trace_file>& device::trace() const { return state()->trace; }
MEGANEURA_INLINE std::uint32_t device::trace_track() const { return state()->trace_track; }
MEGANEURA_INLINE const log_sink& device::log() const { return state()->owner->log(); }

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan
