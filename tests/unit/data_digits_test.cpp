// SPDX-License-Identifier: MIT
// The drawn digits: the same everywhere, and worth training on.
#include <meganeura/data/digits.hpp>
#include <meganeura/io/sha256.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace data = meganeura::data;

namespace {

/// A plain 784-32-10 perceptron trained one image at a time: small, and independent of the library's own training.
class perceptron {
 public:
  perceptron() {
    std::uint32_t state = 1;
    for (auto& weight : first_) {
      state = state * 1664525u + 1013904223u;
      weight = (static_cast<float>(state >> 8) / 16777216.0f - 0.5f) * 0.1f;
    }
    for (std::size_t i = 0; i < second_.size(); ++i) second_[i] = first_[i * 7] * 4;
  }

  int classify(std::span<const std::uint8_t> image) {
    forward(image);
    return static_cast<int>(std::max_element(output_.begin(), output_.end()) - output_.begin());
  }

  void learn(std::span<const std::uint8_t> image, int label, float rate) {
    forward(image);
    const float largest = *std::max_element(output_.begin(), output_.end());
    float sum = 0;
    for (auto& value : output_) sum += value = std::exp(value - largest);
    std::array<float, hidden> back{};
    for (std::size_t c = 0; c < 10; ++c) {
      const float slope = output_[c] / sum - (static_cast<int>(c) == label ? 1.0f : 0.0f);
      for (std::size_t h = 0; h < hidden; ++h) {
        back[h] += slope * second_[c * hidden + h];
        second_[c * hidden + h] -= rate * slope * hidden_[h];
      }
    }
    for (std::size_t h = 0; h < hidden; ++h) {
      if (hidden_[h] <= 0) continue;
      for (std::size_t i = 0; i < 784; ++i)
        first_[h * 784 + i] -= rate * back[h] * static_cast<float>(image[i]) / 255.0f;
    }
  }

 private:
  static constexpr std::size_t hidden = 32;

  void forward(std::span<const std::uint8_t> image) {
    for (std::size_t h = 0; h < hidden; ++h) {
      float sum = 0;
      for (std::size_t i = 0; i < 784; ++i) sum += first_[h * 784 + i] * static_cast<float>(image[i]) / 255.0f;
      hidden_[h] = std::max(sum, 0.0f);
    }
    for (std::size_t c = 0; c < 10; ++c) {
      output_[c] = 0;
      for (std::size_t h = 0; h < hidden; ++h) output_[c] += second_[c * hidden + h] * hidden_[h];
    }
  }

  std::array<float, hidden * 784> first_{};
  std::array<float, hidden * 10> second_{};
  std::array<float, hidden> hidden_{};
  std::array<float, 10> output_{};
};

}  // namespace

TEST(data_digits, the_same_seed_gives_the_same_images_and_another_seed_others) {
  const auto first = data::make_digits(50, 3), again = data::make_digits(50, 3), other = data::make_digits(50, 4);
  EXPECT_EQ(first.pixels, again.pixels);
  EXPECT_EQ(first.labels, again.labels);
  EXPECT_NE(first.pixels, other.pixels);
}

TEST(data_digits, every_digit_comes_about_equally_often) {
  std::array<int, 10> count{};
  for (const auto label : data::make_digits(10000, 1).labels) ++count.at(label);
  for (const int n : count) EXPECT_NEAR(n, 1000, 150);  // five standard deviations
}

TEST(data_digits, images_are_mostly_background_with_strong_ink) {
  const auto set = data::make_digits(500, 1);
  for (std::size_t i = 0; i < set.size(); ++i) {
    const auto image = set.image(i);
    const auto ink = std::count_if(image.begin(), image.end(), [](std::uint8_t p) { return p > 100; });
    EXPECT_GT(ink, 15) << i;
    EXPECT_LT(ink, 350) << i;
  }
}

TEST(data_digits, a_small_perceptron_learns_8000_and_knows_nine_in_ten_of_2000_others) {
  const auto train = data::make_digits(8000, 1), test = data::make_digits(2000, 2);
  perceptron model;
  for (std::size_t i = 0; i < train.size(); ++i) model.learn(train.image(i), train.labels[i], 0.02f);
  int right = 0;
  for (std::size_t i = 0; i < test.size(); ++i) right += model.classify(test.image(i)) == test.labels[i] ? 1 : 0;
  RecordProperty("right", right);
  EXPECT_GT(right, 1800);
}
