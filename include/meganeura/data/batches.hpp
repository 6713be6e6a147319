// SPDX-License-Identifier: MIT
// Shuffled mini-batches of labelled images, as the numbers a model takes.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/data/labelled_images.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Goes through a set in another order every epoch; images that do not fill a last batch wait for the next epoch. The
/// same seed gives the same order everywhere. `set` must outlive this object.
class shuffled_batches {
 public:
  /// errors: invalid_argument when the set does not fill one batch or has not the pixels of its images; out_of_memory.
  shuffled_batches(const labelled_images& set, std::size_t batch, std::uint64_t seed);

  [[nodiscard]] std::size_t per_epoch() const { return order_.size() / labels_.size(); }

  /// Fills images() and labels() with the next batch; false at the end of an epoch, and the next call begins another.
  bool next();

  /// Passes over so many batches without reading them: a set of the same seed that skipped trainer.steps() batches goes
  /// on where that trainer stopped. After a whole epoch the next one begins.
  void skip(std::uint64_t batches);

  [[nodiscard]] const std::vector<float>& images() const { return images_; }         // [batch, rows * columns], 0 to 1
  [[nodiscard]] const std::vector<std::int32_t>& labels() const { return labels_; }  // [batch]

 private:
  void shuffle();

  const labelled_images* set_;
  std::mt19937_64 random_;
  std::vector<std::size_t> order_;
  std::vector<float> images_;
  std::vector<std::int32_t> labels_;
  std::size_t next_ = 0;
};

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/batches.ipp>
#endif
