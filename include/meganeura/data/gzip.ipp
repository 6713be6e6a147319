// SPDX-License-Identifier: MIT
// Bodies of data/gzip.hpp.
#pragma once
#include <meganeura/core/quote.hpp>
#include <meganeura/data/gzip.hpp>

#include <zlib.h>
#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::data {

struct gzip_reader::state {
  byte_source packed;
  std::string name;
  z_stream stream{};
  std::array<std::uint8_t, 65536> input;
  std::uint64_t fed = 0;      // bytes of the file handed to zlib
  bool member_ended = false;  // and no other one begun
  bool padded = false;        // zeros followed a member

  [[noreturn]] void refuse(std::string_view found) const {
    io::bad_file(name, fed - stream.avail_in, "intact gzip data", found);
  }

  /// False at the end of the file.
  bool refill() {
    if (stream.avail_in > 0) return true;
    const std::size_t got = packed(input);
    stream.next_in = input.data();
    stream.avail_in = static_cast<uInt>(got);
    fed += got;
    return got > 0;
  }

  /// Passes over zeros behind a member, with which tapes and block devices fill up; false at the end of the file. What
  /// follows zeros is no member.
  bool skip_padding() {
    while (refill()) {
      for (; stream.avail_in > 0 && *stream.next_in == 0; ++stream.next_in, --stream.avail_in) padded = true;
      if (stream.avail_in == 0) continue;
      if (padded) io::bad_file(name, fed - stream.avail_in, "zeros to the end of the file", "other bytes");
      return true;
    }
    return false;
  }

  /// Unpacks once into `into`; returns how many bytes.
  std::size_t unpack(std::span<std::uint8_t> into) {
    stream.next_out = into.data();
    stream.avail_out = static_cast<uInt>(std::min<std::size_t>(into.size(), 1u << 30));
    const uInt room = stream.avail_out;
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    member_ended = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) fail(error_category::out_of_memory, "{}: no memory to unpack it", shown_path(name));
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      refuse(stream.msg == nullptr ? "a preset dictionary" : stream.msg);
    }
    return room - stream.avail_out;
  }
};

MEGANEURA_INLINE gzip_reader::gzip_reader(byte_source packed, std::string name) : state_(std::make_unique<state>()) {
  state_->packed = std::move(packed);
  state_->name = std::move(name);
  constexpr int gzip_only = 16 + MAX_WBITS;
  if (::inflateInit2(&state_->stream, gzip_only) != Z_OK) {
    fail(error_category::out_of_memory, "{}: no memory to unpack it", shown_path(state_->name));
  }
}

MEGANEURA_INLINE gzip_reader::~gzip_reader() { ::inflateEnd(&state_->stream); }

MEGANEURA_INLINE std::size_t gzip_reader::read(std::span<std::uint8_t> into) {
  std::size_t filled = 0;
  while (filled < into.size()) {
    const bool more = state_->member_ended ? state_->skip_padding() : state_->refill();
    if (state_->member_ended) {
      if (!more) break;
      ::inflateReset(&state_->stream);
    }
    const std::size_t got = state_->unpack(into.subspan(filled));
    // At the end of the file zlib may still hold output; when it does not, the file was cut.
    if (got == 0 && !more && !state_->member_ended) state_->refuse("the end of the file");
    filled += got;
  }
  return filled;
}

MEGANEURA_INLINE std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> bytes, const std::string& name,
                                                  std::size_t limit) {
  gzip_reader reader(source_of(bytes), name);
  std::vector<std::uint8_t> result;
  std::array<std::uint8_t, 65536> piece;
  try {
    while (const std::size_t got = reader.read(piece)) {
      if (got > limit - result.size()) {
        io::bad_file(name, bytes.size(), fmt::format("at most {} unpacked bytes", limit), "more");
      }
      result.insert(result.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got));
    }
  } catch (const std::bad_alloc&) {
    fail(error_category::out_of_memory, "{}: its content does not fit into memory", shown_path(name));
  }
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
