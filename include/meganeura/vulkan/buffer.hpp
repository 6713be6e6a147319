// SPDX-License-Identifier: MIT
// Device memory as the rest of the library sees it: a buffer, a range of it, and a read-back that is under way.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

enum class memory_kind : std::uint8_t {
  device_local,  // the default, for everything kernels work on
  mapped         // also visible to the host at `buffer::mapped()`: small things that change every step
};

namespace detail {
class device_state;
struct buffer_state;
struct ticket_state;
}  // namespace detail

/// A block of device memory with shared ownership; tensors are ranges of it. Freed when the last handle, recording and
/// copy that uses it is done. Made by `device::allocate`.
class buffer {
 public:
  buffer() = default;
  explicit buffer(std::shared_ptr<detail::buffer_state> state) : state_(std::move(state)) {}
  explicit operator bool() const { return state_ != nullptr; }
  [[nodiscard]] std::uint64_t bytes() const;

  /// Host view of memory_kind::mapped, empty otherwise. Writes are seen by submissions made after them; the caller
  /// orders them against submissions under way (device::wait).
  [[nodiscard]] std::span<std::byte> mapped() const;
  /// Whether it lies in the device's own memory, where kernels read it as often as they like: always, but for mapped
  /// buffers of devices whose memory the host does not see, or sees a small part of.
  [[nodiscard]] bool is_device_local() const;

  [[nodiscard]] const std::shared_ptr<detail::buffer_state>& state() const { return state_; }
  [[nodiscard]] bool operator==(const buffer&) const = default;

 private:
  std::shared_ptr<detail::buffer_state> state_;
};

/// Bytes [offset, offset + size) of a buffer; size 0 means up to its end.
struct buffer_range {
  vulkan::buffer buffer{};
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// A copy from the device that is under way, made by `device::read_back`. Movable; the memory it lands in is reused
/// when the ticket goes away.
class read_back_ticket {
 public:
  read_back_ticket() = default;
  explicit read_back_ticket(std::shared_ptr<detail::ticket_state> state) : state_(std::move(state)) {}
  [[nodiscard]] bool ready() const;
  void wait() const;
  /// Waits if need be. The span lives as long as the ticket.
  [[nodiscard]] std::span<const std::byte> data() const;

 private:
  std::shared_ptr<detail::ticket_state> state_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/buffer_state.hpp>  // which ends with buffer.ipp
#endif
