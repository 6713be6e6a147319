// SPDX-License-Identifier: MIT
// Sound: WAV files as numbers, at the rate that a model wants.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// One channel of sound, the mean of those that a file has.
struct sound {
  std::uint32_t rate = 0;      // samples a second
  std::vector<float> samples;  // from -1 to 1
};

/// Parses a WAV file: PCM of 8, 16, 24 or 32 bits, floats of 32 or 64, plain or WAVE_FORMAT_EXTENSIBLE, of any number
/// of channels. Chunks that say nothing about the samples are passed over. `name` is for messages.
/// errors: `invalid_file` for what is no such file, for another encoding, for samples that the file does not have whole
/// and for a rate above 1 MHz; out_of_memory.
[[nodiscard]] sound parse_wav(std::span<const std::uint8_t> bytes, const std::string& name);

/// errors: as parse_wav; `io`, also for a file of more than `most` bytes.
[[nodiscard]] sound read_wav(const std::string& path, std::uint64_t most = std::uint64_t{1} << 30);

/// The same sound at another rate, by a windowed sinc: what the lower rate cannot hold is filtered out. Outside of it
/// is silence. errors: invalid_argument for rates of 0, above 1 MHz and more than 100 times as high; out_of_memory.
[[nodiscard]] std::vector<float> resample(std::span<const float> samples, std::uint32_t from, std::uint32_t to);

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/wav.ipp>
#endif
