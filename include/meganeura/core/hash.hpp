// SPDX-License-Identifier: MIT
// Mixing of 64-bit words, for the hash-consing tables; stable within one process and across runs.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI {

/// Folds one word into a running hash (multiply and xor-shift; the constants are those of MurmurHash3's 64-bit
/// finaliser).
[[nodiscard]] constexpr std::uint64_t hash_combine(std::uint64_t hash, std::uint64_t word) {
  hash ^= word;
  hash *= 0xff51afd7ed558ccdull;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53ull;
  return hash ^ (hash >> 29);
}

[[nodiscard]] constexpr std::uint64_t hash_string(std::string_view text, std::uint64_t hash = 0x9e3779b97f4a7c15ull) {
  for (char character : text) hash = hash_combine(hash, static_cast<unsigned char>(character));
  return hash_combine(hash, text.size());
}

}  // namespace meganeura::inline MEGANEURA_ABI
