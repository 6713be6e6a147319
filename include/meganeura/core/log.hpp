// SPDX-License-Identifier: MIT
// The one way this library speaks: a sink the caller hands in. Silent by default, no global.
#pragma once
#include <meganeura/config.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

enum class log_level : std::uint8_t { debug, info, warning, error };

[[nodiscard]] constexpr const char* to_string(log_level level) {
  constexpr const char* names[] = {"debug", "info", "warning", "error"};
  return names[static_cast<int>(level)];
}

/// Receives one message a call. It may be called from any thread of the library, never from two at once, and never
/// after the object it was given to is gone; what it throws is lost, and an empty sink means silence.
using log_sink = std::function<void(log_level, std::string_view)>;

/// Formats and hands over a message; costs nothing but a test when the sink is empty.
template <class... Arguments>
void write_log(const log_sink& sink, log_level level, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  if (sink) sink(level, fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace meganeura::inline MEGANEURA_ABI
