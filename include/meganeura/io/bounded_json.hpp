// SPDX-License-Identifier: MIT
// JSON from files: its depth is bounded, whatever the text says.
#pragma once
#include <meganeura/core/quote.hpp>
#include <meganeura/io/file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::io::detail {

/// Whether brackets outside of texts are nested no deeper than that.
inline bool is_nested_within(std::string_view json, int most) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char character = json[at];
    if (in_text && character == '\\') {
      ++at;
    } else if (character == '"') {
      in_text = !in_text;
    } else if (!in_text && (character == '[' || character == '{')) {
      if (++depth > most) return false;
    } else if (!in_text && (character == ']' || character == '}')) {
      --depth;
    }
  }
  return true;
}

/// errors: invalid_file, where `what` was expected of the file `name`.
inline nlohmann::json parse_bounded_json(std::string_view text, const std::string& name, const char* what) {
  if (!is_nested_within(text, 16)) bad_file(name, 0, what, "JSON nested 17 levels deep");
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& problem) {
    const std::size_t at = std::min(problem.byte == 0 ? 0 : problem.byte - 1, text.size());
    bad_file(name, at, fmt::format("valid JSON: {}", what), at == text.size() ? "its end" : quote(text.substr(at, 32)));
  } catch (const nlohmann::json::out_of_range&) {
    bad_file(name, 0, fmt::format("valid JSON: {}", what), "a number beyond those of f64");
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::io::detail
