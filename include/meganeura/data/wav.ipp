// SPDX-License-Identifier: MIT
// Bodies of data/wav.hpp.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/data/exact_bytes.hpp>
#include <meganeura/data/wav.hpp>
#include <meganeura/io/file.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

inline constexpr std::uint32_t highest_rate = 1'000'000;  // samples a second

/// Goes through the chunks of a WAV file.
class wav_parser {
 public:
  wav_parser(std::span<const std::uint8_t> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  [[nodiscard]] sound parse() {
    if (bytes_.size() < 12 || text(0) != "RIFF" || text(8) != "WAVE") {
      io::bad_file(name_, 0, "a WAV file, which begins with RIFF, a length and WAVE", "another beginning");
    }
    // The length in the header is not read: programs that write into a pipe cannot know it.
    for (std::size_t at = 12; bytes_.size() - at >= 8;) {
      const std::size_t begin = at + 8, left = bytes_.size() - begin;
      const std::uint64_t size = number(at + 4, 4);
      if (text(at) == "data") return samples(begin, size == 0xffffffff ? left : size);
      if (size > left) {
        io::bad_file(name_, at + 4, fmt::format("a chunk {} of at most {} bytes", quote(text(at)), left),
                     fmt::format("{}", size));
      }
      if (text(at) == "fmt ") read_format(begin, static_cast<std::size_t>(size));
      at = begin + std::min(left, static_cast<std::size_t>(size + size % 2));  // chunks begin at even places
    }
    io::bad_file(name_, bytes_.size(), "a chunk \"data\" with the samples", "the end of the file");
  }

 private:
  [[nodiscard]] std::string_view text(std::size_t at) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, 4};
  }
  [[nodiscard]] std::uint64_t number(std::size_t at, std::size_t count) const {
    return little_endian<std::uint64_t>(bytes_, at, count);
  }

  void read_format(std::size_t begin, std::size_t size) {
    constexpr std::uint64_t extensible = 0xfffe;
    // What follows the two bytes of the encoding in the GUID of an extensible format.
    constexpr std::string_view guid{"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 14};
    if (size < 16) io::bad_file(name_, begin, "a chunk \"fmt \" of at least 16 bytes", fmt::format("{}", size));
    std::uint64_t encoding = number(begin, 2);
    channels_ = static_cast<std::size_t>(number(begin + 2, 2));
    const std::uint64_t rate = number(begin + 4, 4), block = number(begin + 12, 2), bits = number(begin + 14, 2);
    if (encoding == extensible) {
      if (size < 40) {
        io::bad_file(name_, begin, "an extensible chunk \"fmt \" of at least 40 bytes", fmt::format("{}", size));
      }
      encoding = number(begin + 24, 2);
      if (std::string_view(reinterpret_cast<const char*>(bytes_.data()) + begin + 26, guid.size()) != guid) {
        io::bad_file(name_, begin + 26, "samples of PCM or floats", "a GUID of another encoding");
      }
    }
    is_float_ = encoding == 3;
    const bool known =
        encoding == 1 ? bits == 8 || bits == 16 || bits == 24 || bits == 32 : is_float_ && (bits == 32 || bits == 64);
    if (!known) {
      io::bad_file(name_, begin, "PCM (1) of 8, 16, 24 or 32 bits, or floats (3) of 32 or 64",
                   fmt::format("encoding {} of {} bits", encoding, bits));
    }
    if (channels_ == 0) io::bad_file(name_, begin + 2, "at least one channel", "0");
    if (rate == 0 || rate > highest_rate) {
      io::bad_file(name_, begin + 4, fmt::format("1 to {} samples a second", highest_rate), fmt::format("{}", rate));
    }
    width_ = static_cast<std::size_t>(bits / 8);
    if (block != width_ * channels_) {
      io::bad_file(name_, begin + 12,
                   fmt::format("{} bytes for {} channels of {} bits", width_ * channels_, channels_, bits),
                   fmt::format("{}", block));
    }
    rate_ = static_cast<std::uint32_t>(rate);
  }

  [[nodiscard]] sound samples(std::size_t begin, std::uint64_t size) const {
    if (width_ == 0) io::bad_file(name_, begin - 8, "a chunk \"fmt \" before the samples", "none");
    const std::size_t left = bytes_.size() - begin, block = width_ * channels_;
    if (size > left) {
      io::bad_file(name_, begin - 4, fmt::format("at most the {} bytes of samples that there are", left),
                   fmt::format("{}", size));
    }
    if (size % block != 0) {
      io::bad_file(name_, begin - 4, fmt::format("samples of {} bytes each", block), fmt::format("{} bytes", size));
    }
    sound result{rate_, allocate_for<float>(name_, static_cast<std::size_t>(size) / block)};
    for (std::size_t i = 0; i < result.samples.size(); ++i) {
      double sum = 0;
      for (std::size_t c = 0; c < channels_; ++c) sum += sample(begin + i * block + c * width_);
      const float mean = static_cast<float>(sum / static_cast<double>(channels_));
      if (!std::isfinite(mean)) io::bad_file(name_, begin + i * block, "finite samples", fmt::format("{}", mean));
      result.samples[i] = mean;
    }
    return result;
  }

  [[nodiscard]] double sample(std::size_t at) const {
    const std::uint64_t bits = number(at, width_);
    if (is_float_) {
      return width_ == 4 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
                         : std::bit_cast<double>(bits);
    }
    if (width_ == 1) return (static_cast<double>(bits) - 128) / 128;  // these alone are without a sign
    const double full = std::ldexp(1.0, static_cast<int>(8 * width_)), value = static_cast<double>(bits);
    return (value < full / 2 ? value : value - full) / (full / 2);
  }

  std::span<const std::uint8_t> bytes_;
  const std::string& name_;
  std::size_t channels_ = 0, width_ = 0;  // bytes of a sample
  std::uint32_t rate_ = 0;
  bool is_float_ = false;
};

}  // namespace detail

