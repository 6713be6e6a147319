// SPDX-License-Identifier: MIT
// Unpacking .gz files (RFC 1951 and 1952), so that reading a data set needs no compression library.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// True when the bytes begin as a gzip file does.
[[nodiscard]] inline bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/// The unpacked content, its length and CRC-32 checked. `name` is for messages.
/// errors: `invalid_file` when it is truncated or damaged, or would unpack to more than `limit` bytes.
[[nodiscard]] std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> bytes, const std::string& name,
                                               std::size_t limit = std::size_t{1} << 30);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/gzip.ipp>
#endif
