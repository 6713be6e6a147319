// SPDX-License-Identifier: MIT
// Foreign text in error sentences: nothing of it reaches a terminal as anything but text, and little of it at all.
#include <meganeura/core/quote.hpp>

#include <gtest/gtest.h>

namespace mn = meganeura;

TEST(core_quote, plain_text_of_any_language_stays_as_it_is) {
  EXPECT_EQ(mn::quote("model.layers.7.weight"), "\"model.layers.7.weight\"");
  EXPECT_EQ(mn::quote("größe 大 😀"), "\"größe 大 😀\"");
  EXPECT_EQ(mn::quote(""), "\"\"");
}

TEST(core_quote, what_could_steer_a_terminal_is_escaped) {
  EXPECT_EQ(mn::quote("a\x1b[2J\n\t\a\x7f"), "\"a\\u{1b}[2J\\n\\t\\u{7}\\u{7f}\"");
  EXPECT_EQ(mn::quote("\u009b\u202e\u200b\u2028\ufeff"), "\"\\u{9b}\\u{202e}\\u{200b}\\u{2028}\\u{feff}\"");
  EXPECT_EQ(mn::quote("say \"\\\""), "\"say \\\"\\\\\\\"\"");
  EXPECT_EQ(mn::quote(std::string_view("\0", 1)), "\"\\u{0}\"");
}

TEST(core_quote, bytes_that_are_no_utf8_are_shown_as_bytes) {
  for (const char* bytes :
       {"\xff", "\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88"}) {
    EXPECT_FALSE(mn::is_utf8(bytes)) << mn::quote(bytes);
    EXPECT_TRUE(mn::quote(bytes).starts_with("\"\\x")) << mn::quote(bytes);
  }
  EXPECT_EQ(mn::quote("a\xff\x62"), "\"a\\xff\x62\"");
  EXPECT_TRUE(mn::is_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"));
}

TEST(core_quote, a_long_text_is_cut_at_a_character) {
  EXPECT_EQ(mn::quote(std::string(5'000'000, 'x'), 3), "\"xxx\"... (5000000 bytes)");
  EXPECT_EQ(mn::quote("abcé", 4), "\"abc\"... (5 bytes)");
  EXPECT_LE(mn::quote(std::string(5'000'000, '\x01')).size(), 800u);
}
