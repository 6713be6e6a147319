// SPDX-License-Identifier: MIT
// Fuzz target: WAV files. What is accepted has finite samples, and another rate.
#include <meganeura/data/wav.hpp>

#include "fuzz.hpp"

#include <cmath>

namespace data = meganeura::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  fuzz::accepts([&] {
    const data::sound found = data::parse_wav({bytes, size}, "fuzz.wav");
    fuzz::require(found.rate > 0 && found.samples.size() <= size, "samples are of the file");
    for (const float each : found.samples) fuzz::require(std::isfinite(each), "samples are finite");
    if (found.samples.size() > 64 || found.rate > 100'000 || found.rate < 8000) return;  // for speed alone
    const auto resampled = data::resample(found.samples, found.rate, 16000);
    const std::size_t expected = (found.samples.size() * 16000 + found.rate - 1) / found.rate;
    fuzz::require(resampled.size() == expected, "as long at another rate");
  });
  return 0;
}
