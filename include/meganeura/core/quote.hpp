// SPDX-License-Identifier: MIT
// Foreign text (names in a file, a driver's words) in error sentences: quoted, escaped, and short.
#pragma once
#include <meganeura/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI {
namespace detail {

/// One character of UTF-8 text: its code and its bytes; no bytes when there is none, overlong and surrogates included.
struct utf8_character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

[[nodiscard]] utf8_character first_character(std::string_view text);

/// Characters that steer a terminal or reorder a line (Unicode Cc, the bidirectional controls, line separators) or
/// cannot be seen at all.
[[nodiscard]] bool is_unsafe_to_print(std::uint32_t code);

}  // namespace detail

/// Whether the whole text is valid UTF-8 (RFC 3629).
[[nodiscard]] bool is_utf8(std::string_view text);

/// `text` in double quotes: quotes and backslashes behind a backslash, what could steer a terminal as \u{1b}, bytes
/// that are no UTF-8 as \x9b. Of more than `most` bytes only the beginning, followed by their number.
[[nodiscard]] std::string quote(std::string_view text, std::size_t most = 120);

/// A path as sentences begin with it: as it is, or quoted where it is empty or holds what `quote` would escape.
[[nodiscard]] std::string shown_path(std::string_view path);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/core/quote.ipp>
#endif
