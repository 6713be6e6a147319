// SPDX-License-Identifier: MIT
// Images of numbers as a PNG file, to look at.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/data/augment.hpp>

#include <cstddef>
#include <span>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Writes images as one PNG file, `across` of them in a row: write_png("digits.png", batch.images, {1, 28, 28}, 10).
/// shapes: images [n, channels, rows, columns]; 1 channel is grey, 3 are red, green and blue; what is left of the last
/// row is black. Numbers from 0 to 1 are written with 8 bits; what is beyond is cut, and NaN is 0.
/// errors: invalid_argument for other channels, no images or no whole ones, and nothing across; `io`; out_of_memory.
void write_png(const std::string& path, std::span<const float> images, const image_shape& shape,
               std::size_t across = 1);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/png.ipp>
#endif
