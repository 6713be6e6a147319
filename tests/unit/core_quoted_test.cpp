// SPDX-License-Identifier: MIT
// Foreign text in error sentences: nothing of it reaches a terminal as anything but text, and little of it at all.
#include <meganeura/core/quoted.hpp>

#include <gtest/gtest.h>

namespace mn = meganeura;

TEST(core_quoted, plain_text_of_any_language_stays_as_it_is) {
  EXPECT_EQ(mn::quoted("model.layers.7.weight"), "\"model.layers.7.weight\"");
  EXPECT_EQ(mn::quoted("größe 大 😀"), "\"größe 大 😀\"");
  EXPECT_EQ(mn::quoted(""), "\"\"");
}

TEST(core_quoted, what_could_steer_a_terminal_is_escaped) {
  EXPECT_EQ(mn::quoted("a\x1b[2J\n\t\a\x7f"), "\"a\\u{1b}[2J\\n\\t\\u{7}\\u{7f}\"");
  EXPECT_EQ(mn::quoted("\u009b\u202e\u200b\u2028\ufeff"), "\"\\u{9b}\\u{202e}\\u{200b}\\u{2028}\\u{feff}\"");
  EXPECT_EQ(mn::quoted("say \"\\\""), "\"say \\\"\\\\\\\"\"");
  EXPECT_EQ(mn::quoted(std::string_view("\0", 1)), "\"\\u{0}\"");
}

TEST(core_quoted, bytes_that_are_no_utf8_are_shown_as_bytes) {
  for (const char* bytes :
       {"\xff", "\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88"}) {
    EXPECT_FALSE(mn::is_utf8(bytes)) << mn::quoted(bytes);
    EXPECT_TRUE(mn::quoted(bytes).starts_with("\"\\x")) << mn::quoted(bytes);
  }
  EXPECT_EQ(mn::quoted("a\xff\x62"), "\"a\\xff\x62\"");
  EXPECT_TRUE(mn::is_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"));
}

TEST(core_quoted, a_long_text_is_cut_at_a_character) {
  EXPECT_EQ(mn::quoted(std::string(5'000'000, 'x'), 3), "\"xxx\"... (5000000 bytes)");
  EXPECT_EQ(mn::quoted("abcé", 4), "\"abc\"... (5 bytes)");
  EXPECT_LE(mn::quoted(std::string(5'000'000, '\x01')).size(), 800u);
}
