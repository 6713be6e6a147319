// SPDX-License-Identifier: MIT
// What is wrong with a file of tensors, gathered into one sentence.
#pragma once
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/io/safetensors.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::detail {

inline constexpr const char* checkpoint_key = "meganeura.checkpoint";  // metadata of a training run's file

/// What is wrong with a file, in one sentence that a person can read: beyond the first ones, only their number.
struct problem_list {
  static constexpr std::size_t most = 5;
  std::size_t count = 0;
  std::string text;

  template <class Describe>
  void add(Describe describe) {
    if (count++ < most) text += "; " + describe();
  }
  [[nodiscard]] std::string sentence() const {
    return count > most ? fmt::format("{}; and {} more", text, count - most) : text;
  }
};

// `tensors`: those that it may be in the file.
template <class Tensors>
std::string describe_missing(std::string_view name, const Tensors& tensors) {
  const std::string near = nearest_of(name, tensors);
  return fmt::format("{} is missing{}", quote(name), near.empty() ? "" : " (nearest: " + quote(near) + ")");
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
