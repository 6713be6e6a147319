// SPDX-License-Identifier: MIT
// CRC-32 (ISO 3309, as zlib computes it), to find bytes that changed on a disk; no protection against malice.
#pragma once
#include <meganeura/config.hpp>

#include <cstddef>
#include <span>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::io {

/// The checksum as 8 lower-case hexadecimal digits.
[[nodiscard]] std::string crc32(std::span<const std::byte> bytes);

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/crc32.ipp>
#endif
