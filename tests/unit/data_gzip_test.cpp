// SPDX-License-Identifier: MIT
// Unpacking gzip: the three kinds of block, whole and in pieces, and every kind of damage.
#include <meganeura/data/gzip.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <utility>

namespace data = meganeura::data;

namespace {

namespace support = meganeura::support;

// "stored text" at level 0; 20 'a' and 4 'b' with fixed codes; a text three times over with codes of its own.
constexpr std::uint8_t stored[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x03, 0x01, 0x0b,
                                   0x00, 0xf4, 0xff, 0x73, 0x74, 0x6f, 0x72, 0x65, 0x64, 0x20, 0x74, 0x65,
                                   0x78, 0x74, 0xb5, 0x01, 0xaf, 0x0f, 0x0b, 0x00, 0x00, 0x00};
constexpr std::uint8_t fixed[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x4b, 0x4c, 0xc4,
                                  0x04, 0x49, 0x40, 0x00, 0x00, 0x4a, 0x69, 0xd5, 0x44, 0x18, 0x00, 0x00, 0x00};
constexpr std::uint8_t dynamic[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xd5, 0x8c, 0xc1, 0x09, 0x00, 0x41, 0x08, 0x03,
    0x5b, 0xb1, 0xb5, 0x85, 0x0d, 0x28, 0xc8, 0x06, 0xd4, 0xf4, 0x7f, 0xb6, 0x71, 0xbf, 0xcc, 0x30, 0xe4, 0x5c,
    0xb3, 0x89, 0x71, 0x73, 0xcf, 0x36, 0x8e, 0xa3, 0x7b, 0x15, 0xe4, 0x21, 0xe3, 0x9d, 0x07, 0x20, 0x0b, 0x9d,
    0x6c, 0xa1, 0xb8, 0x59, 0xf1, 0x31, 0x77, 0x04, 0xba, 0x72, 0x4e, 0x2a, 0x46, 0x4f, 0xaa, 0x25, 0x46, 0x5c,
    0xaf, 0xbe, 0x70, 0xca, 0xce, 0x0f, 0x9f, 0x3f, 0x39, 0x07, 0x2c, 0xe8, 0x0e, 0x01, 0x00, 0x00};
constexpr char dynamic_text[] =
    "ad  tith hhls othessd  euhiu odtneeelreslosuero hhronolo hiesrltaluitunuursrloiidhrsdehou ";

std::string unpacked(std::span<const std::uint8_t> bytes, std::size_t limit = 1000) {
  const auto result = data::gunzip(bytes, "f", limit);
  return {result.begin(), result.end()};
}

std::string rejection(std::vector<std::uint8_t> bytes, std::size_t limit = 1000) {
  return support::sentence_of([&] { (void)data::gunzip(bytes, "f", limit); });
}

template <std::size_t N>
std::vector<std::uint8_t> copy(const std::uint8_t (&bytes)[N]) {
  return {bytes, bytes + N};
}

}  // namespace

TEST(data_gzip, each_kind_of_block_unpacks) {
  EXPECT_EQ(unpacked(stored), "stored text");
  EXPECT_EQ(unpacked(fixed), "aaaaaaaaaaaaaaaaaaaabbbb");
  const std::string text = dynamic_text;
  EXPECT_EQ(unpacked(dynamic), text + text + text);
}

TEST(data_gzip, zeros_behind_the_last_member_are_padding) {
  for (const std::size_t zeros : {std::size_t{1}, std::size_t{17}, std::size_t{200000}}) {
    auto padded = copy(stored);
    padded.resize(padded.size() + zeros);
    EXPECT_EQ(unpacked(padded), "stored text") << zeros;
    padded.push_back(0x1f);
    EXPECT_NE(rejection(padded).find("expected zeros to the end of the file, found other bytes"), std::string::npos)
        << rejection(padded);
  }
  EXPECT_NE(rejection(std::vector<std::uint8_t>(20)), "");  // nothing but padding
}

TEST(data_gzip, members_one_after_another_are_joined) {
  auto both = copy(stored);
  both.insert(both.end(), std::begin(fixed), std::end(fixed));
  EXPECT_EQ(unpacked(both), "stored textaaaaaaaaaaaaaaaaaaaabbbb");
}

TEST(data_gzip, optional_header_fields_are_skipped) {
  auto bytes = copy(stored);
  bytes[3] = 4 | 8 | 16;  // extra field, file name, comment
  const std::uint8_t fields[] = {2, 0, 9, 9, 'n', 'a', 0, 'c', 0};
  bytes.insert(bytes.begin() + 10, std::begin(fields), std::end(fields));
  EXPECT_EQ(unpacked(bytes), "stored text");
}

TEST(data_gzip, a_file_cut_anywhere_is_an_error) {
  for (std::size_t size = 0; size < std::size(dynamic); ++size) {
    EXPECT_NE(rejection({dynamic, dynamic + size}), "no error") << size;
  }
  EXPECT_EQ(rejection({dynamic, dynamic + 40}), "f: at byte 40: expected intact gzip data, found the end of the file");
  EXPECT_EQ(rejection({dynamic, dynamic + 5}), "f: at byte 5: expected intact gzip data, found the end of the file");
}

TEST(data_gzip, a_changed_byte_is_noticed) {
  constexpr std::pair<std::size_t, const char*> changes[] = {
      {0, "incorrect header check"}, {2, "unknown compression method"},    {3, "unknown header flags set"},
      {10, "invalid block type"},    {12, "invalid stored block lengths"}, {16, "incorrect data check"},
      {27, "incorrect data check"},  {30, "incorrect length check"}};
  for (const auto& [at, why] : changes) {
    auto bytes = copy(stored);
    bytes[at] = static_cast<std::uint8_t>(~bytes[at]);
    const std::string text = rejection(bytes);
    EXPECT_TRUE(text.starts_with("f: at byte ") && text.ends_with(why)) << at << ": " << text;
  }
  auto bytes = copy(stored);
  bytes.push_back(7);
  EXPECT_EQ(rejection(bytes), "f: at byte 35: expected intact gzip data, found the end of the file");
}

TEST(data_gzip, no_change_of_a_byte_reads_outside_or_goes_unnoticed) {
  const auto whole = data::gunzip(dynamic, "f");
  for (std::size_t at = 10; at < std::size(dynamic); ++at) {
    for (int value = 0; value < 256; value += 5) {
      auto bytes = copy(dynamic);
      if (bytes[at] == value) continue;
      bytes[at] = static_cast<std::uint8_t>(value);
      std::vector<std::uint8_t> result;
      const auto problem = support::sentence_of([&] { result = data::gunzip(bytes, "f", 10000); });
      EXPECT_TRUE(problem != "no error" || result == whole) << at << ' ' << value;
    }
  }
}

TEST(data_gzip, content_past_the_limit_is_refused) {
  EXPECT_EQ(rejection(copy(fixed), 23), "f: at byte 26: expected at most 23 unpacked bytes, found more");
  EXPECT_EQ(unpacked(fixed, 24).size(), 24u);
}

TEST(data_gzip, pieces_of_any_size_give_the_same_bytes) {
  const std::string text = dynamic_text;
  for (const std::size_t size : {1u, 7u, 269u, 270u, 271u}) {
    data::gzip_reader reader(data::source_of(dynamic), "f");
    std::string result;
    std::vector<std::uint8_t> piece(size);
    while (const std::size_t got = reader.read(piece))
      result.append(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got));
    EXPECT_EQ(result, text + text + text) << size;
  }
}