MEGANEURA_INLINE sound parse_wav(std::span<const std::uint8_t> bytes, const std::string& name) try {
  return detail::wav_parser(bytes, name).parse();
} catch (...) {
  rethrow_as_error("reading a sound");
}

MEGANEURA_INLINE sound read_wav(const std::string& path, std::uint64_t most) {
  return parse_wav(io::read_file(path, most), path);
}

MEGANEURA_INLINE std::vector<float> resample(std::span<const float> samples, std::uint32_t from, std::uint32_t to) try {
  if (from == 0 || to == 0 || from > detail::highest_rate || to > detail::highest_rate) {
    fail(error_category::invalid_argument, "resample: from {} to {} samples a second was asked for; rates are 1 to {}",
         from, to, detail::highest_rate);
  }
  constexpr std::uint32_t most_times = 100;
  if (to / from > most_times) {
    fail(error_category::invalid_argument, "resample: from {} to {} samples a second was asked for; {} times at most",
         from, to, most_times);
  }
  if (from == to) return {samples.begin(), samples.end()};
  constexpr double zeros = 24, roll_off = 0.95;  // crossings of zero on each side; the share of the band that passes
  const std::size_t common = std::gcd(from, to), phases = to / common, step = from / common;
  const double cutoff = roll_off * std::min(1.0, static_cast<double>(to) / from), radius = zeros / cutoff;
  const auto reach = static_cast<std::int64_t>(std::ceil(radius)), size = static_cast<std::int64_t>(samples.size());
  // ceil(samples * to / from), without a product that could overflow
  const std::size_t count = samples.size() / step * phases + (samples.size() % step * phases + step - 1) / step;
  auto result = allocate_for<float>("resample", count);
  std::vector<double> filter(static_cast<std::size_t>(2 * reach + 1));
  for (std::size_t phase = 0; phase < std::min(phases, count); ++phase) {  // results of one phase share a filter
    const std::size_t whole = phase * step / phases;
    const double part = static_cast<double>(phase * step % phases) / static_cast<double>(phases);
    double sum = 0;
    for (std::size_t i = 0; i < filter.size(); ++i) {
      const double x = static_cast<double>(static_cast<std::int64_t>(i) - reach) - part,
                   t = std::numbers::pi * cutoff * x;
      const double hann = std::abs(x) < radius ? 0.5 + 0.5 * std::cos(std::numbers::pi * x / radius) : 0;
      filter[i] = hann * (std::abs(t) < 1e-9 ? 1 : std::sin(t) / t);
      sum += filter[i];
    }
    for (double& weight : filter) weight /= sum;
    for (std::size_t i = phase, turn = 0; i < count; i += phases, ++turn) {
      const auto first = static_cast<std::int64_t>(whole + turn * step) - reach;
      double value = 0;
      for (std::int64_t k = std::max<std::int64_t>(0, -first); k <= 2 * reach && first + k < size; ++k)
        value +=
            filter[static_cast<std::size_t>(k)] * static_cast<double>(samples[static_cast<std::size_t>(first + k)]);
      result[i] = static_cast<float>(value);
    }
  }
  return result;
} catch (...) {
  rethrow_as_error("resampling a sound");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
