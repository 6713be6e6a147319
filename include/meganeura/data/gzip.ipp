// SPDX-License-Identifier: MIT
// Bodies of data/gzip.hpp: inflate with one look-up table per Huffman code.
#pragma once
#include <meganeura/data/gzip.hpp>
#include <meganeura/io/file.hpp>

#include <algorithm>
#include <array>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

/// The compressed bits, least significant first (RFC 1951 section 3.1.1).
class bit_reader {
 public:
  bit_reader(std::span<const std::uint8_t> bytes, std::size_t at, const std::string& name)
      : bytes_(bytes), at_(at), name_(name) {}

  [[noreturn]] void reject(std::string_view expected, std::string_view found) const {
    io::bad_file(name_, byte(), expected, found);
  }

  /// Up to 16 bits without taking them; past the end they are zero, and taking them is an error.
  [[nodiscard]] std::uint32_t peek(unsigned count) {
    while (held_ < count) {
      bits_ |= static_cast<std::uint64_t>(at_ < bytes_.size() ? bytes_[at_] : 0) << held_;
      ++at_;
      held_ += 8;
    }
    return static_cast<std::uint32_t>(bits_ & ((std::uint64_t{1} << count) - 1));
  }

  void skip(unsigned count) {
    bits_ >>= count;
    held_ -= count;
    if (at_ - held_ / 8 > bytes_.size()) reject("more compressed data", "the end of the file");
  }

  std::uint32_t take(unsigned count) {
    const std::uint32_t result = peek(count);
    skip(count);
    return result;
  }

  void align_to_byte() { skip(held_ % 8); }

  /// The byte the next bit is in.
  [[nodiscard]] std::size_t byte() const { return std::min(at_ - (held_ + 7) / 8, bytes_.size()); }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_;  // the next byte to load, which may lie past the end
  const std::string& name_;
  std::uint64_t bits_ = 0;
  unsigned held_ = 0;
};

/// A canonical Huffman code (RFC 1951 section 3.2.2): the next `longest_` bits index symbol and length.
class huffman {
 public:
  huffman(std::span<const std::uint8_t> lengths, const bit_reader& reader) {
    std::array<std::uint32_t, 17> count{}, next{};
    for (const std::uint8_t length : lengths) ++count[length];
    count[0] = 0;
    std::uint32_t left = 1;
    for (unsigned length = 1; length <= 15; ++length) {
      next[length + 1] = (next[length] + count[length]) << 1;
      left = left * 2;
      if (count[length] > left) reader.reject("Huffman code lengths that fit together", "too many codes");
      left -= count[length];
      if (count[length] != 0) longest_ = length;
    }
    table_.resize(std::size_t{1} << longest_);
    for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      const unsigned length = lengths[symbol];
      if (length == 0) continue;
      const std::uint32_t code = reversed(next[length]++, length);
      for (std::size_t at = code; at < table_.size(); at += std::size_t{1} << length) {
        table_[at] = {static_cast<std::uint16_t>(symbol), static_cast<std::uint8_t>(length)};
      }
    }
  }

  [[nodiscard]] unsigned decode(bit_reader& reader) const {
    const entry found = table_[reader.peek(longest_)];
    if (found.length == 0) reader.reject("a Huffman code in use", "an unassigned one");
    reader.skip(found.length);
    return found.symbol;
  }

 private:
  struct entry {
    std::uint16_t symbol = 0;
    std::uint8_t length = 0;
  };

  static std::uint32_t reversed(std::uint32_t code, unsigned length) {
    std::uint32_t result = 0;
    for (unsigned i = 0; i < length; ++i) result |= (code >> i & 1) << (length - 1 - i);
    return result;
  }

  unsigned longest_ = 0;
  std::vector<entry> table_;
};

/// Unpacks one DEFLATE stream behind what `output` already holds.
class inflater {
 public:
  inflater(bit_reader& reader, std::vector<std::uint8_t>& output, std::size_t limit)
      : reader_(reader), output_(output), first_(output.size()), limit_(limit) {}

  void run() {
    bool last = false;
    while (!last) {
      last = reader_.take(1) != 0;
      switch (reader_.take(2)) {
        case 0:
          stored();
          break;
        case 1:
          fixed();
          break;
        case 2:
          dynamic();
          break;
        default:
          reader_.reject("a block of kind 0, 1 or 2", "3");
      }
    }
    reader_.align_to_byte();
  }

 private:
  void append(std::uint8_t value) {
    if (output_.size() == limit_) reader_.reject(fmt::format("at most {} unpacked bytes", limit_), "more");
    output_.push_back(value);
  }

  void stored() {
    reader_.align_to_byte();
    const std::uint32_t length = reader_.take(16), check = reader_.take(16);
    if ((length ^ check) != 0xffff) {
      reader_.reject("a block length and its complement", fmt::format("{:#06x} and {:#06x}", length, check));
    }
    for (std::uint32_t i = 0; i < length; ++i) append(static_cast<std::uint8_t>(reader_.take(8)));
  }

