// SPDX-License-Identifier: MIT
// The memory of one area of a plan: as many buffers as the device asks for, seen as one range of bytes.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// What execution_plan::page_bytes is on this device: the largest buffer, in whole tensors' alignments.
[[nodiscard]] inline std::uint64_t page_bytes_of(const device_facts& facts) {
  return std::max(facts.max_buffer_bytes / plan::tensor_alignment, std::uint64_t{1}) * plan::tensor_alignment;
}

/// Bytes of each buffer that an area becomes.
[[nodiscard]] inline std::vector<std::uint64_t> buffers_of(const device_facts& facts, std::uint64_t area_bytes) try {
  const std::uint64_t page = page_bytes_of(facts);
  std::vector<std::uint64_t> result;
  for (std::uint64_t begin = 0; begin < area_bytes; begin += page) result.push_back(std::min(page, area_bytes - begin));
  return result;
} catch (...) {
  rethrow_as_error("dividing memory into buffers");
}

/// Page i holds the bytes from i * page_bytes on; the last one ends where the area does. Copies are the same memory.
class area_memory {
 public:
  area_memory() = default;
  /// Contents are undefined. errors: out_of_memory.
  area_memory(const device& on, std::uint64_t bytes, vulkan::memory_kind kind = vulkan::memory_kind::device_local) try
      : page_bytes_(page_bytes_of(on.facts())) {
    for (const std::uint64_t page : buffers_of(on.facts(), bytes)) pages_.push_back(on.allocate(page, kind));
  } catch (...) {
    rethrow_as_error("allocating memory");
  }

  /// The range must not cross a page; a plan made with this page size has no such range.
  [[nodiscard]] vulkan::buffer_range at(std::uint64_t offset, std::uint64_t bytes) const {
    return {pages_.at(static_cast<std::size_t>(offset / page_bytes_)), offset % page_bytes_, bytes};
  }
  /// Where the host sees these bytes; for mapped memory only.
  [[nodiscard]] std::span<std::byte> mapped(std::uint64_t offset, std::uint64_t bytes) const {
    const vulkan::buffer_range range = at(offset, bytes);
    return range.buffer.mapped().subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(bytes));
  }
  /// Bytes of such a range, after everything submitted so far; and new ones for what is submitted later. errors: those
  /// of device::read_back and device::upload.
  [[nodiscard]] vulkan::read_back_ticket read_back(const device& on, std::uint64_t offset, std::uint64_t bytes) const {
    const vulkan::buffer_range from = at(offset, bytes);
    return on.read_back(from.buffer, from.offset, from.size);
  }
  [[nodiscard]] std::vector<std::byte> read(const device& on, std::uint64_t offset, std::uint64_t bytes) const try {
    const vulkan::read_back_ticket ticket = read_back(on, offset, bytes);
    const auto found = ticket.data();
    return {found.begin(), found.end()};
  } catch (...) {
    rethrow_as_error("a read-back");
  }
  void write(const device& on, std::uint64_t offset, std::span<const std::byte> values) const {
    const vulkan::buffer_range to = at(offset, values.size());
    on.upload(to.buffer, to.offset, values);
  }
  [[nodiscard]] std::span<const vulkan::buffer> pages() const { return pages_; }
  void fill_with_zeros(vulkan::recorder& commands) const {
    for (const vulkan::buffer& page : pages_) commands.fill({page, 0, page.bytes()}, 0);
  }

 private:
  std::uint64_t page_bytes_ = 1;
  std::vector<vulkan::buffer> pages_;
};

}  // namespace meganeura::inline MEGANEURA_ABI
