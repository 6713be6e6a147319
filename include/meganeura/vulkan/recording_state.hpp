// SPDX-License-Identifier: MIT
// Internal: the commands of a recorder as data, and the Vulkan objects of a finished recording.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/vulkan/buffer_state.hpp>
#include <meganeura/vulkan/pipeline_state.hpp>
#include <meganeura/vulkan/recording.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::vulkan::detail {

struct dispatch_command {
  pipeline kernel;
  std::vector<buffer_range> bindings;
  std::array<std::uint32_t, 3> groups{};
  std::string label;
};

struct copy_command {
  buffer_range source, target;  // of equal size
};

struct fill_command {
  buffer_range target;
  std::uint32_t word = 0;
};

struct barrier_command {};

using command = std::variant<dispatch_command, copy_command, fill_command, barrier_command>;

/// Kept as data until `finish`, because pools have to be created with their final sizes.
struct command_list {
  std::shared_ptr<device_state> device;
  recording_options options;
  std::vector<command> commands;
};

struct recording_state {
  explicit recording_state(std::shared_ptr<device_state> owner) : device(std::move(owner)) {}
  ~recording_state();
  recording_state(const recording_state&) = delete;
  recording_state& operator=(const recording_state&) = delete;

  std::shared_ptr<device_state> device;
  std::vector<command> commands;                    // holds the buffers and pipelines
  std::vector<const dispatch_command*> dispatches;  // of them, in order
  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer handle = VK_NULL_HANDLE;
  VkDescriptorPool descriptors = VK_NULL_HANDLE;
  VkQueryPool queries = VK_NULL_HANDLE;  // two a dispatch, one before and one behind each group, two of the whole
  recording_options measured;
  std::size_t group_queries = 0, groups_begin = 0;  // of these where those of groups are
  std::vector<VkBufferView> views;
  last_use used;

  /// Ticks of these queries of the last submission, which is waited for.
  [[nodiscard]] std::vector<std::uint64_t> read_ticks(std::size_t first, std::size_t count) const;
};

/// Turns commands into a recording_state, one object of Vulkan after the other.
class recording_writer {
 public:
  explicit recording_writer(command_list& list);
  [[nodiscard]] std::shared_ptr<recording_state> write();

 private:
  void create_descriptor_pool();
  void create_command_buffer();
  void write(const dispatch_command& item);
  void write(const copy_command& item);
  void write(const fill_command& item);
  void write(const barrier_command& item);
  void bind(const dispatch_command& item);
  void push_addresses(const dispatch_command& item);
  [[nodiscard]] VkBufferView view_of(const buffer_range& range);

  command_list& list_;
  device_state& device_;
  std::shared_ptr<recording_state> state_;
  void write_timestamp(std::size_t query);
  void write_group_timestamp();

  std::uint32_t query_count_ = 0, groups_ended_ = 0;
  // What the recording does, what it has done where it is being written, and what is still to come.
  memory_scope all_, before_;
  std::span<const command> rest_;
  VkPipeline bound_ = VK_NULL_HANDLE;
  std::map<std::tuple<VkBuffer, std::uint64_t, std::uint64_t>, VkBufferView> views_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/recording.ipp>
#endif
