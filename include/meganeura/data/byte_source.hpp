// SPDX-License-Identifier: MIT
// Bytes one after another, from memory or from a file, so that readers need not hold a whole file.
#pragma once
#include <meganeura/io/file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Fills what it is given and returns how many bytes there were: fewer only at the end.
using byte_source = std::function<std::size_t(std::span<std::uint8_t>)>;

/// Of bytes that outlive the source.
[[nodiscard]] inline byte_source source_of(std::span<const std::uint8_t> bytes) {
  return [bytes](std::span<std::uint8_t> into) mutable {
    const std::size_t count = std::min(bytes.size(), into.size());
    std::copy_n(bytes.begin(), count, into.begin());
    bytes = bytes.subspan(count);
    return count;
  };
}

/// Of a file that outlives the source.
[[nodiscard]] inline byte_source source_of(const io::file_reader& file) {
  return [&file, at = std::uint64_t{0}](std::span<std::uint8_t> into) mutable {
    const std::size_t count = file.read_some(at, std::as_writable_bytes(into));
    at += count;
    return count;
  };
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
