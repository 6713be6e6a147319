// SPDX-License-Identifier: MIT
// Fuzz target: the file of the pipeline cache. Only what was packed for this device and driver is believed.
#include <meganeura/vulkan/pipeline_state.hpp>

#include "fuzz.hpp"

namespace vulkan = meganeura::vulkan;
namespace detail = meganeura::vulkan::detail;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const vulkan::device_facts facts;
  const auto input = std::as_bytes(std::span(bytes, size));
  fuzz::accepts([&] {
    const auto data = detail::unpack_cache(input, facts);
    static const fuzz::memory_file memory;
    fuzz::require(detail::read_cache(memory.holding({bytes, size}), facts) == data, "a file is as believable as bytes");
    if (!data.empty()) fuzz::require(std::ranges::equal(detail::pack_cache(data, facts), input), "it was packed so");
    auto packed = detail::pack_cache(input, facts);
    fuzz::require(std::ranges::equal(detail::unpack_cache(packed, facts), input), "packing and unpacking are inverse");
    if (size == 0) return;
    packed[bytes[0] % packed.size()] ^= std::byte{1};
    fuzz::require(detail::unpack_cache(packed, facts).empty(), "a changed bit is noticed");
  });
  return 0;
}
