// SPDX-License-Identifier: MIT
// A set of grey images of one size, each with a class label: what every image classification example trains on.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

struct labelled_images {
  std::size_t rows = 0, columns = 0;
  std::vector<std::uint8_t> pixels;  // [size, rows, columns], 0 background to 255 ink
  std::vector<std::uint8_t> labels;  // [size]

  [[nodiscard]] std::size_t size() const { return labels.size(); }
  [[nodiscard]] std::size_t pixels_per_image() const { return rows * columns; }
  [[nodiscard]] std::span<const std::uint8_t> image(std::size_t index) const {
    return std::span(pixels).subspan(index * pixels_per_image(), pixels_per_image());
  }

  /// Copies image and label `index` of `other` behind the last one; the first one sets the size.
  void append(const labelled_images& other, std::size_t index) {
    rows = other.rows;
    columns = other.columns;
    const auto source = other.image(index);
    pixels.insert(pixels.end(), source.begin(), source.end());
    labels.push_back(other.labels[index]);
  }
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

}  // namespace meganeura::inline MEGANEURA_ABI::data
