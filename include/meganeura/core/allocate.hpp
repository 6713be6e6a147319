// SPDX-License-Identifier: MIT
// Vectors whose size comes from a file or a caller: too large a one is an error of ours.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// `size` zeros for the content of `name`. errors: `out_of_memory`, where std::vector has bad_alloc and length_error.
template <class T>
[[nodiscard]] std::vector<T> allocate_for(const std::string& name, std::uint64_t size) {
  try {
    if (size <= std::vector<T>().max_size()) return std::vector<T>(static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {
  }
  fail(error_category::out_of_memory, "{}: {} elements of {} bytes do not fit into memory", name, size, sizeof(T));
}

}  // namespace meganeura::inline MEGANEURA_ABI
