// SPDX-License-Identifier: MIT
// Definitions for core/quote.hpp.
#pragma once
#include <meganeura/core/quote.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI {
namespace detail {

MEGANEURA_INLINE utf8_character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  if (text.empty()) return {};
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < smallest[bytes] || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

MEGANEURA_INLINE bool is_unsafe_to_print(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0xad || code == 0x61c || code == 0xfeff ||
         (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || (code >= 0xe0000 && code <= 0xe0fff);
}

}  // namespace detail

MEGANEURA_INLINE bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = detail::first_character(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

MEGANEURA_INLINE std::string quote(std::string_view text, std::size_t most) {
  std::string result = "\"";
  std::size_t at = 0;
  while (at < text.size()) {
    const auto [code, bytes] = detail::first_character(text.substr(at));
    if (at + (bytes == 0 ? 1 : bytes) > most) break;
    if (bytes == 0) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    } else if (detail::is_unsafe_to_print(code)) {
      result += code == '\n' ? "\\n" : code == '\t' ? "\\t" : fmt::format("\\u{{{:x}}}", code);
    } else {
      if (code == '"' || code == '\\') result += '\\';
      result += text.substr(at, bytes);
    }
    at += bytes == 0 ? 1 : bytes;
  }
  result += '"';
  if (at < text.size()) result += fmt::format("... ({} bytes)", text.size());
  return result;
}

MEGANEURA_INLINE std::string shown_path(std::string_view path) {
  std::string quoted = quote(path, path.size());
  return !path.empty() && quoted.size() == path.size() + 2 ? std::string(path) : quoted;
}

}  // namespace meganeura::inline MEGANEURA_ABI
