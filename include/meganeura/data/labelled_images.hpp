// SPDX-License-Identifier: MIT
// A set of images of one size, each with a class label: what every image classification example trains on.
#pragma once
#include <meganeura/data/loader.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Images as a model takes them.
struct image_batch {
  std::vector<float> images;         // [batch, channels * rows * columns], 0 to 1
  std::vector<std::int32_t> labels;  // [batch]
};

/// A set of a `loader`: loader batches(digits.train, 32, {.shuffle = true}).
struct labelled_images {
  using batch = image_batch;

  std::size_t rows = 0, columns = 0;
  std::vector<std::uint8_t> pixels;  // [size, channels, rows, columns]; grey ones from 0, background, to 255, ink
  std::vector<std::uint8_t> labels;  // [size]
  std::size_t channels = 1;

  [[nodiscard]] std::size_t size() const { return labels.size(); }
  [[nodiscard]] std::size_t pixels_per_image() const { return channels * rows * columns; }
  [[nodiscard]] std::span<const std::uint8_t> image(std::size_t index) const {
    return std::span(pixels).subspan(index * pixels_per_image(), pixels_per_image());
  }

  /// Copies image and label `index` of `other` behind the last one; the first one sets the size.
  void append(const labelled_images& other, std::size_t index) {
    rows = other.rows;
    columns = other.columns;
    channels = other.channels;
    const auto source = other.image(index);
    pixels.insert(pixels.end(), source.begin(), source.end());
    labels.push_back(other.labels[index]);
  }

  /// errors: invalid_argument when the pixels are not those of `size` images; out_of_memory.
  void fill(const chosen_samples& chosen, image_batch& into) const;
};

/// Grey values as numbers from 0 to 1.
/// errors: invalid_argument when `output` has another size than `pixels`.
void to_unit_interval(std::span<const std::uint8_t> pixels, std::span<float> output);
/// All pixels as numbers from 0 to 1, [size, rows * columns]. errors: out_of_memory.
[[nodiscard]] std::vector<float> to_unit_interval(std::span<const std::uint8_t> pixels);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/labelled_images.ipp>
#endif
