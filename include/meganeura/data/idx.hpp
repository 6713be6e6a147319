// SPDX-License-Identifier: MIT
// The IDX format of MNIST and its relatives: a magic number, big-endian extents, then bytes; plain or gzipped.
#pragma once
#include <meganeura/data/byte_source.hpp>
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

/// Far more than MNIST and its relatives have; a file that says it needs more is not believed.
inline constexpr std::uint64_t largest_idx = std::uint64_t{1} << 30;

/// Parses unsigned-byte IDX of `rank` dimensions: 3 for images, 1 for labels. `name` is for messages. Not more is read
/// and kept than the extents say, however much there is.
/// errors: `invalid_file` for another magic number, an empty or impossible shape, more than `most` bytes of data, and
/// too few or too many bytes; `out_of_memory`.
[[nodiscard]] idx_array parse_idx(const byte_source& bytes, std::size_t rank, const std::string& name,
                                  std::uint64_t most = largest_idx);
[[nodiscard]] idx_array parse_idx(std::span<const std::uint8_t> bytes, std::size_t rank, const std::string& name,
                                  std::uint64_t most = largest_idx);

/// Reads a file and unpacks it when it is gzipped, whatever it is called.
/// errors: as `parse_idx`, and `io` when it cannot be read.
[[nodiscard]] idx_array read_idx(const std::string& path, std::size_t rank, std::uint64_t most = largest_idx);

/// Reads a pair of files as images of `classes` classes, of at most `most` bytes each.
/// errors: as `read_idx`, and `invalid_file` when the counts differ or a label is not below `classes`.
[[nodiscard]] labelled_images read_idx_pair(const std::string& images, const std::string& labels, int classes = 10,
                                            std::uint64_t most = largest_idx);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/idx.ipp>
#endif
