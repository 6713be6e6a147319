// SPDX-License-Identifier: MIT
// Byte pair encoding on a small vocabulary, with answers worked out by hand.
#include <meganeura/data/bpe.hpp>
#include <meganeura/data/characters.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

namespace {

using namespace meganeura;
using support::sentence_of;
using tokens = std::vector<std::int32_t>;

// The space is written as U+0120, the first byte of an umlaut as U+00C3, the second of an a as U+00A4.
data::bpe_tokenizer gpt2() {
  return data::bpe_tokenizer::parse(
      R"({"l": 0, "o": 1, "w": 2, "e": 3, "r": 4, "\u0120": 5, "lo": 6, "low": 7, "er": 8, "\u0120low": 9,
          "s": 10, "'": 11, "'s": 12, "1": 13, "2": 14, "12": 15, "!": 16, "\u00c3": 17, "\u00a4": 18, "\u00c3\u00a4": 19,
          "<|end|>": 20, "\u0120lo": 21, "\u010a": 22, "we": 23})",
      "#version: 0.2\nl o\nlo w\ne r\n\u0120 low\n' s\n1 2\n\u00c3 \u00a4\nw e\n", "v");
}

TEST(data_bpe, the_earliest_merge_comes_first) {
  const auto bpe = gpt2();
  EXPECT_EQ(bpe.size(), 24u);
  EXPECT_EQ(bpe.encode("lower"), (tokens{7, 8}));              // low er, for "e r" comes before "w e"
  EXPECT_EQ(bpe.encode("low lower"), (tokens{7, 9, 8}));       // a space begins the word behind it
  EXPECT_EQ(bpe.encode("low  low"), (tokens{7, 5, 9}));        // all spaces but one are a word
  EXPECT_EQ(bpe.encode("low \n"), (tokens{7, 5, 22}));         // at the end, all
  EXPECT_EQ(bpe.encode("low's!12"), (tokens{7, 12, 16, 15}));  // letters, an ending, others, numbers
  EXPECT_EQ(bpe.encode("\u00e4"), tokens{19});
  EXPECT_EQ(bpe.encode("wwe"), (tokens{2, 23}));
  EXPECT_EQ(bpe.encode(""), tokens{});
  EXPECT_EQ(bpe.find("<|end|>"), 20);
  EXPECT_EQ(bpe.find("<|start|>"), std::nullopt);
}

TEST(data_bpe, what_was_cut_comes_back) {
  const auto bpe = gpt2();
  for (const std::string text : {"lower low", "low  low\n \n", "low's !12", "\u00e4rro\u00e4"})
    EXPECT_EQ(bpe.decode(bpe.encode(text)), text);
  EXPECT_EQ(bpe.decode(tokens{7, 20}), "low<|end|>");
}

TEST(data_bpe, clip_ends_words_and_knows_no_capitals) {
  const auto bpe = data::bpe_tokenizer::parse(
      R"({"a": 0, "c": 1, "t": 2, "a</w>": 3, "t</w>": 4, "at</w>": 5, "cat</w>": 6, "1": 7, "1</w>": 8, "!": 9,
          "!</w>": 10, "!!</w>": 11, "c</w>": 12, "ca": 13})",
      "#version: 0.2\na t</w>\nc at</w>\n! !</w>\nc a\n", "v", {.clip = true});
  EXPECT_EQ(bpe.encode("A  cat"), (tokens{3, 6}));
  EXPECT_EQ(bpe.encode("CAT11!!"), (tokens{6, 8, 8, 11}));  // digits one by one
  EXPECT_EQ(bpe.encode("cac"), (tokens{13, 12}));
  EXPECT_EQ(bpe.decode(tokens{3, 6, 8}), "a cat 1");
}

TEST(data_bpe, what_is_no_vocabulary_is_refused) {
  const auto refused = [](const std::string& vocabulary, const std::string& merges) {
    return sentence_of([&] { (void)data::bpe_tokenizer::parse(vocabulary, merges, "f"); });
  };
  EXPECT_EQ(refused("[1]", ""), "f: at byte 0: expected a JSON object of numbers by token, found something else");
  EXPECT_TRUE(refused("{", "").starts_with(
      "f: at byte 1: expected valid JSON: a JSON object of numbers by token, found its end"));
  EXPECT_EQ(refused(std::string(1000, '['), ""),
            "f: at byte 0: expected a JSON object of numbers by token, found JSON nested 17 levels deep");
  EXPECT_EQ(refused(R"({"a": -1})", ""),
            "f: at byte 0: expected a number from 0 to 2^31 - 1 for the token \"a\", found something else");
  EXPECT_EQ(refused(R"({"a": 1, "b": 1})", ""),
            "f: at byte 0: expected another number than 1 for the token \"b\", found that of \"a\"");
  EXPECT_EQ(refused(R"({"a": 1})", "a\n"), "f: at byte 0: expected two tokens with a space between them, found \"a\"");
  EXPECT_EQ(refused(R"({"a": 1})", "\na a\n"), "f: at byte 1: expected a token of the vocabulary, found \"aa\"");
  EXPECT_EQ(support::refusal([] { (void)gpt2().encode("z"); }),
            "bpe_tokenizer::encode: the vocabulary has no token \"z\"");
  EXPECT_EQ(support::refusal([] { (void)gpt2().encode("\xff"); }), "bpe_tokenizer::encode: \"\\xff\" is not UTF-8");
  EXPECT_EQ(support::refusal([] { (void)gpt2().decode(tokens{99}); }),
            "bpe_tokenizer::decode: no token of the vocabulary has the number 99");
}

TEST(data_bpe, characters_are_of_their_kinds) {
  using data::character_kind;
  EXPECT_EQ(data::kind_of('a'), character_kind::letter);
  EXPECT_EQ(data::kind_of(0x4e2d), character_kind::letter);
  EXPECT_EQ(data::kind_of('7'), character_kind::number);
  EXPECT_EQ(data::kind_of(0x00bd), character_kind::number);  // a half
  EXPECT_EQ(data::kind_of(0x3000), character_kind::space);
  EXPECT_EQ(data::kind_of('_'), character_kind::other);
  EXPECT_EQ(data::kind_of(0x1f600), character_kind::other);
  EXPECT_EQ(data::lower_case("\u00c4B\u0100\u0101\u0416\u03a9 1\xff"), "\u00e4b\u0101\u0101\u0436\u03c9 1\xff");
}

}  // namespace
