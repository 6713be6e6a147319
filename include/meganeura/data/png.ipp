// SPDX-License-Identifier: MIT
// Body of data/png.hpp. source: the PNG specification, ISO 15948.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/data/png.hpp>
#include <meganeura/io/file.hpp>

#include <zlib.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

namespace detail {

inline void append_number(std::string& to, std::size_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(number >> shift & 0xff);
}

// Length, type, data, and the checksum of the latter two.
inline void append_chunk(std::string& to, std::string_view type, std::string_view data) {
  append_number(to, data.size());
  const std::size_t begin = to.size();
  to += type;
  to += data;
  append_number(to, ::crc32_z(0, reinterpret_cast<const Bytef*>(to.data() + begin), to.size() - begin));
}

// Each row begins with a 0: its bytes are the pixels themselves.
inline std::string scanlines(std::span<const float> images, const image_shape& shape, std::size_t across,
                             std::size_t down) {
  const std::size_t row_bytes = 1 + across * shape.columns * shape.channels;
  std::string lines(down * shape.rows * row_bytes, '\0');
  std::size_t at = 0;
  for (std::size_t image = 0; at < images.size(); ++image) {
    for (std::size_t channel = 0; channel < shape.channels; ++channel) {
      for (std::size_t row = 0; row < shape.rows; ++row) {
        const std::size_t line = (image / across * shape.rows + row) * row_bytes;
        for (std::size_t column = 0; column < shape.columns; ++column) {
          const std::size_t pixel = image % across * shape.columns + column;
          const float number = images[at++];
          const float value = number > 0 ? std::min(number, 1.0f) : 0.0f;  // of a NaN 0
          lines[line + 1 + pixel * shape.channels + channel] = static_cast<char>(static_cast<int>(value * 255 + 0.5f));
        }
      }
    }
  }
  return lines;
}

}  // namespace detail

MEGANEURA_INLINE void write_png(const std::string& path, std::span<const float> images, const image_shape& shape,
                                std::size_t across) try {
  const std::size_t each = detail::elements_of(shape);
  if ((shape.channels != 1 && shape.channels != 3) || each == 0 || images.empty() || images.size() % each != 0 ||
      across == 0) {
    fail(error_category::invalid_argument,
         "write_png: {} numbers as images of {}x{}x{}, {} in a row, were asked for; give whole images of 1 or 3 "
         "channels, at least one in a row",
         images.size(), shape.channels, shape.rows, shape.columns, across);
  }
  const std::size_t count = images.size() / each, wide = std::min(across, count), down = (count + wide - 1) / wide;
  const std::string lines = detail::scanlines(images, shape, wide, down);
  uLongf size = ::compressBound(lines.size());
  std::string packed(size, '\0');
  if (::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(lines.data()),
                 lines.size()) != Z_OK) {
    fail(error_category::out_of_memory, "write_png: zlib has no memory for {} bytes", lines.size());
  }
  std::string header;
  detail::append_number(header, wide * shape.columns);
  detail::append_number(header, down * shape.rows);
  header += {8, static_cast<char>(shape.channels == 1 ? 0 : 2), 0, 0, 0};
  std::string file = "\x89PNG\r\n\x1a\n";
  detail::append_chunk(file, "IHDR", header);
  detail::append_chunk(file, "IDAT", std::string_view(packed).substr(0, size));
  detail::append_chunk(file, "IEND", {});
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(file))};
  io::write_file(path, pieces);
} catch (...) {
  rethrow_as_error("writing an image");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
