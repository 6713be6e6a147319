// SPDX-License-Identifier: MIT
// Bodies of data/spectrogram.hpp.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/data/spectrogram.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

inline constexpr std::size_t frequencies = log_mel_window / 2 + 1;

// Slaney's scale: 15 mels up to 1 kHz, then 27 for each factor of 6.4.
inline double mel_of(double hertz) {
  return hertz < 1000 ? hertz * 3 / 200 : 15 + std::log(hertz / 1000) * 27 / std::log(6.4);
}
inline double hertz_of(double mel) {
  return mel < 15 ? mel * 200 / 3 : 1000 * std::exp((mel - 15) * std::log(6.4) / 27);
}

/// Powers of a windowed frame by frequency: a discrete Fourier transform of 400 real numbers. Cosines see only what is
/// even around its middle, sines what is odd: half the products.
class power_spectrum {
 public:
  power_spectrum() {
    for (std::size_t i = 0; i < log_mel_window; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / log_mel_window;
      window_[i] = 0.5 - 0.5 * std::cos(angle);
      cosine_[i] = std::cos(angle);
      sine_[i] = std::sin(angle);
    }
  }
  void of(const std::array<double, log_mel_window>& frame, std::array<double, frequencies>& powers) const {
    constexpr std::size_t half = log_mel_window / 2;
    std::array<double, half + 1> even{}, odd{};
    const auto seen = [&](std::size_t i) { return window_[i] * frame[i]; };
    even[0] = seen(0), even[half] = seen(half);
    for (std::size_t i = 1; i < half; ++i) {
      even[i] = seen(i) + seen(log_mel_window - i);
      odd[i] = seen(i) - seen(log_mel_window - i);
    }
    for (std::size_t k = 0; k < frequencies; ++k) {
      double real = 0, imaginary = 0;
      for (std::size_t i = 0, at = 0; i <= half; ++i) {
        real += even[i] * cosine_[at];
        imaginary += odd[i] * sine_[at];
        at += k;
        if (at >= log_mel_window) at -= log_mel_window;
      }
      powers[k] = real * real + imaginary * imaginary;
    }
  }

 private:
  std::array<double, log_mel_window> window_{}, cosine_{}, sine_{};
};

}  // namespace detail

MEGANEURA_INLINE std::vector<float> mel_filters(std::size_t mels) try {
  if (mels == 0 || mels > 128) {
    fail(error_category::invalid_argument, "mel_filters: {} bands were asked for; there are 1 to 128", mels);
  }
  constexpr double highest = log_mel_rate / 2.0;
  const auto edge = [&](std::size_t i) {
    return detail::hertz_of(detail::mel_of(highest) * static_cast<double>(i) / static_cast<double>(mels + 1));
  };
  std::vector<float> result(mels * detail::frequencies);
  for (std::size_t band = 0; band < mels; ++band) {
    const double low = edge(band), middle = edge(band + 1), high = edge(band + 2);
    for (std::size_t k = 0; k < detail::frequencies; ++k) {
      const double hertz = static_cast<double>(k * log_mel_rate) / log_mel_window;
      const double share = std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      result[band * detail::frequencies + k] = static_cast<float>(std::max(0.0, share) * 2 / (high - low));
    }
  }
  return result;
} catch (...) {
  rethrow_as_error("making mel filters");
}

MEGANEURA_INLINE std::vector<float> log_mel_spectrogram(std::span<const float> samples,
                                                        const log_mel_options& options) try {
  const std::vector<float> filters = mel_filters(options.mels);
  if (options.frames < 2 || options.frames > std::size_t{1} << 40 || samples.size() > options.frames * log_mel_hop) {
    fail(error_category::invalid_argument,
         "log_mel_spectrogram: {} frames of {} samples cannot show {}; take 2 to 2^40 frames, and one part of the "
         "sound after another",
         options.frames, log_mel_hop, samples.size());
  }
  const auto length = static_cast<std::int64_t>(options.frames * log_mel_hop);
  auto result = allocate_for<float>("log_mel_spectrogram", options.mels * options.frames);
  const detail::power_spectrum spectrum;
  std::array<double, log_mel_window> frame{};
  std::array<double, detail::frequencies> powers{};
  for (std::size_t t = 0; t < options.frames; ++t) {
    for (std::size_t i = 0; i < log_mel_window; ++i) {
      std::int64_t at = std::abs(static_cast<std::int64_t>(t * log_mel_hop + i) - std::int64_t{log_mel_window / 2});
      if (at >= length) at = 2 * (length - 1) - at;
      const auto place = static_cast<std::size_t>(at);
      frame[i] = place < samples.size() ? static_cast<double>(samples[place]) : 0;
    }
    spectrum.of(frame, powers);
    for (std::size_t band = 0; band < options.mels; ++band) {
      double sum = 0;
      for (std::size_t k = 0; k < detail::frequencies; ++k)
        sum += static_cast<double>(filters[band * detail::frequencies + k]) * powers[k];
      result[band * options.frames + t] = static_cast<float>(std::log10(std::max(sum, 1e-10)));
    }
  }
  const float lowest = *std::ranges::max_element(result) - 8;
  for (float& each : result) each = (std::max(each, lowest) + 4) / 4;
  return result;
} catch (...) {
  rethrow_as_error("making a spectrogram");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
