// SPDX-License-Identifier: MIT
// What Unicode says of characters: letters, numbers, spaces, and lower case.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::data {

enum class character_kind : std::uint8_t { other, letter, number, space };

/// Letters are Unicode's category L, numbers N, spaces its property White_Space.
[[nodiscard]] character_kind kind_of(std::uint32_t code);
/// Each character's simple mapping to lower case; bytes that are no UTF-8 stay.
[[nodiscard]] std::string lower_case(std::string_view text);

/// The character as one to four bytes.
inline void append_utf8(std::string& to, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { to += static_cast<char>(static_cast<std::uint8_t>(byte)); };
  const auto rest = [&](int shift) { add(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) return add(0xc0 | code >> 6), rest(0);
  if (code < 0x10000) return add(0xe0 | code >> 12), rest(6), rest(0);
  add(0xf0 | code >> 18), rest(12), rest(6), rest(0);
}

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/characters.ipp>
#endif
