// SPDX-License-Identifier: MIT
// A set of images of one size, each with a class label: what every image classification example trains on.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
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
inline void to_unit_interval(std::span<const std::uint8_t> pixels, std::span<float> output) {
  if (pixels.size() != output.size()) {
    fail(error_category::invalid_argument,
         "to_unit_interval: {} pixels were to fill {} numbers; use images of the model's size", pixels.size(),
         output.size());
  }
  for (std::size_t i = 0; i < pixels.size(); ++i) output[i] = static_cast<float>(pixels[i]) / 255.0f;
}

/// All pixels as numbers from 0 to 1, [size, rows * columns]. errors: out_of_memory.
[[nodiscard]] inline std::vector<float> to_unit_interval(std::span<const std::uint8_t> pixels) {
  std::vector<float> result = allocate_for<float>("to_unit_interval", pixels.size());
  to_unit_interval(pixels, result);
  return result;
}

inline void labelled_images::fill(const chosen_samples& chosen, image_batch& into) const try {
  const std::size_t each = pixels_per_image();
  if (pixels.size() != size() * each) {
    fail(error_category::invalid_argument, "{} images of {}x{}x{} pixels need {} numbers; there are {}", size(),
         channels, rows, columns, size() * each, pixels.size());
  }
  into.images.resize(chosen.indices.size() * each);
  into.labels.resize(chosen.indices.size());
  for (std::size_t i = 0; i < chosen.indices.size(); ++i) {
    to_unit_interval(image(chosen.indices[i]), std::span(into.images).subspan(i * each, each));
    into.labels[i] = labels[chosen.indices[i]];
  }
} catch (...) {
  rethrow_as_error("making a batch of images");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
