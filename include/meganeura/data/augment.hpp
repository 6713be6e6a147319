// SPDX-License-Identifier: MIT
// Images made a little different each time they are seen, and normalised; on the host, in a loader's function.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/checked.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/data/random.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// An image of f32, [channels, rows, columns].
struct image_shape {
  std::size_t channels = 1, rows = 0, columns = 0;
};

namespace detail {

/// errors: invalid_argument for more than 64 bits count.
[[nodiscard]] inline std::size_t elements_of(const image_shape& shape) {
  return static_cast<std::size_t>(std::int64_t{checked_int(shape.channels) * shape.rows * shape.columns});
}

/// errors: invalid_argument.
inline void check_image(const char* call, std::span<const float> image, const image_shape& shape) {
  if (elements_of(shape) == image.size()) return;
  fail(error_category::invalid_argument, "{}: an image of {}x{}x{} has not {} numbers", call, shape.channels,
       shape.rows, shape.columns, image.size());
}

}  // namespace detail

/// A copy of the image, moved by up to `padding` rows and columns either way, with `with` where nothing was: the crop
/// of a padded image that keeps its size. All moves are as likely. A random number for rows, one for columns.
/// shapes: [channels, rows, columns] -> the same. errors: invalid_argument for another number of floats.
[[nodiscard]] inline std::vector<float> random_crop(std::span<const float> image, const image_shape& shape,
                                                    std::size_t padding, random_numbers& random, float with = 0) {
  detail::check_image("random_crop", image, shape);
  const std::size_t down = random.below(2 * padding + 1), right = random.below(2 * padding + 1);
  auto result = allocate_for<float>("random_crop", image.size());
  std::ranges::fill(result, with);
  // Row r of the result is row r + down - padding of the image, where there is one.
  const auto first = [&](std::size_t by) { return padding - std::min(padding, by); };
  const auto count = [&](std::size_t by, std::size_t size) {
    const std::size_t moved = by > padding ? by - padding : padding - by;
    return size - std::min(size, moved);
  };
  const std::size_t rows = count(down, shape.rows), columns = count(right, shape.columns);
  for (std::size_t channel = 0; channel < shape.channels && rows * columns > 0; ++channel) {
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t to = first(down) + i, from = to + down - padding;
      const auto at = [&](std::size_t row, std::size_t column) {
        return (channel * shape.rows + row) * shape.columns + column;
      };
      const auto source = image.subspan(at(from, first(right) + right - padding), columns);
      std::copy(source.begin(), source.end(), result.begin() + static_cast<std::ptrdiff_t>(at(to, first(right))));
    }
  }
  return result;
}

/// Turns the image left to right, in place, once in two times. One random number.
/// errors: invalid_argument for another number of floats.
inline void random_flip(std::span<float> image, const image_shape& shape, random_numbers& random) {
  detail::check_image("random_flip", image, shape);
  if (random.below(2) == 0) return;
  for (std::size_t row = 0; row < shape.channels * shape.rows; ++row) {
    std::ranges::reverse(image.subspan(row * shape.columns, shape.columns));
  }
}

/// (x - mean) / deviation of each channel, in place. errors: invalid_argument for another number of floats, of means or
/// deviations, and for a deviation of 0.
inline void normalise(std::span<float> image, const image_shape& shape, std::span<const float> mean,
                      std::span<const float> deviation) {
  detail::check_image("normalise", image, shape);
  if (mean.size() != shape.channels || deviation.size() != shape.channels) {
    fail(error_category::invalid_argument, "normalise: {} means and {} deviations were given for {} channels",
         mean.size(), deviation.size(), shape.channels);
  }
  if (const auto zero = std::ranges::find(deviation, 0.0f); zero != deviation.end()) {
    fail(error_category::invalid_argument, "normalise: the deviation of channel {} is 0; give 1 to leave it as it is",
         zero - deviation.begin());
  }
  const std::size_t pixels = shape.rows * shape.columns;
  for (std::size_t channel = 0; channel < shape.channels; ++channel) {
    for (float& x : image.subspan(channel * pixels, pixels)) x = (x - mean[channel]) / deviation[channel];
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
