// SPDX-License-Identifier: MIT
// What a call throws: the category of the error, and its sentence.
#pragma once
#include <meganeura/core/error.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::support {

/// The category of the meganeura::error that `call` throws, or nothing if it throws none.
template <class Call>
[[nodiscard]] std::optional<error_category> thrown_by(const Call& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const error& problem) {
    if (text != nullptr) *text = problem.what();
    return problem.category();
  }
  return std::nullopt;
}

/// The message of the meganeura::error that `call` throws, or "no error".
template <class Call>
[[nodiscard]] std::string sentence_of(const Call& call) {
  std::string text = "no error";
  static_cast<void>(thrown_by(call, &text));
  return text;
}

/// The same of a mistake of the caller: what is thrown must be an error_category::invalid_argument.
template <class Call>
[[nodiscard]] std::string refusal(const Call& call) {
  std::string text = "no error";
  const auto category = thrown_by(call, &text);
  EXPECT_TRUE(!category || category == error_category::invalid_argument) << text;
  return text;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
