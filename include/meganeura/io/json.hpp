// SPDX-License-Identifier: MIT
// A strict reader for the JSON model files carry: strings, non-negative integers, arrays and objects, nothing else.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::io {

/// One value. The members of an object keep the order of the file; no name appears twice.
struct json {
  enum class kind { string, integer, array, object };
  kind type = kind::object;
  std::uint64_t offset = 0;        // in bytes from the start of the file, for messages about its meaning
  std::string text;                // string
  std::uint64_t number = 0;        // integer
  std::vector<std::string> names;  // object
  std::vector<json> items;         // array, or the values of the names

  /// The member of that name, or null.
  [[nodiscard]] const json* find(std::string_view name) const;
};

[[nodiscard]] constexpr const char* to_string(json::kind kind) {
  constexpr const char* names[] = {"a string", "an integer", "an array", "an object"};
  return names[static_cast<int>(kind)];
}

/// Parses all of `text`. `name` and `offset` say where it came from, so that an error names file and byte.
/// errors: `invalid_file` for anything but one value, for doubled names, integers past 2^64 - 1, nesting over 32
/// levels.
[[nodiscard]] json parse_json(std::string_view text, const std::string& name, std::uint64_t offset = 0);

/// `text` as a JSON string, quotes included.
[[nodiscard]] std::string quote_json(std::string_view text);

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/json.ipp>
#endif
