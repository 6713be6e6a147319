// SPDX-License-Identifier: MIT
// CRC-32 (ISO 3309, as zlib computes it) and CRC-32C (Castagnoli's), to find bytes that changed on a disk; no
// protection against malice.
#pragma once
#include <meganeura/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::io {

/// The checksum as 8 lower-case hexadecimal digits. Of many bytes several threads compute parts.
[[nodiscard]] std::string crc32(std::span<const std::byte> bytes);

/// Castagnoli's, as TensorFlow's records have it. source: RFC 3720, appendix B.4.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/crc32.ipp>
#endif
