// SPDX-License-Identifier: MIT
// Sound of WAV files in every encoding, one sentence for each way to be another, and other rates.
#include <meganeura/data/wav.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numbers>

namespace {

using namespace meganeura;
using support::sentence_of;
using bytes = std::vector<std::uint8_t>;

void append(bytes& to, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) to.push_back(static_cast<std::uint8_t>(value >> 8 * i));
}
void append(bytes& to, const std::string& text) { to.insert(to.end(), text.begin(), text.end()); }

struct format {
  unsigned encoding = 1, channels = 1, rate = 16000, bits = 16;
  bool extensible = false;
};

bytes file_of(const format& f, const bytes& samples, const std::string& foreign = "") {
  bytes result;
  append(result, "RIFF");
  append(result, 0xffffffff, 4);
  append(result, "WAVE" + foreign + "fmt ");
  append(result, f.extensible ? 40 : 16, 4);
  append(result, f.extensible ? 0xfffe : f.encoding, 2);
  append(result, f.channels, 2);
  append(result, f.rate, 4);
  append(result, std::uint64_t{f.rate} * f.channels * f.bits / 8, 4);
  append(result, f.channels * f.bits / 8, 2);
  append(result, f.bits, 2);
  if (f.extensible) {
    append(result, 22, 2);
    append(result, f.bits, 2);
    append(result, 3, 4);
    append(result, f.encoding, 2);
    append(result, std::string("\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 14));
  }
  append(result, "data");
  append(result, samples.size(), 4);
  result.insert(result.end(), samples.begin(), samples.end());
  return result;
}

std::vector<float> samples_of(const format& f, const std::vector<std::uint64_t>& numbers) {
  bytes samples;
  for (const std::uint64_t each : numbers) append(samples, each, static_cast<int>(f.bits / 8));
  return data::parse_wav(file_of(f, samples), "f").samples;
}

TEST(data_wav, all_encodings_are_read) {
  const std::vector<float> expected{0, 0.5f, -1};
  EXPECT_EQ(samples_of({.bits = 8}, {128, 192, 0}), expected);
  EXPECT_EQ(samples_of({.bits = 16}, {0, 0x4000, 0x8000}), expected);
  EXPECT_EQ(samples_of({.bits = 24}, {0, 0x400000, 0x800000}), expected);
  EXPECT_EQ(samples_of({.bits = 32}, {0, 0x40000000, 0x80000000}), expected);
  EXPECT_EQ(samples_of({.bits = 24, .extensible = true}, {0, 0x400000, 0x800000}), expected);
  EXPECT_EQ(samples_of({.encoding = 3, .bits = 32},
                       {0, std::bit_cast<std::uint32_t>(0.5f), std::bit_cast<std::uint32_t>(-1.0f)}),
            expected);
  EXPECT_EQ(samples_of({.encoding = 3, .bits = 64, .extensible = true},
                       {0, std::bit_cast<std::uint64_t>(0.5), std::bit_cast<std::uint64_t>(-1.0)}),
            expected);
}

TEST(data_wav, channels_become_their_mean_and_foreign_chunks_are_passed_over) {
  EXPECT_EQ(samples_of({.channels = 2}, {0x4000, 0, 0xc000, 0x4000}), (std::vector<float>{0.25f, 0}));
  const std::string odd("LIST\3\0\0\0abc\0", 12);
  const auto found = data::parse_wav(file_of({.rate = 8000, .bits = 8}, {192}, odd), "f");
  EXPECT_EQ(found.rate, 8000u);
  EXPECT_EQ(found.samples, std::vector<float>{0.5f});
  bytes endless = file_of({.bits = 8}, {192, 192});  // as a program leaves it that writes into a pipe
  for (std::size_t i = 40; i < 44; ++i) endless[i] = 0xff;
  EXPECT_EQ(data::parse_wav(endless, "f").samples.size(), 2u);
}

TEST(data_wav, what_is_none_is_refused) {
  const auto refused = [](const bytes& file) { return sentence_of([&] { (void)data::parse_wav(file, "f"); }); };
  EXPECT_EQ(refused({1, 2, 3}),
            "f: at byte 0: expected a WAV file, which begins with RIFF, a length and WAVE, found another beginning");
  EXPECT_EQ(refused(file_of({.encoding = 7, .bits = 8}, {1})),
            "f: at byte 20: expected PCM (1) of 8, 16, 24 or 32 bits, or floats (3) of 32 or 64, found encoding 7 of 8 "
            "bits");
  EXPECT_EQ(refused(file_of({.channels = 0}, {})), "f: at byte 22: expected at least one channel, found 0");
  EXPECT_EQ(refused(file_of({.rate = 0}, {})), "f: at byte 24: expected 1 to 1000000 samples a second, found 0");
  EXPECT_EQ(refused(file_of({}, {1, 2, 3})), "f: at byte 40: expected samples of 2 bytes each, found 3 bytes");
  bytes cut = file_of({}, {1, 2, 3, 4});
  cut.resize(cut.size() - 2);
  EXPECT_EQ(refused(cut), "f: at byte 40: expected at most the 2 bytes of samples that there are, found 4");
  cut.resize(30);
  EXPECT_EQ(refused(cut), "f: at byte 16: expected a chunk \"fmt \" of at most 10 bytes, found 16");
  cut = file_of({}, {});
  cut.resize(36);
  EXPECT_EQ(refused(cut), "f: at byte 36: expected a chunk \"data\" with the samples, found the end of the file");
  bytes block = file_of({}, {});
  block[32] = 4;
  EXPECT_EQ(refused(block), "f: at byte 32: expected 2 bytes for 1 channels of 16 bits, found 4");
  bytes other = file_of({.extensible = true}, {});
  other[47] = 9;
  EXPECT_EQ(refused(other), "f: at byte 46: expected samples of PCM or floats, found a GUID of another encoding");
  bytes infinite;
  append(infinite, 0x7f800000, 4);
  EXPECT_EQ(refused(file_of({.encoding = 3, .bits = 32}, infinite)),
            "f: at byte 44: expected finite samples, found inf");
}

std::vector<float> tone(double hertz, double rate, std::size_t count) {
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i)
    result[i] = static_cast<float>(std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / rate));
  return result;
}

// Away from the ends, where silence begins.
float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0;
  for (std::size_t i = 200; i + 200 < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(data_wav, a_tone_at_another_rate_is_the_same_tone) {
  for (const std::uint32_t rate : {8000u, 11025u, 22050u, 44100u, 48000u}) {
    const auto found = data::resample(tone(1000, rate, rate / 5), rate, 16000);
    EXPECT_LT(largest_difference(found, tone(1000, 16000, 3200)), 1e-3f) << rate;
  }
  EXPECT_EQ(data::resample(tone(1, 9, 7), 9, 9), tone(1, 9, 7));
  EXPECT_EQ(data::resample(std::vector<float>(10), 3, 2).size(), 7u);
  EXPECT_TRUE(data::resample({}, 44100, 16000).empty());
}

TEST(data_wav, what_the_lower_rate_cannot_hold_is_gone) {
  const auto found = data::resample(tone(10000, 48000, 9600), 48000, 16000);
  EXPECT_LT(largest_difference(found, std::vector<float>(3200)), 1e-3f);
  EXPECT_EQ(support::refusal([] { (void)data::resample({}, 0, 16000); }),
            "resample: from 0 to 16000 samples a second was asked for; rates are 1 to 1000000");
  EXPECT_EQ(support::refusal([] { (void)data::resample({}, 1, 16000); }),
            "resample: from 1 to 16000 samples a second was asked for; 100 times at most");
}

}  // namespace
