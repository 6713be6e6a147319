// SPDX-License-Identifier: MIT
// Definitions for data/labelled_images.hpp.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/data/labelled_images.hpp>

namespace meganeura::inline MEGANEURA_ABI::data {

MEGANEURA_INLINE void to_unit_interval(std::span<const std::uint8_t> pixels, std::span<float> output) {
  if (pixels.size() != output.size()) {
    fail(error_category::invalid_argument,
         "to_unit_interval: {} pixels were to fill {} numbers; use images of the model's size", pixels.size(),
         output.size());
  }
  for (std::size_t i = 0; i < pixels.size(); ++i) output[i] = static_cast<float>(pixels[i]) / 255.0f;
}

MEGANEURA_INLINE std::vector<float> to_unit_interval(std::span<const std::uint8_t> pixels) {
  std::vector<float> result = allocate_for<float>("to_unit_interval", pixels.size());
  to_unit_interval(pixels, result);
  return result;
}

MEGANEURA_INLINE void labelled_images::fill(const chosen_samples& chosen, image_batch& into) const try {
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
