// SPDX-License-Identifier: MIT
// JSON from files: its depth is bounded, whatever the text says.
#pragma once
#include <meganeura/core/quote.hpp>
#include <meganeura/io/file.hpp>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::io::detail {

/// errors: invalid_file, where `what` was expected of the file `name`.
inline nlohmann::json parse_bounded_json(std::string_view text, const std::string& name, const char* what) {
  const auto shallow = [&](int level, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (level > 16) bad_file(name, 0, what, "JSON nested 17 levels deep");
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), shallow);
  } catch (const nlohmann::json::parse_error& problem) {
    bad_file(name, problem.byte == 0 ? 0 : problem.byte - 1, "valid JSON", quote(problem.what()));
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::io::detail
