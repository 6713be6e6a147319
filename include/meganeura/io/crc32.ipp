// SPDX-License-Identifier: MIT
// Bodies of io/crc32.hpp; the one that zlib has is its.
#pragma once
#include <meganeura/core/helper_threads.hpp>
#include <meganeura/io/crc32.hpp>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::io {

MEGANEURA_INLINE std::string crc32(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "00000000";  // zlib takes no null pointer for no bytes
  constexpr std::size_t part_bytes = std::size_t{4} << 20, most_threads = 8;
  std::vector<uLong> parts((bytes.size() + part_bytes - 1) / part_bytes);
  const auto part = [&](std::size_t i) {
    return bytes.subspan(i * part_bytes, std::min(part_bytes, bytes.size() - i * part_bytes));
  };
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  meganeura::detail::run_in_parallel(parts.size(), std::min(processors, most_threads), [&](std::size_t i) {
    parts[i] = ::crc32_z(0, reinterpret_cast<const Bytef*>(part(i).data()), part(i).size());
  });
  uLong all = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i)
    all = ::crc32_combine(all, parts[i], static_cast<z_off_t>(part(i).size()));
  return fmt::format("{:08x}", all);
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
