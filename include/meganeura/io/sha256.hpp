// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), to check a downloaded file before it is believed.
#pragma once
#include <meganeura/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::io {

/// The digest of bytes that come piece by piece.
class sha256_hash {
 public:
  sha256_hash();
  void update(std::span<const std::byte> bytes);
  /// Once, at the end: 64 lower-case hexadecimal digits.
  [[nodiscard]] std::string finish();

 private:
  std::array<std::uint32_t, 8> hash_;
  std::array<std::byte, 64> block_{};  // begun and not yet full
  std::uint64_t bytes_ = 0;
};

/// The digest as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256(std::span<const std::uint8_t> bytes);

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/sha256.ipp>
#endif
