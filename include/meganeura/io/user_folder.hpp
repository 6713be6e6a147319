// SPDX-License-Identifier: MIT
// Where a user's environment says that files belong.
#pragma once
#include <meganeura/config.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::io {

/// Empty where it is not set.
[[nodiscard]] inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// $XDG_CACHE_HOME/meganeura or ~/.cache/meganeura, which need not exist; empty when there is neither XDG_CACHE_HOME
/// nor HOME.
[[nodiscard]] inline std::filesystem::path user_cache_folder() {
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    return std::filesystem::path(cache) / "meganeura";
  }
  const std::string home = environment("HOME");
  return home.empty() ? std::filesystem::path() : std::filesystem::path(home) / ".cache" / "meganeura";
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
