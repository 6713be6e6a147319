// SPDX-License-Identifier: MIT
// Buffers and read-back tickets: handles over what the device state allocates.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/vulkan/buffer.hpp>
#include <meganeura/vulkan/buffer_state.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

namespace detail {

MEGANEURA_INLINE buffer_state::~buffer_state() {
  device->wait_quietly(used);  // copies hold no reference to the buffer, so it waits for them
  device->destroy_buffer(memory);
}

MEGANEURA_INLINE ticket_state::~ticket_state() { device->give_back(std::move(slot)); }

MEGANEURA_INLINE buffer_range resolve(const buffer_range& range, const char* what) {
  if (!range.buffer) fail(error_category::invalid_argument, "{} was given an empty buffer handle", what);
  const std::uint64_t bytes = range.buffer.bytes();
  buffer_range result = range;
  if (result.size == 0 && range.offset <= bytes) result.size = bytes - range.offset;
  if (range.offset > bytes || result.size > bytes - range.offset || result.size == 0) {
    fail(error_category::invalid_argument, "{} asks for {} bytes at offset {} of a buffer of {} bytes; stay inside it",
         what, range.size, range.offset, bytes);
  }
  return result;
}

}  // namespace detail

MEGANEURA_INLINE std::uint64_t buffer::bytes() const { return state_ == nullptr ? 0 : state_->memory.bytes; }

MEGANEURA_INLINE std::span<std::byte> buffer::mapped() const {
  if (state_ == nullptr || state_->memory.mapped == nullptr) return {};
  return {state_->memory.mapped, state_->memory.bytes};
}

MEGANEURA_INLINE bool buffer::is_device_local() const { return state_ != nullptr && state_->memory.is_device_local; }

MEGANEURA_INLINE bool read_back_ticket::ready() const try {
  if (state_ == nullptr)
    fail(error_category::invalid_argument, "an empty read-back ticket was asked whether it is ready");
  return state_->device->completed() >= state_->slot->value;
} catch (...) {
  rethrow_as_error("asking for a read-back");
}

MEGANEURA_INLINE void read_back_ticket::wait() const try {
  if (state_ == nullptr) fail(error_category::invalid_argument, "an empty read-back ticket was waited for");
  state_->device->wait(state_->slot->value);
} catch (...) {
  rethrow_as_error("waiting for a read-back");
}

MEGANEURA_INLINE std::span<const std::byte> read_back_ticket::data() const {
  wait();
  return {state_->slot->buffer.mapped, state_->bytes};
}

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan
