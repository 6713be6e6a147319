// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), to check a downloaded file before it is believed.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::io {

/// The digest as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256(std::span<const std::uint8_t> bytes);

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/sha256.ipp>
#endif
