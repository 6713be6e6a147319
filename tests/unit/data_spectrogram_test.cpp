// SPDX-License-Identifier: MIT
// Whisper's spectrogram against PyTorch's transform in float64.
#include <meganeura/data/spectrogram.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <numbers>

namespace {

using namespace meganeura;

nlohmann::json reference() {
  std::ifstream text(MEGANEURA_SOURCE_DIR "/tests/reference/log_mel.json");
  return nlohmann::json::parse(text);
}

TEST(data_spectrogram, filters_are_as_defined) {
  const auto filters = data::mel_filters(80);
  const auto expected = reference()["filters"];
  ASSERT_EQ(filters.size(), 80u * 201u);
  const std::size_t bands[] = {0, 40, 79};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < 201; ++k)
      ASSERT_NEAR(filters[bands[i] * 201 + k], expected[i][k].get<float>(), 5e-9f) << i << ' ' << k;
  }
}

TEST(data_spectrogram, two_tones_are_as_pytorch_shows_them) {
  std::vector<float> sound(8000);
  for (std::size_t i = 0; i < sound.size(); ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / 16000;
    sound[i] = static_cast<float>(0.5 * std::sin(440 * angle) + 0.25 * std::sin(3000 * angle));
  }
  const auto found = data::log_mel_spectrogram(sound, {.frames = 60});
  const std::vector<double> expected = reference()["spectrogram"];
  ASSERT_EQ(found.size(), 80u * 60u);
  ASSERT_EQ(expected.size(), 80u * 15u);
  for (std::size_t band = 0; band < 80; ++band) {
    for (std::size_t t = 0; t < 15; ++t)
      ASSERT_NEAR(found[band * 60 + 4 * t], expected[band * 15 + t], 1e-5) << band << ' ' << t;
  }
}

TEST(data_spectrogram, silence_is_even_and_too_much_is_refused) {
  for (const float each : data::log_mel_spectrogram({}, {.frames = 10})) EXPECT_FLOAT_EQ(each, -1.5f);  // (-10 + 4) / 4
  EXPECT_EQ(support::refusal([] { (void)data::log_mel_spectrogram(std::vector<float>(321), {.frames = 2}); }),
            "log_mel_spectrogram: 2 frames of 160 samples cannot show 321; take 2 to 2^40 frames, and one part of the "
            "sound after another");
  EXPECT_THROW((void)data::log_mel_spectrogram({}, {.mels = 128, .frames = std::size_t{1} << 57}), error);
  EXPECT_EQ(support::refusal([] { (void)data::mel_filters(0); }),
            "mel_filters: 0 bands were asked for; there are 1 to 128");
}

}  // namespace
