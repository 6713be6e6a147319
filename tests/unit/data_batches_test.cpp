// SPDX-License-Identifier: MIT
// Mini-batches: every image at most once an epoch, labels beside their images, another order each epoch.
#include <meganeura/data/batches.hpp>
#include <meganeura/data/digits.hpp>

#include <gtest/gtest.h>

#include <set>

namespace {

using namespace meganeura;

data::labelled_images numbered(std::size_t count) {
  data::labelled_images set;
  set.rows = 1, set.columns = 2;
  for (std::size_t i = 0; i < count; ++i) {
    set.pixels.insert(set.pixels.end(), 2, static_cast<std::uint8_t>(i));
    set.labels.push_back(static_cast<std::uint8_t>(i));
  }
  return set;
}

TEST(data_batches, what_cannot_be_is_an_error_of_ours) {
  const auto set = numbered(3);
  for (const std::size_t batch : {std::size_t{0}, std::size_t{4}, std::size_t{1} << 62, ~std::size_t{0}}) {
    EXPECT_THROW(data::shuffled_batches(set, batch, 1), error) << batch;
  }
  auto short_of_pixels = set;
  short_of_pixels.pixels.pop_back();
  EXPECT_THROW(data::shuffled_batches(short_of_pixels, 1, 1), error);
  EXPECT_THROW((void)data::make_digits(std::size_t{1} << 60, 1), error);
}

TEST(data_batches, an_epoch_holds_whole_batches_and_no_image_twice) {
  const auto set = numbered(11);
  data::shuffled_batches batches(set, 4, 1);
  EXPECT_EQ(batches.per_epoch(), 2u);
  std::vector<std::vector<std::int32_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int32_t> seen;
    while (batches.next()) {
      for (std::size_t i = 0; i < 4; ++i) {
        seen.push_back(batches.labels()[i]);
        EXPECT_FLOAT_EQ(batches.images()[2 * i + 1], static_cast<float>(batches.labels()[i]) / 255.0f);
      }
    }
    EXPECT_EQ(seen.size(), 8u);
    EXPECT_EQ(std::set<std::int32_t>(seen.begin(), seen.end()).size(), 8u);
    epochs.push_back(seen);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(data_batches, one_seed_gives_one_order) {
  const auto set = numbered(9);
  data::shuffled_batches one(set, 3, 5), other(set, 3, 5);
  while (one.next() && other.next()) EXPECT_EQ(one.labels(), other.labels());
}

TEST(data_batches, skipped_batches_are_those_that_would_have_come) {
  const auto set = numbered(7);
  for (std::uint64_t skipped = 0; skipped < 9; ++skipped) {
    data::shuffled_batches all(set, 3, 5), rest(set, 3, 5);
    for (std::uint64_t i = 0; i < skipped; ++i) {
      if (!all.next()) all.next();
    }
    rest.skip(skipped);
    for (int i = 0; i < 5; ++i) {
      if (!all.next()) all.next();
      if (!rest.next()) rest.next();
      EXPECT_EQ(all.labels(), rest.labels()) << skipped << " skipped, then " << i;
    }
  }
}

TEST(data_batches, fewer_images_than_a_batch_are_refused) {
  const auto set = numbered(3);
  EXPECT_THROW(data::shuffled_batches(set, 4, 1), error);
}

}  // namespace
