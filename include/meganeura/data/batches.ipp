// SPDX-License-Identifier: MIT
// Bodies of data/batches.hpp.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/data/batches.hpp>

#include <numeric>
#include <span>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

// Of the set, which fills a batch and has its pixels.
inline std::size_t checked_size(const labelled_images& set, std::size_t batch) {
  if (batch == 0) {
    fail(error_category::invalid_argument, "shuffled_batches: a batch of 0 was asked for; it has at least 1 image");
  }
  if (set.size() < batch) {
    fail(error_category::invalid_argument, "{} images do not fill a batch of {}; take a smaller batch", set.size(),
         batch);
  }
  if (set.pixels.size() != set.size() * set.pixels_per_image()) {
    fail(error_category::invalid_argument, "{} images of {}x{} pixels need {} pixels; there are {}", set.size(),
         set.rows, set.columns, set.size() * set.pixels_per_image(), set.pixels.size());
  }
  return set.size();
}

}  // namespace detail

MEGANEURA_INLINE shuffled_batches::shuffled_batches(const labelled_images& set, std::size_t batch, std::uint64_t seed)
    : set_(&set),
      random_(seed),
      order_(allocate_for<std::size_t>("shuffled_batches", detail::checked_size(set, batch))),
      images_(allocate_for<float>("shuffled_batches", batch * set.pixels_per_image())),
      labels_(allocate_for<std::int32_t>("shuffled_batches", batch)) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  shuffle();
}

MEGANEURA_INLINE bool shuffled_batches::next() {
  if (next_ == per_epoch() * labels_.size()) {
    shuffle();
    return false;
  }
  for (std::int32_t& label : labels_) {
    const std::size_t chosen = order_[next_++], pixels = set_->pixels_per_image();
    const auto place = static_cast<std::size_t>(&label - labels_.data());
    to_unit_interval(set_->image(chosen), std::span(images_).subspan(place * pixels, pixels));
    label = set_->labels[chosen];
  }
  return true;
}

MEGANEURA_INLINE void shuffled_batches::skip(std::uint64_t batches) {
  const std::size_t end = per_epoch() * labels_.size();
  for (; batches > 0; --batches) {
    if (next_ == end) shuffle();
    next_ += labels_.size();
  }
  if (next_ == end) shuffle();
}

// Fisher and Yates; std::shuffle differs between standard libraries.
MEGANEURA_INLINE void shuffled_batches::shuffle() {
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_() % i]);
  next_ = 0;
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
