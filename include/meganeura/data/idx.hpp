// SPDX-License-Identifier: MIT
// The IDX format of MNIST and its relatives: a magic number, big-endian extents, then bytes; plain or gzipped.
#pragma once
#include <meganeura/data/labelled_images.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

struct idx_array {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> values;  // row-major
};

/// Parses unsigned-byte IDX of `rank` dimensions: 3 for images, 1 for labels. `name` is for messages.
/// errors: `invalid_file` for another magic number, an empty or impossible shape, and too few or too many bytes.
[[nodiscard]] idx_array parse_idx(std::span<const std::uint8_t> bytes, std::size_t rank, const std::string& name);

/// Reads a file and unpacks it when it is gzipped, whatever it is called.
/// errors: as `parse_idx`, and `io` when it cannot be read.
[[nodiscard]] idx_array read_idx(const std::string& path, std::size_t rank);

/// Reads a pair of files as images of `classes` classes.
/// errors: as `read_idx`, and `invalid_file` when the counts differ or a label is not below `classes`.
[[nodiscard]] labelled_images read_idx_pair(const std::string& images, const std::string& labels, int classes = 10);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/idx.ipp>
#endif
