// SPDX-License-Identifier: MIT
// Vectors whose size comes from a file or a caller: too large a one is an error of ours.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// Room for `size` elements of the content of `name`, untouched as yet.
/// errors: `out_of_memory`, where std::vector has bad_alloc and length_error.
template <class T>
[[nodiscard]] std::vector<T> reserve_for(std::string_view name, std::uint64_t size) {
  try {
    std::vector<T> result;
    if (size <= result.max_size()) {
      result.reserve(static_cast<std::size_t>(size));
      return result;
    }
  } catch (const std::bad_alloc&) {
  }
  fail(error_category::out_of_memory, "{}: {} elements of {} bytes do not fit into memory", shown_path(name), size,
       sizeof(T));
}

/// `size` zeros for the content of `name`. errors: `out_of_memory`.
template <class T>
[[nodiscard]] std::vector<T> allocate_for(std::string_view name, std::uint64_t size) {
  auto result = reserve_for<T>(name, size);
  result.resize(static_cast<std::size_t>(size));
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI
