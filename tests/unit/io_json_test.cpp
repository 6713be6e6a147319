// SPDX-License-Identifier: MIT
// The strict JSON reader: what it accepts, and the sentence for each thing it does not.
#include <meganeura/io/json.hpp>

#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

namespace io = meganeura::io;

namespace {

namespace support = meganeura::support;

std::string rejection(std::string_view text) {
  return support::sentence_of([&] { (void)io::parse_json(text, "f", 8); });
}

}  // namespace

TEST(io_json, nested_values_keep_their_order_and_offsets) {
  const auto root = io::parse_json(R"( {"b": [1, 20, "x"], "a": {}} )", "f", 8);
  ASSERT_EQ(root.names.size(), 2u);
  EXPECT_EQ(root.names[0], "b");
  const auto* array = root.find("b");
  ASSERT_NE(array, nullptr);
  EXPECT_EQ(array->offset, 8u + 7u);
  ASSERT_EQ(array->items.size(), 3u);
  EXPECT_EQ(array->items[1].number, 20u);
  EXPECT_EQ(array->items[2].text, "x");
  EXPECT_EQ(root.find("a")->type, io::json::kind::object);
  EXPECT_EQ(root.find("c"), nullptr);
}

TEST(io_json, escapes_become_utf8) {
  EXPECT_EQ(io::parse_json(R"("\"\\\/\b\f\n\r\t")", "f").text, "\"\\/\b\f\n\r\t");
  EXPECT_EQ(io::parse_json(R"("\u0041\u00e9\u20AC\ud83d\ude00")", "f").text, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST(io_json, quoting_and_parsing_are_inverse) {
  const std::string text = "a\"b\\c\n\x01\xc3\xa9";
  EXPECT_EQ(io::parse_json(io::quote_json(text), "f").text, text);
}

TEST(io_json, integers_reach_the_largest_64_bit_value_and_no_further) {
  EXPECT_EQ(io::parse_json("18446744073709551615", "f").number, UINT64_MAX);
  EXPECT_EQ(rejection("18446744073709551616"), "f: at byte 27: expected an integer below 2^64, found '6'");
}

TEST(io_json, each_kind_of_damage_has_its_sentence) {
  EXPECT_EQ(
      rejection(""),
      "f: at byte 8: expected a string, a non-negative integer, an array or an object, found the end of the JSON text");
  EXPECT_EQ(rejection("-1"),
            "f: at byte 8: expected a string, a non-negative integer, an array or an object, found '-'");
  EXPECT_EQ(rejection("007"), "f: at byte 8: expected an integer without leading zeros, found '0'");
  EXPECT_EQ(rejection("1 2"), "f: at byte 10: expected the end of the JSON text, found '2'");
  EXPECT_EQ(rejection("[1 2]"), "f: at byte 11: expected ',' or ']', found '2'");
  EXPECT_EQ(rejection("{\"a\" 1}"), "f: at byte 13: expected ':', found '1'");
  EXPECT_EQ(rejection("{\"a\":1"), "f: at byte 14: expected ',' or '}', found the end of the JSON text");
  EXPECT_EQ(rejection("{\"a\":1,\"a\":2}"), "f: at byte 15: expected names used once, found a second member 'a'");
  EXPECT_EQ(rejection("\"a"),
            "f: at byte 10: expected a character of a string or '\"', found the end of the JSON text");
  EXPECT_EQ(rejection("\"\n\""), "f: at byte 9: expected a character of a string or '\"', found the byte 0x0a");
  EXPECT_EQ(rejection(R"("\x")"), "f: at byte 10: expected one of \" \\ / b f n r t u after '\\', found 'x'");
  EXPECT_EQ(rejection(R"("\u00g0")"), "f: at byte 13: expected four hexadecimal digits after '\\u', found 'g'");
  EXPECT_EQ(rejection(R"("\ud800x")"), "f: at byte 15: expected the second half of a surrogate pair, found 'x'");
}

TEST(io_json, deep_nesting_is_refused_instead_of_exhausting_the_stack) {
  EXPECT_NE(rejection(std::string(100000, '[')).find("at most 32 levels of nesting"), std::string::npos);
}
