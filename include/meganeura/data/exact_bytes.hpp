// SPDX-License-Identifier: MIT
// Arrays behind the header of a file: nothing is believed that the file, or what the reader allows, cannot hold.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/data/byte_source.hpp>
#include <meganeura/io/file.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data::detail {

/// The number that `count` bytes from `at` on hold, the lowest byte first.
template <class Number = std::uint32_t>
[[nodiscard]] Number little_endian(std::span<const std::uint8_t> bytes, std::size_t at, std::size_t count) {
  Number result = 0;
  for (std::size_t i = count; i > 0; --i) result = result << 8 | bytes[at + i - 1];
  return result;
}

/// Bytes of elements of `each`: each times the extents. errors: invalid_file, at byte `at`, when they are more than
/// `most`.
inline std::uint64_t bytes_of(std::span<const std::size_t> shape, std::uint64_t each, std::uint64_t most,
                              std::uint64_t at, const std::string& name) {
  std::uint64_t bytes = each;
  for (const std::uint64_t extent : shape) {
    if (bytes != 0 && extent > most / bytes) {
      io::bad_file(name, at, fmt::format("extents of at most {} bytes of data", most),
                   fmt::format("[{}]", fmt::join(shape, ", ")));
    }
    bytes *= extent;
  }
  return bytes;
}

/// Exactly `count` bytes and no more behind them. Memory is touched as they come, so that a file which only says it has
/// many costs nothing. errors: invalid_file; out_of_memory.
inline std::vector<std::uint8_t> read_exactly(const byte_source& bytes, std::uint64_t count, std::uint64_t begin,
                                              const std::string& name, std::span<const std::size_t> shape) {
  const auto expected = [&] {
    return fmt::format("{} bytes of data for the extents [{}]", count, fmt::join(shape, ", "));
  };
  auto values = reserve_for<std::uint8_t>(name, count);
  while (values.size() < count) {
    const std::size_t filled = values.size(),
                      piece = static_cast<std::size_t>(std::min<std::uint64_t>(count - filled, 1u << 20));
    values.resize(filled + piece);
    const std::size_t got = bytes(std::span(values).subspan(filled));
    if (got < piece) io::bad_file(name, begin + filled + got, expected(), fmt::format("{}", filled + got));
  }
  std::uint8_t more = 0;
  if (bytes({&more, 1}) != 0) io::bad_file(name, begin + count, expected(), "more");
  return values;
}

}  // namespace meganeura::inline MEGANEURA_ABI::data::detail
