// SPDX-License-Identifier: MIT
// Body of data/cifar.hpp.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/data/cifar.hpp>
#include <meganeura/io/file.hpp>

#include <array>
#include <cstdint>
#include <span>

namespace meganeura::inline MEGANEURA_ABI::data {

MEGANEURA_INLINE labelled_images read_cifar10(const std::vector<std::string>& paths) try {
  constexpr std::size_t pixels = 3 * 32 * 32, record = 1 + pixels;
  labelled_images result{32, 32, {}, {}, 3};
  std::vector<io::file_reader> files;
  std::uint64_t count = 0;
  for (const std::string& path : paths) {
    const io::file_reader& file = files.emplace_back(path);
    if (file.size() == 0 || file.size() % record != 0) {
      io::bad_file(path, file.size() / record * record, fmt::format("records of {} bytes, at least one", record),
                   fmt::format("{} bytes", file.size() % record));
    }
    count += file.size() / record;
  }
  result.pixels = reserve_for<std::uint8_t>("read_cifar10", count * pixels);
  result.labels = reserve_for<std::uint8_t>("read_cifar10", count);
  std::array<std::uint8_t, record> bytes{};
  for (const io::file_reader& file : files) {
    for (std::uint64_t at = 0; at < file.size(); at += record) {
      file.read(at, std::as_writable_bytes(std::span(bytes)));
      if (bytes[0] > 9) io::bad_file(file.path(), at, "a label below 10", fmt::format("{}", bytes[0]));
      result.labels.push_back(bytes[0]);
      result.pixels.insert(result.pixels.end(), bytes.begin() + 1, bytes.end());
    }
  }
  return result;
} catch (...) {
  rethrow_as_error("reading images");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
