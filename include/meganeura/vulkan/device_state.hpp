// SPDX-License-Identifier: MIT
// Internal: everything one VkDevice owns, and what buffers, pipelines and recordings ask of it.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/device_profile.hpp>
#include <meganeura/io/trace_file.hpp>
#include <meganeura/vulkan/device_clock.hpp>
#include <meganeura/vulkan/instance.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::vulkan {
enum class pipeline_cache_origin : std::uint8_t;
enum class rate_measurement : std::uint8_t;
}  // namespace meganeura::inline MEGANEURA_ABI::vulkan

namespace meganeura::inline MEGANEURA_ABI::vulkan::detail {

/// What memory is wanted for; decides the memory type.
enum class memory_use : std::uint8_t { device_local, mapped, staging, read_back };

/// A VkBuffer alone in its VkDeviceMemory.
struct raw_buffer {
  VkBuffer handle = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;    // 0: none was asked for
  std::byte* mapped = nullptr;  // null unless the memory is host-visible and was asked to be
  bool is_device_local = false;
  std::uint64_t counted_bytes = 0;  // in device_state::allocated_bytes
};

/// The memory types that suit `use`, best first: what is wished for, then what Vulkan guarantees to exist (11.6).
[[nodiscard]] std::vector<std::uint32_t> memory_types(const VkPhysicalDeviceMemoryProperties& memory,
                                                      std::uint32_t allowed, memory_use use);

/// The timeline value after which something is no longer in use. Threads that use it at once may report in any order.
class last_use {
 public:
  void raise(std::uint64_t value) {
    std::uint64_t known = value_;
    while (known < value && !value_.compare_exchange_weak(known, value)) {
    }
  }
  operator std::uint64_t() const { return value_; }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A command buffer of the transfer pool and the timeline value after which it is free again.
struct transfer_commands {
  VkCommandBuffer handle = VK_NULL_HANDLE;
  std::uint64_t value = 0;
};

/// A written or read byte range of a buffer inside the batch that is being filled.
struct touched_range {
  VkBuffer buffer = VK_NULL_HANDLE;
  std::uint64_t begin = 0, end = 0;
};

/// Memory that read-backs land in; kept and used again, so that a steady loop allocates nothing.
struct read_back_slot {
  raw_buffer buffer;
  std::uint64_t value = 0;  // the copy into it is done when the timeline reaches this
};

/// Members are grouped as they are used. `mutex_` guards the queue, the timeline counter and all transfer state.
class device_state {
 public:
  device_state() = default;
  ~device_state();
  device_state(const device_state&) = delete;
  device_state& operator=(const device_state&) = delete;

  void open(std::shared_ptr<instance> owning_instance, VkPhysicalDevice chosen, device_facts found,
            std::uint64_t staging_bytes);

  /// Turns a failed result into an exception and remembers a lost device.
  void check(VkResult result, const char* what);
  /// Throws device_lost once the device is lost: every public entry starts here.
  void require_alive() const;

  [[nodiscard]] raw_buffer create_buffer(std::uint64_t bytes, VkBufferUsageFlags usage, memory_use use);
  void destroy_buffer(raw_buffer& buffer);

  /// Submits what is pending and then `commands` (may be null); returns the timeline value that ends it.
  std::uint64_t submit(VkCommandBuffer commands);
  void wait(std::uint64_t value);
  void log_quietly(log_level level, const char* text) noexcept;
  void wait_quietly(std::uint64_t value) noexcept;  // for destructors: no exception, and no hang on a lost device
  [[nodiscard]] std::uint64_t completed();
  [[nodiscard]] std::uint64_t submitted();
  /// Both clocks now; empty where the device cannot tell.
  [[nodiscard]] std::optional<clock_moment> clock_sample();

  /// Both raise `used`, of the target or the source, before a copy is recorded: what throws after that leaves the copy
  /// in the open batch, and its buffer still has to outlive it.
  void upload(VkBuffer target, last_use& used, std::uint64_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] std::unique_ptr<read_back_slot> read_back(VkBuffer source, last_use& used, std::uint64_t offset,
                                                          std::uint64_t size);
  void give_back(std::unique_ptr<read_back_slot> slot) noexcept;