  void fixed() {
    std::array<std::uint8_t, 288> lengths{};
    for (std::size_t i = 0; i < 288; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    std::array<std::uint8_t, 30> distances{};
    distances.fill(5);
    codes(huffman(lengths, reader_), huffman(distances, reader_));
  }

  /// The two codes of this block are themselves packed by a third (RFC 1951 section 3.2.7).
  void dynamic() {
    const std::size_t literals = reader_.take(5) + 257, distances = reader_.take(5) + 1, given = reader_.take(4) + 4;
    constexpr std::uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    std::array<std::uint8_t, 19> code_lengths{};
    for (std::size_t i = 0; i < given; ++i) code_lengths[order[i]] = static_cast<std::uint8_t>(reader_.take(3));
    const huffman code(code_lengths, reader_);
    std::vector<std::uint8_t> lengths;
    while (lengths.size() < literals + distances) {
      const unsigned symbol = code.decode(reader_);
      if (symbol < 16) {
        lengths.push_back(static_cast<std::uint8_t>(symbol));
        continue;
      }
      if (symbol == 16 && lengths.empty()) reader_.reject("a code length to repeat", "none before it");
      const std::uint8_t value = symbol == 16 ? lengths.back() : std::uint8_t{0};
      const std::size_t count = symbol == 16   ? 3 + reader_.take(2)
                                : symbol == 17 ? 3 + reader_.take(3)
                                               : 11 + reader_.take(7);
      lengths.insert(lengths.end(), count, value);
    }
    if (lengths.size() != literals + distances) {
      reader_.reject(fmt::format("{} code lengths", literals + distances), fmt::format("{}", lengths.size()));
    }
    const std::span all(lengths);
    codes(huffman(all.first(literals), reader_), huffman(all.subspan(literals), reader_));
  }

  void codes(const huffman& literal, const huffman& distance) {
    while (true) {
      const unsigned symbol = literal.decode(reader_);
      if (symbol == 256) return;
      if (symbol < 256) {
        append(static_cast<std::uint8_t>(symbol));
        continue;
      }
      if (symbol > 285) reader_.reject("a length symbol up to 285", fmt::format("{}", symbol));
      const std::size_t length = match_length(symbol - 257);
      const unsigned far = distance.decode(reader_);
      if (far > 29) reader_.reject("a distance symbol up to 29", fmt::format("{}", far));
      copy(length, match_distance(far));
    }
  }

  // Lengths and distances grow by one bit every four, respectively two, symbols (RFC 1951 section 3.2.5).
  std::size_t match_length(unsigned index) {
    if (index == 28) return 258;
    const unsigned extra = index < 8 ? 0 : index / 4 - 1;
    const std::size_t base = index < 8 ? index : std::size_t{4 + index % 4} << extra;
    return 3 + base + reader_.take(extra);
  }

  std::size_t match_distance(unsigned index) {
    const unsigned extra = index < 4 ? 0 : index / 2 - 1;
    const std::size_t base = index < 4 ? index : std::size_t{2 + index % 2} << extra;
    return 1 + base + reader_.take(extra);
  }

  void copy(std::size_t length, std::size_t distance) {
    if (distance > output_.size() - first_) {
      reader_.reject(fmt::format("a distance of at most {}", output_.size() - first_), fmt::format("{}", distance));
    }
    for (std::size_t i = 0; i < length; ++i) append(output_[output_.size() - distance]);
  }

  bit_reader& reader_;
  std::vector<std::uint8_t>& output_;
  std::size_t first_, limit_;
};

/// CRC-32 as gzip has it (RFC 1952 section 8).
inline std::uint32_t crc32(std::span<const std::uint8_t> bytes) {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320u : value >> 1;
    table[i] = value;
  }
  std::uint32_t crc = 0xffffffffu;
  for (const std::uint8_t byte : bytes) crc = table[(crc ^ byte) & 0xff] ^ crc >> 8;
  return ~crc;
}

/// Where the compressed data begins: behind ten bytes and the optional fields the flags announce (RFC 1952
/// section 2.3).
inline std::size_t skip_gzip_header(std::span<const std::uint8_t> bytes, std::size_t at, const std::string& name) {
  const auto need = [&](std::size_t end) {
    if (end > bytes.size()) io::bad_file(name, bytes.size(), "more of the gzip header", "the end of the file");
  };
  if (!is_gzip(bytes.subspan(at))) io::bad_file(name, at, "the gzip magic number 1f 8b", "other bytes");
  need(at + 10);
  if (bytes[at + 2] != 8) io::bad_file(name, at + 2, "compression method 8", fmt::format("{}", bytes[at + 2]));
  const unsigned flags = bytes[at + 3];
  at += 10;
  if ((flags & 4) != 0) {
    need(at + 2);
    at += 2 + static_cast<std::size_t>(bytes[at] | bytes[at + 1] << 8);
  }
  for (const unsigned zero_terminated : {8u, 16u}) {
    if ((flags & zero_terminated) == 0) continue;
    do need(++at);
    while (bytes[at - 1] != 0);
  }
  if ((flags & 2) != 0) at += 2;
  need(at);
  return at;
}

inline std::uint32_t little_endian_32(bit_reader& reader) {
  const std::uint32_t low = reader.take(16);
  return low | reader.take(16) << 16;
}

}  // namespace detail

MEGANEURA_INLINE std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> bytes, const std::string& name,
                                                  std::size_t limit) {
  std::vector<std::uint8_t> output;
  std::size_t at = 0;
  do {  // a gzip file may be several, one after another
    detail::bit_reader reader(bytes, detail::skip_gzip_header(bytes, at, name), name);
    const std::size_t first = output.size();
    detail::inflater(reader, output, limit).run();
    const auto member = std::span<const std::uint8_t>(output).subspan(first);
    const std::uint32_t found = detail::crc32(member), expected = detail::little_endian_32(reader);
    if (expected != found)
      reader.reject(fmt::format("content of checksum {:08x}", expected), fmt::format("{:08x}", found));
    const std::uint32_t length = detail::little_endian_32(reader);
    if (length != static_cast<std::uint32_t>(member.size())) {
      reader.reject(fmt::format("{} unpacked bytes", length), fmt::format("{}", member.size()));
    }
    at = reader.byte();
  } while (at < bytes.size());
  return output;
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
