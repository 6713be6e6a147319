// SPDX-License-Identifier: MIT
// Internal: what the handles of buffer.hpp point to.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/vulkan/buffer.hpp>
#include <meganeura/vulkan/device_state.hpp>

#include <cstdint>
#include <memory>

namespace meganeura::inline MEGANEURA_ABI::vulkan::detail {

struct buffer_state {
  explicit buffer_state(std::shared_ptr<device_state> owner) : device(std::move(owner)) {}
  ~buffer_state();
  buffer_state(const buffer_state&) = delete;
  buffer_state& operator=(const buffer_state&) = delete;

  std::shared_ptr<device_state> device;
  raw_buffer memory;
  last_use used;  // by copies; recordings hold the buffer instead
};

struct ticket_state {
  explicit ticket_state(std::shared_ptr<device_state> owner) : device(std::move(owner)) {}
  ~ticket_state();
  ticket_state(const ticket_state&) = delete;
  ticket_state& operator=(const ticket_state&) = delete;

  std::shared_ptr<device_state> device;
  std::unique_ptr<read_back_slot> slot;
  std::uint64_t bytes = 0;
};

/// The range with its size filled in. errors: invalid_argument when it leaves the buffer or is empty.
[[nodiscard]] buffer_range resolve(const buffer_range& range, const char* what);

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/buffer.ipp>
#endif
