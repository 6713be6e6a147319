// SPDX-License-Identifier: MIT
// Bodies of data/idx.hpp.
#pragma once
#include <meganeura/data/gzip.hpp>
#include <meganeura/data/idx.hpp>
#include <meganeura/io/file.hpp>

#include <utility>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

inline std::uint32_t big_endian_32(std::span<const std::uint8_t> bytes, std::size_t at) {
  std::uint32_t result = 0;
  for (std::size_t i = 0; i < 4; ++i) result = result << 8 | bytes[at + i];
  return result;
}

}  // namespace detail

MEGANEURA_INLINE idx_array parse_idx(std::span<const std::uint8_t> bytes, std::size_t rank, const std::string& name) {
  const std::size_t header = 4 + 4 * rank;
  if (bytes.size() < header) {
    io::bad_file(name, bytes.size(), fmt::format("a header of {} bytes", header), "the end of the file");
  }
  const std::uint32_t expected = 0x800 + static_cast<std::uint32_t>(rank);  // 8: unsigned bytes
  const std::uint32_t magic = detail::big_endian_32(bytes, 0);
  if (magic != expected) {
    io::bad_file(name, 0, fmt::format("the magic number {:#010x} (unsigned bytes, {} dimensions)", expected, rank),
                 fmt::format("{:#010x}", magic));
  }
  idx_array result;
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint32_t extent = detail::big_endian_32(bytes, 4 + 4 * i);
    if (extent == 0) io::bad_file(name, 4 + 4 * i, "an extent above 0", "0");
    count = count > (std::uint64_t{1} << 62) / extent ? std::uint64_t{1} << 62 : count * extent;  // never overflows
    result.shape.push_back(extent);
  }
  const std::size_t given = bytes.size() - header;
  if (count != given) {
    io::bad_file(name, count < given ? header + count : bytes.size(),
                 fmt::format("{} bytes of data for the extents [{}]", count, fmt::join(result.shape, ", ")),
                 fmt::format("{}", given));
  }
  result.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end());
  return result;
}

MEGANEURA_INLINE idx_array read_idx(const std::string& path, std::size_t rank) {
  const std::vector<std::uint8_t> bytes = io::read_file(path);
  return is_gzip(bytes) ? parse_idx(gunzip(bytes, path), rank, path) : parse_idx(bytes, rank, path);
}

MEGANEURA_INLINE labelled_images read_idx_pair(const std::string& images, const std::string& labels, int classes) {
  idx_array pictures = read_idx(images, 3), classes_of = read_idx(labels, 1);
  if (pictures.shape[0] != classes_of.shape[0]) {
    io::bad_file(labels, 4, fmt::format("{} labels, as many as there are images in {}", pictures.shape[0], images),
                 fmt::format("{}", classes_of.shape[0]));
  }
  for (std::size_t i = 0; i < classes_of.values.size(); ++i) {
    if (classes_of.values[i] >= classes) {
      io::bad_file(labels, 8 + i, fmt::format("a label below {}", classes), fmt::format("{}", classes_of.values[i]));
    }
  }
  return {pictures.shape[1], pictures.shape[2], std::move(pictures.values), std::move(classes_of.values)};
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
