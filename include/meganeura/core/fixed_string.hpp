// SPDX-License-Identifier: MIT
// A string literal as a template argument.
#pragma once
#include <meganeura/config.hpp>

#include <cstddef>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// Characters of a literal, terminating zero included, as a structural value: `linear<"fc1", 128>`.
template <std::size_t N>
struct fixed_string {
  char text[N]{};

  // NOLINTNEXTLINE(google-explicit-constructor): the conversion from a literal is the purpose.
  constexpr fixed_string(const char (&literal)[N]) {
    for (std::size_t i = 0; i < N; ++i) text[i] = literal[i];
  }

  friend constexpr bool operator==(const fixed_string&, const fixed_string&) = default;
};

/// A name of static storage. Equal texts are one object, so that names compare by address inside types.
struct symbol {
  const char* text;
  std::int64_t most = 0;  // of an extent, 0: any
};

namespace detail {
template <fixed_string Text>
inline constexpr symbol symbol_of{Text.text};

// A template of its own, so that the compiler's message spells the text.
template <fixed_string Text, bool Fits>
inline constexpr bool text_fits = Fits;

// Names are compared and stored as C strings: no zero byte before the end.
template <std::size_t N>
[[nodiscard]] constexpr bool is_prefix(const fixed_string<N>& text) {
  for (std::size_t i = 0; i + 1 < N; ++i) {
    if (text.text[i] == '\0') return false;
  }
  return true;
}
template <std::size_t N>
[[nodiscard]] constexpr bool is_name(const fixed_string<N>& text) {
  return N > 1 && is_prefix(text);
}

// <cstring> is not constexpr.
[[nodiscard]] constexpr bool texts_equal(const char* lhs, const char* rhs) {
  while (*lhs != '\0' && *lhs == *rhs) ++lhs, ++rhs;
  return *lhs == *rhs;
}
}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
