// SPDX-License-Identifier: MIT
// Vocabularies, files of tokens, and windows of them.
#include <meganeura/data/tokens.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <array>
#include <numeric>

namespace {

using namespace meganeura;
using support::refusal;
using support::sentence_of;
using ids = std::vector<std::int32_t>;

TEST(data_tokens, characters_and_bytes_come_back) {
  const std::string text = "grüße, 世界";
  const auto characters = data::text_vocabulary::characters_of(text);
  EXPECT_EQ(characters.alphabet(), " ,egrßü世界");
  EXPECT_EQ(characters.encode("gü界"), (ids{3, 6, 8}));
  EXPECT_EQ(characters.decode(characters.encode(text)), text);
  const auto bytes = data::text_vocabulary::bytes();
  EXPECT_EQ(bytes.encode("a\xff"), (ids{97, 255}));
  EXPECT_EQ(bytes.decode(bytes.encode(text)), text);
  EXPECT_EQ(refusal([&] { (void)characters.encode("grün"); }),
            "text_vocabulary: \"n\" at byte 4 of the text is none of its 9 units");
  EXPECT_EQ(refusal([&] {
              (void)characters.decode(ids{1, 9});
            }),
            "text_vocabulary: 9 is no token of a vocabulary of 9");
  EXPECT_EQ(refusal([&] { (void)characters.decode(ids{-1}); }), "text_vocabulary: -1 is no token of a vocabulary of 9");
  EXPECT_EQ(refusal([&] { (void)data::text_vocabulary::characters_of("a\xc3"); }),
            "text_vocabulary: byte 1 of the text, \"\\xc3\", is not UTF-8; take text_vocabulary::bytes()");
}

TEST(data_tokens, files_of_both_widths_are_read_where_asked) {
  const support::temporary_folder folder;
  const std::string path = folder / "f";
  support::write(path, std::array<std::uint8_t, 8>{1, 0, 2, 1, 3, 0, 255, 255});
  const auto narrow = data::token_sequence::open(path, 2, 65536), wide = data::token_sequence::open(path, 4, 1 << 30);
  ids all(4), one(1);
  narrow.read(0, all);
  EXPECT_EQ(all, (ids{1, 258, 3, 65535}));
  narrow.read(2, one);
  EXPECT_EQ(one, (ids{3}));
  EXPECT_EQ(wide.size(), 2u);
  wide.read(0, one);
  EXPECT_EQ(one, (ids{0x01020001}));
  EXPECT_EQ(sentence_of([&] { wide.read(1, one); }),
            path + ": at byte 4: expected a token below 1073741824, found 4294901763");
  EXPECT_EQ(sentence_of([&] { data::token_sequence::open(path, 2, 258).read(0, all); }),
            path + ": at byte 2: expected a token below 258, found 258");
  for (const std::uint64_t first : {std::uint64_t{1}, std::uint64_t{5}, ~std::uint64_t{0}}) {
    EXPECT_EQ(refusal([&] { narrow.read(first, all); }),
              fmt::format("token_sequence: 4 tokens from {} on were asked for; there are 4", first));
  }
  EXPECT_EQ(refusal([&] { (void)data::token_sequence::open(path, 3, 9); }),
            path + ": tokens of 3 bytes were asked for; they have 2 or 4");
  support::write(path, std::array<std::uint8_t, 5>{});
  EXPECT_EQ(sentence_of([&] { (void)data::token_sequence::open(path, 4, 9); }),
            path + ": at byte 4: expected tokens of 4 bytes, found 1 bytes");
}

TEST(data_tokens, windows_are_a_set_whose_labels_are_the_tokens_behind) {
  ids numbers(11);
  std::iota(numbers.begin(), numbers.end(), 0);
  const data::token_sequence corpus(numbers);
  data::loader batches(corpus.windows(3), 2, {.last = data::keep});
  std::vector<ids> tokens;
  for (const auto& each : batches) {
    tokens.push_back(each.tokens);
    for (std::size_t i = 0; i < each.tokens.size(); ++i) EXPECT_EQ(each.labels[i], each.tokens[i] + 1);
  }
  EXPECT_EQ(tokens, (std::vector<ids>{{0, 1, 2, 3, 4, 5}, {6, 7, 8}}));
  EXPECT_EQ(corpus.windows(3, 1).size(), 8u);
  EXPECT_EQ(corpus.windows(10).size(), 1u);
  EXPECT_EQ(corpus.windows(5).size(), 2u);
  EXPECT_EQ(refusal([&] { (void)corpus.windows(11); }),
            "token_sequence: a window of 11 tokens, and the one behind it, do not fit into 11; take a shorter one");
  EXPECT_EQ(refusal([&] { (void)corpus.windows(0); }), "token_sequence: windows of 0 tokens were asked for");
}

}  // namespace
