// SPDX-License-Identifier: MIT
// Body of io/crc32.hpp, on zlib.
#pragma once
#include <meganeura/io/crc32.hpp>

#include <fmt/format.h>
#include <zlib.h>

namespace meganeura::inline MEGANEURA_ABI::io {

MEGANEURA_INLINE std::string crc32(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "00000000";  // zlib takes no null pointer for no bytes
  return fmt::format("{:08x}", ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
