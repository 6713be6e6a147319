// SPDX-License-Identifier: MIT
// Bodies of io/crc32.hpp; the one that zlib has is its.
#pragma once
#include <meganeura/io/crc32.hpp>

#include <fmt/format.h>
#include <zlib.h>

namespace meganeura::inline MEGANEURA_ABI::io {

MEGANEURA_INLINE std::string crc32(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "00000000";  // zlib takes no null pointer for no bytes
  return fmt::format("{:08x}", ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

MEGANEURA_INLINE std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0u;
  for (const std::byte each : bytes) {
    crc ^= std::to_integer<std::uint32_t>(each);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
