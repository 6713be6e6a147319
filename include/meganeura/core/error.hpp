// SPDX-License-Identifier: MIT
// The one exception type: a category a program can branch on and a sentence a person can act on.
#pragma once
#include <meganeura/config.hpp>

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

enum class error_category {
  invalid_argument,  // a call that can never work: wrong shape, name, dtype, option
  invalid_file,      // a file that is not what it claims; the message gives file, offset, expected and found
  io,                // the operating system refused: open, read, write, rename
  no_device,         // no Vulkan loader, no driver, no device of that name
  unsupported,       // the device or this version cannot do what was asked
  out_of_memory,     // host or device memory
  device_lost,       // the driver gave up on the device
  internal           // a broken invariant of this library; please report
};

[[nodiscard]] constexpr const char* to_string(error_category category) {
  constexpr const char* names[] = {"invalid argument", "invalid file",  "input/output", "no device",
                                   "unsupported",      "out of memory", "device lost",  "internal error"};
  return names[static_cast<int>(category)];
}

/// What every function of this library throws. `what()` is one sentence: what was asked, what was found, what to do. It
/// begins with the thing it is about (a file, a symbol, a parameter) or with the call as written (`init: `); only
/// internal errors name a pass of this library (`plan: `).
class error : public std::runtime_error {
 public:
  error(error_category category, const std::string& message) : std::runtime_error(message), category_(category) {}
  [[nodiscard]] error_category category() const { return category_; }

 private:
  error_category category_;
};

/// Throws `error` with a formatted sentence.
template <class... Arguments>
[[noreturn]] void fail(error_category category, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw error(category, fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace meganeura::inline MEGANEURA_ABI
