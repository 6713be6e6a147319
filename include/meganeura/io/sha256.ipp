// SPDX-License-Identifier: MIT
// Body of io/sha256.hpp, after FIPS 180-4 section 6.2.
#pragma once
#include <meganeura/io/sha256.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace meganeura::inline MEGANEURA_ABI::io {
namespace detail {

struct sha256_state {
  std::array<std::uint32_t, 8> hash;       // square roots of the first 8 primes (section 5.3.3)
  std::array<std::uint32_t, 64> constant;  // cube roots of the first 64 primes (section 4.2.2)
};

/// Both tables are the first 32 fractional bits of roots of primes; a 64-bit long double holds them exactly enough.
inline sha256_state sha256_roots() {
  sha256_state state{};
  const auto fraction = [](long double root) {
    return static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
  };
  std::size_t found = 0;
  for (int candidate = 2; found < 64; ++candidate) {
    bool prime = true;
    for (int divisor = 2; divisor * divisor <= candidate; ++divisor) prime = prime && candidate % divisor != 0;
    if (!prime) continue;
    if (found < 8) state.hash[found] = fraction(std::sqrt(static_cast<long double>(candidate)));
    state.constant[found++] = fraction(std::cbrt(static_cast<long double>(candidate)));
  }
  return state;
}

inline void sha256_block(std::array<std::uint32_t, 8>& hash, const std::byte* block) {
  static const sha256_state state = sha256_roots();
  const auto turn = [](std::uint32_t x, int a, int b, int c) {
    return std::rotr(x, a) ^ std::rotr(x, b) ^ std::rotr(x, c);
  };
  std::array<std::uint32_t, 64> word{};
  for (std::size_t t = 0; t < 64; ++t) {
    if (t < 16) {
      for (std::size_t i = 0; i < 4; ++i) word[t] = word[t] << 8 | std::to_integer<std::uint32_t>(block[4 * t + i]);
      continue;
    }
    const std::uint32_t low = std::rotr(word[t - 15], 7) ^ std::rotr(word[t - 15], 18) ^ (word[t - 15] >> 3);
    const std::uint32_t high = std::rotr(word[t - 2], 17) ^ std::rotr(word[t - 2], 19) ^ (word[t - 2] >> 10);
    word[t] = word[t - 16] + low + word[t - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = hash;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t first = h + turn(e, 6, 11, 25) + ((e & f) ^ (~e & g)) + state.constant[t] + word[t];
    const std::uint32_t second = turn(a, 2, 13, 22) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const std::array<std::uint32_t, 8> added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) hash[i] += added[i];
}

}  // namespace detail

MEGANEURA_INLINE sha256_hash::sha256_hash() : hash_(detail::sha256_roots().hash) {}

MEGANEURA_INLINE void sha256_hash::update(std::span<const std::byte> bytes) {
  std::size_t filled = bytes_ % block_.size();
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), block_.size() - filled);
    std::copy_n(bytes.begin(), count, block_.begin() + static_cast<std::ptrdiff_t>(filled));
    bytes = bytes.subspan(count);
    filled = (filled + count) % block_.size();
    if (filled == 0) detail::sha256_block(hash_, block_.data());
  }
}

MEGANEURA_INLINE std::string sha256_hash::finish() {
  // A one bit, zeros, and the length in bits as 64 bits (section 5.1.1) fill the last block, or one more.
  std::array<std::byte, 128> tail{std::byte{0x80}};
  const std::size_t rest = bytes_ % 64, padding = (rest < 56 ? 64 : 128) - rest;
  const std::uint64_t bits = bytes_ * 8;
  for (std::size_t i = 0; i < 8; ++i) tail[padding - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  update({tail.data(), padding});
  std::string text;
  for (const std::uint32_t part : hash_) text += fmt::format("{:08x}", part);
  return text;
}

MEGANEURA_INLINE std::string sha256(std::span<const std::uint8_t> bytes) {
  sha256_hash hash;
  hash.update(std::as_bytes(bytes));
  return hash.finish();
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
