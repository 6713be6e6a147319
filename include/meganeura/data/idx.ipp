// SPDX-License-Identifier: MIT
// Bodies of data/idx.hpp.
#pragma once
#include <meganeura/core/quote.hpp>
#include <meganeura/data/exact_bytes.hpp>
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

/// The header: magic number and extents. errors: invalid_file.
inline std::vector<std::size_t> parse_idx_header(const byte_source& bytes, std::size_t rank, const std::string& name) {
  std::vector<std::uint8_t> header(4 + 4 * rank);
  if (const std::size_t got = bytes(header); got < header.size()) {
    io::bad_file(name, got, fmt::format("a header of {} bytes", header.size()), "the end of the file");
  }
  const std::uint32_t expected = 0x800 + static_cast<std::uint32_t>(rank);  // 8: unsigned bytes
  const std::uint32_t magic = big_endian_32(header, 0);
  if (magic != expected) {
    io::bad_file(name, 0, fmt::format("the magic number {:#010x} (unsigned bytes, {} dimensions)", expected, rank),
                 fmt::format("{:#010x}", magic));
  }
  std::vector<std::size_t> shape;
  for (std::size_t i = 0; i < rank; ++i) {
    shape.push_back(big_endian_32(header, 4 + 4 * i));
    if (shape.back() == 0) io::bad_file(name, 4 + 4 * i, "an extent above 0", "0");
  }
  return shape;
}

}  // namespace detail

MEGANEURA_INLINE idx_array parse_idx(const byte_source& bytes, std::size_t rank, const std::string& name,
                                     std::uint64_t most) {
  idx_array result;
  result.shape = detail::parse_idx_header(bytes, rank, name);
  const std::uint64_t count = detail::bytes_of(result.shape, 1, most, 4, name);
  result.values = detail::read_exactly(bytes, count, 4 + 4 * rank, name, result.shape);
  return result;
}

MEGANEURA_INLINE idx_array parse_idx(std::span<const std::uint8_t> bytes, std::size_t rank, const std::string& name,
                                     std::uint64_t most) {
  return parse_idx(source_of(bytes), rank, name, most);
}

MEGANEURA_INLINE idx_array read_idx(const std::string& path, std::size_t rank, std::uint64_t most) {
  const io::file_reader file(path);
  std::uint8_t magic[2] = {};
  (void)source_of(file)(magic);
  if (!is_gzip(magic)) return parse_idx(source_of(file), rank, path, most);
  gzip_reader unpacked(source_of(file), path);
  return parse_idx([&](std::span<std::uint8_t> into) { return unpacked.read(into); }, rank, path, most);
}

MEGANEURA_INLINE labelled_images read_idx_pair(const std::string& images, const std::string& labels, int classes,
                                               std::uint64_t most) {
  idx_array pictures = read_idx(images, 3, most), classes_of = read_idx(labels, 1, most);
  if (pictures.shape[0] != classes_of.shape[0]) {
    io::bad_file(labels, 4,
                 fmt::format("{} labels, as many as there are images in {}", pictures.shape[0], shown_path(images)),
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
