// SPDX-License-Identifier: MIT
// Shuffled mini-batches of labelled images, as the numbers a model takes.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/data/labelled_images.hpp>

#include <algorithm>
#include <numeric>
#include <random>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Goes through a set in another order every epoch; images that do not fill a last batch wait for the next epoch. The
/// same seed gives the same order everywhere. `set` must outlive this object.
class shuffled_batches {
 public:
  /// errors: invalid_argument when the set does not fill one batch or has not the pixels of its images; out_of_memory.
  shuffled_batches(const labelled_images& set, std::size_t batch, std::uint64_t seed)
      : set_(&set),
        random_(seed),
        order_(allocate_for<std::size_t>("shuffled_batches", checked_size(set, batch))),
        images_(allocate_for<float>("shuffled_batches", batch * set.pixels_per_image())),
        labels_(allocate_for<std::int32_t>("shuffled_batches", batch)) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    shuffle();
  }

  [[nodiscard]] std::size_t per_epoch() const { return order_.size() / labels_.size(); }

  /// Fills images() and labels() with the next batch; false at the end of an epoch, and the next call begins another.
  bool next() {
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

  /// Passes over so many batches without reading them: a set of the same seed that skipped trainer.steps() batches goes
  /// on where that trainer stopped. After a whole epoch the next one begins.
  void skip(std::uint64_t batches) {
    const std::size_t end = per_epoch() * labels_.size();
    for (; batches > 0; --batches) {
      if (next_ == end) shuffle();
      next_ += labels_.size();
    }
    if (next_ == end) shuffle();
  }

  [[nodiscard]] const std::vector<float>& images() const { return images_; }         // [batch, rows * columns], 0 to 1
  [[nodiscard]] const std::vector<std::int32_t>& labels() const { return labels_; }  // [batch]

 private:
  static std::size_t checked_size(const labelled_images& set, std::size_t batch) {
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

  void shuffle() {  // Fisher and Yates; std::shuffle differs between standard libraries
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_() % i]);
    next_ = 0;
  }

  const labelled_images* set_;
  std::mt19937_64 random_;
  std::vector<std::size_t> order_;
  std::vector<float> images_;
  std::vector<std::int32_t> labels_;
  std::size_t next_ = 0;
};

}  // namespace meganeura::inline MEGANEURA_ABI::data