  std::shared_ptr<instance> owner;
  std::shared_ptr<io::trace_file> trace;  // null: none is written
  std::uint32_t trace_track = 0;          // the device's
  device_clock clock;
  device_facts facts;
  device_functions call;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice handle = VK_NULL_HANDLE;
  std::uint32_t queue_family = 0;
  std::uint32_t threads = 1;            // of one call that prepares
  std::uint32_t poll_microseconds = 0;  // of a wait, before it sleeps
  rate_measurement rate_option{};
  std::mutex profile_mutex;  // held while it is found
  std::optional<device_profile> profile;
  VkPipelineCache pipeline_cache = VK_NULL_HANDLE;
  pipeline_cache_origin cache_origin{};
  std::filesystem::path cache_file;               // empty when the disk cache is off
  std::atomic<bool> cache_is_newer{false};        // pipelines were made since the file was read or written
  void (*before_close)(device_state&) = nullptr;  // saves the cache: pipelines are a layer above this one
  std::atomic<bool> lost{false};
  std::atomic<std::uint64_t> allocations{0}, pipelines{0}, recordings{0}, submissions{0};
  std::atomic<std::uint32_t> live_allocations{0};
  std::atomic<std::uint64_t> allocated_bytes{0};  // that kernels work on: neither staging nor read-backs

 private:
  void create_device(const std::vector<std::string>& extensions);
  void create_transfer_objects(std::uint64_t staging_bytes);
  void end_use_quietly(std::uint64_t value) noexcept;
  void allocate_memory(raw_buffer& buffer, VkBufferUsageFlags usage, memory_use use);
  [[nodiscard]] std::uint64_t room_in(std::uint32_t heap) const;
  // The following expect `mutex_` to be held.
  std::uint64_t submit_locked(VkCommandBuffer commands);
  [[nodiscard]] std::uint64_t pending_value() const { return submitted_ + 1; }
  void open_batch();
  void close_batch();
  void copy_in_batch(VkBuffer source, VkBuffer target, const VkBufferCopy& region);
  [[nodiscard]] std::uint64_t reserve_staging(std::uint64_t bytes);
  [[nodiscard]] std::unique_ptr<read_back_slot> take_slot(std::uint64_t bytes);

  std::mutex mutex_;
  VkPhysicalDeviceMemoryProperties memory_{};
  VkQueue queue_ = VK_NULL_HANDLE;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::uint64_t submitted_ = 0;             // the last timeline value handed to the queue
  std::atomic<std::int64_t> last_wait_{0};  // nanoseconds, of one that had to wait

  VkCommandPool transfer_pool_ = VK_NULL_HANDLE;
  std::vector<transfer_commands> retired_;  // oldest first
  VkCommandBuffer batch_ = VK_NULL_HANDLE;
  bool batch_is_closed_ = false;
  bool batch_reaches_host_ = false;
  std::vector<touched_range> batch_writes_;

  struct staging_mark {
    std::uint64_t end;    // ring position up to which ...
    std::uint64_t value;  // ... the ring is free after this timeline value
  };
  raw_buffer staging_;
  // Positions only grow and are taken modulo the ring's size: next free byte, oldest byte in use, end of the last mark.
  std::uint64_t staging_head_ = 0, staging_tail_ = 0, staging_marked_ = 0;
  std::vector<staging_mark> staging_marks_;
  std::vector<std::unique_ptr<read_back_slot>> free_slots_;  // has room for all that were made
  std::size_t slots_made_ = 0;                               // and not destroyed
};

/// What one side of a barrier does to memory: a wider mask than needed costs time on some devices.
struct memory_scope {
  VkPipelineStageFlags stages = 0;
  VkAccessFlags reads = 0, writes = 0;
  memory_scope& operator|=(const memory_scope& other) {
    stages |= other.stages, reads |= other.reads, writes |= other.writes;
    return *this;
  }
};
namespace scope {
inline constexpr memory_scope transfer{VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT,
                                       VK_ACCESS_TRANSFER_WRITE_BIT};
inline constexpr memory_scope storage{VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT,
                                      VK_ACCESS_SHADER_WRITE_BIT};
inline constexpr memory_scope uniform{VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_UNIFORM_READ_BIT, 0};
inline constexpr memory_scope host{VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT, 0};
/// Whatever earlier submissions may have done.
inline constexpr memory_scope any{transfer.stages | storage.stages, transfer.reads | storage.reads | uniform.reads,
                                  transfer.writes | storage.writes};
}  // namespace scope

/// What `to` does sees what `from` wrote, and overwrites nothing that it still reads.
inline void add_barrier(const device_functions& call, VkCommandBuffer commands, const memory_scope& from,
                        const memory_scope& to) {
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = from.writes;
  barrier.dstAccessMask = to.reads | to.writes;
  call.CmdPipelineBarrier(commands, from.stages, to.stages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/device_state.ipp>
#endif
