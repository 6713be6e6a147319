// SPDX-License-Identifier: MIT
// Augmentation: moves and flips of which each is as likely, and the same for the same sample of the same epoch.
#include <meganeura/data/augment.hpp>
#include <meganeura/data/loader.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace {

using namespace meganeura;
using floats = std::vector<float>;
using support::refusal;

constexpr data::image_shape small{2, 3, 4};

floats numbered() {
  floats image(24);
  std::iota(image.begin(), image.end(), 1.0f);
  return image;
}

TEST(data_augment, a_crop_is_one_of_the_padded_image) {
  const floats image = numbered();
  std::map<floats, int> crops;
  for (std::uint64_t epoch = 0; epoch < 2500; ++epoch) {
    data::random_numbers random(1, epoch, 7);
    ++crops[data::random_crop(image, small, 2, random, -1)];
  }
  std::map<floats, int> possible;
  for (int down = -2; down <= 2; ++down) {
    for (int right = -2; right <= 2; ++right) {
      floats crop;
      for (int i = 0; i < 24; ++i) {
        const int row = i / 4 % 3 + down, column = i % 4 + right;
        const bool inside = row >= 0 && row < 3 && column >= 0 && column < 4;
        crop.push_back(inside ? image[static_cast<std::size_t>(i / 12 * 12 + row * 4 + column)] : -1);
      }
      possible[crop] = 0;
    }
  }
  ASSERT_EQ(possible.size(), 25u);
  EXPECT_EQ(crops.size(), 25u);
  for (const auto& [crop, times] : crops) {
    EXPECT_EQ(possible.count(crop), 1u);
    EXPECT_NEAR(times, 100, 50);  // five deviations
  }
  data::random_numbers random(3);
  EXPECT_EQ(data::random_crop(image, small, 0, random), image);
  for (int i = 0; i < 100; ++i) {  // farther than the image is large
    const floats moved = data::random_crop(floats{5}, {1, 1, 1}, 9, random);
    EXPECT_TRUE(moved[0] == 0 || moved[0] == 5);
  }
  EXPECT_EQ(refusal([&] {
              (void)data::random_crop(image, {2, 3, 5}, 1, random);
            }),
            "random_crop: an image of 2x3x5 has not 24 numbers");
  EXPECT_EQ(refusal([&] {
              (void)data::random_crop(image, {2, 3, 4 + (std::size_t{1} << 63)}, 1, random);
            }),
            "a size of 9223372036854775812 is more than 63 bits; choose smaller extents");
  EXPECT_EQ(refusal([&] {
              (void)data::random_crop(image, {8, 3, 1 + (std::size_t{1} << 61)}, 1, random);
            }),
            "a size of 24 * 2305843009213693953 does not fit into 64 bits; choose smaller extents");
}

TEST(data_augment, a_flip_turns_rows_in_half_of_all_cases) {
  int flipped = 0;
  for (std::uint64_t index = 0; index < 400; ++index) {
    data::random_numbers random(1, 0, index);
    floats image = numbered();
    data::random_flip(image, small, random);
    flipped += image[0] == 4 ? 1 : 0;
    if (image[0] == 4) {
      EXPECT_EQ(image[3], 1);
      EXPECT_EQ(image[23], 21);
    } else {
      EXPECT_EQ(image, numbered());
    }
  }
  EXPECT_NEAR(flipped, 200, 50);
}

TEST(data_augment, normalising_is_by_channel) {
  floats image{1, 3, 10, 30};
  data::normalise(image, {2, 1, 2}, floats{1, 10}, floats{2, 20});
  EXPECT_EQ(image, (floats{0, 1, 0, 1}));
  EXPECT_EQ(refusal([&] {
              data::normalise(image, {2, 1, 2}, floats{1}, floats{1, 1});
            }),
            "normalise: 1 means and 2 deviations were given for 2 channels");
  EXPECT_EQ(refusal([&] {
              data::normalise(image, {2, 1, 2}, floats{1, 1}, floats{1, 0});
            }),
            "normalise: the deviation of channel 1 is 0; give 1 to leave it as it is");
  EXPECT_EQ(image, (floats{0, 1, 0, 1}));
}

TEST(data_augment, a_loader_augments_alike_on_any_threads_and_otherwise_each_epoch) {
  const auto run = [](std::size_t threads) {
    data::loader batches(6, 2,
                         [](const data::chosen_samples& chosen, floats& into) {
                           into.clear();
                           for (const std::size_t index : chosen.indices) {
                             data::random_numbers random(chosen.seed, chosen.epoch, index);
                             const floats image = data::random_crop(numbered(), small, 3, random);
                             into.insert(into.end(), image.begin(), image.end());
                           }
                         },
                         {.seed = 8, .threads = threads});
    std::vector<floats> epochs(2);
    for (floats& epoch : epochs) {
      for (const floats& each : batches) epoch.insert(epoch.end(), each.begin(), each.end());
    }
    return epochs;
  };
  const auto alone = run(0);
  EXPECT_EQ(run(3), alone);
  EXPECT_NE(alone[0], alone[1]);
}

}  // namespace
