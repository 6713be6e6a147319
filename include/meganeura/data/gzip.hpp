// SPDX-License-Identifier: MIT
// Unpacking .gz files (RFC 1951 and 1952) by zlib, piece by piece.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/data/byte_source.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// True when the bytes begin as a gzip file does.
[[nodiscard]] inline bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/// The unpacked bytes of a gzip file; members one after another are joined. Length and CRC-32 of each member are
/// checked when its end is reached, so ask until there is no more before believing the content.
class gzip_reader {
 public:
  /// `name` is for messages.
  gzip_reader(byte_source packed, std::string name);
  ~gzip_reader();
  gzip_reader(const gzip_reader&) = delete;
  gzip_reader& operator=(const gzip_reader&) = delete;

  /// Fills `into` and returns how many bytes there were: fewer only at the end.
  /// errors: `invalid_file` when it is truncated or damaged.
  std::size_t read(std::span<std::uint8_t> into);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// The whole unpacked content.
/// errors: `invalid_file` as `gzip_reader`, and when it would unpack to more than `limit` bytes; `out_of_memory`.
[[nodiscard]] std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> bytes, const std::string& name,
                                               std::size_t limit = std::size_t{1} << 30);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/gzip.ipp>
#endif
