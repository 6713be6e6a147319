// SPDX-License-Identifier: MIT
// Philox 4x32-10, the counter-based generator behind op::random: the layout every kernel and the oracle share.
#pragma once
#include <meganeura/config.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::kernels {

// Layout. Four neighbouring elements of a tensor share one call; element i takes word i % 4 of
//   key     = (seed_low, seed_high)                                   from step_values
//   counter = (low 32 bits of i / 4, high 32 bits of i / 4, fnv1a(stream name), step)
// uniform: (word >> 8) * 2^-24, in [0, 1), exact in f32.
// normal:  Box-Muller on the words (0, 1) and (2, 3) of the same call: with u = ((first >> 8) + 1) * 2^-24 in (0, 1],
// so that
//          log never sees 0, and v = (second >> 8) * 2^-24: the even element is sqrt(-2 log u) cos(2 pi v), the odd one
//          sqrt(-2 log u) sin(2 pi v). A last odd element drops its partner.

using philox_words = std::array<std::uint32_t, 4>;

/// Constants of Philox 4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
inline constexpr std::uint32_t philox_multipliers[] = {0xD2511F53u, 0xCD9E8D57u};
inline constexpr std::uint32_t philox_key_steps[] = {0x9E3779B9u, 0xBB67AE85u};
inline constexpr int philox_rounds = 10;

/// Four random words of a counter under a key.
[[nodiscard]] constexpr philox_words philox(philox_words counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < philox_rounds; ++round) {
    const std::uint64_t first = std::uint64_t{philox_multipliers[0]} * counter[0];
    const std::uint64_t second = std::uint64_t{philox_multipliers[1]} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += philox_key_steps[0];
    key[1] += philox_key_steps[1];
  }
  return counter;
}

/// The 32-bit FNV-1a hash of a stream's name: the third counter word.
[[nodiscard]] constexpr std::uint32_t stream_hash(std::string_view name) {
  std::uint32_t hash = 0x811C9DC5u;
  for (char character : name) hash = (hash ^ static_cast<unsigned char>(character)) * 0x01000193u;
  return hash;
}

/// The words that elements 4 * block to 4 * block + 3 of a stream are made of.
[[nodiscard]] constexpr philox_words random_words(std::uint64_t block, std::uint32_t stream, std::uint32_t step,
                                                  std::uint32_t seed_low, std::uint32_t seed_high) {
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream, step},
                {seed_low, seed_high});
}

/// [0, 1) with 24 bits.
[[nodiscard]] constexpr float uniform_from(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
/// (0, 1] with 24 bits: what Box-Muller takes the logarithm of.
[[nodiscard]] constexpr float positive_uniform_from(std::uint32_t word) {
  return static_cast<float>((word >> 8) + 1) * 0x1p-24f;
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
