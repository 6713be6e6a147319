// SPDX-License-Identifier: MIT
// Sound as the spectrogram that Whisper reads.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Of sound at 16 kHz: 25 ms every 10 ms.
struct log_mel_options {
  std::size_t mels = 80;      // bands from 0 to 8 kHz
  std::size_t frames = 3000;  // of 160 samples: 30 s
};

inline constexpr std::size_t log_mel_rate = 16000, log_mel_window = 400, log_mel_hop = 160;

/// Filters of `mels` bands, triangles of area 1 that are evenly spaced on Slaney's mel scale, which is linear up to
/// 1 kHz and logarithmic above: [mels, 201], by frequency of a transform of 400 samples.
/// errors: invalid_argument for no bands and more than 128.
[[nodiscard]] std::vector<float> mel_filters(std::size_t mels);

/// log10 of the power in each band, no lower than 8 below the highest, plus 4 and divided by 4: [mels, frames]. The
/// sound is silence behind its end, mirrored at the edges, and seen through a Hann window.
/// errors: invalid_argument for more samples than the frames have, fewer than 2 frames and for numbers of bands as
/// above; out_of_memory.
[[nodiscard]] std::vector<float> log_mel_spectrogram(std::span<const float> samples,
                                                     const log_mel_options& options = {});

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/spectrogram.ipp>
#endif
