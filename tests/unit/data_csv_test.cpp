// SPDX-License-Identifier: MIT
// Tables of text: fields, numbers, classes, and one sentence with its line for each way to be wrong.
#include <meganeura/core/quote.hpp>
#include <meganeura/data/csv.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>

namespace {

using namespace meganeura;
using support::refusal;
using support::sentence_of;

data::csv_table table(std::string_view text, const data::csv_options& options = {}) {
  return data::csv_table::parse(text, "f", options);
}

TEST(data_csv, columns_are_numbers_by_name) {
  const auto found = table("width,height,kind\n1,2.5,b\n-3e2, 4 ,a\r\n0.1,5,b");
  EXPECT_EQ(found.names(), (std::vector<std::string>{"width", "height", "kind"}));
  EXPECT_EQ(found.rows(), 3u);
  EXPECT_EQ(found.numbers({"height", "width"}), (std::vector<float>{2.5f, 1, 4, -300, 5, 0.1f}));
  const auto kinds = found.classes("kind");
  EXPECT_EQ(kinds.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(kinds.labels, (std::vector<std::int32_t>{1, 0, 1}));
  EXPECT_EQ(refusal([&] { (void)found.numbers({"widht"}); }),
            "f: has no column \"widht\"; it has \"width\", \"height\", \"kind\"; did you mean \"width\"?");
  EXPECT_EQ(refusal([&] { (void)table("a,a\n1,2\n").numbers({"a"}); }),
            "f: has two columns \"a\"; give them different names");
  EXPECT_EQ(refusal([&] { (void)found.field(3, 0); }), "f: field (3, 0) was asked for; it has 3 rows of 3");
}

TEST(data_csv, a_table_may_have_no_header_and_another_separator) {
  const auto found = table("1;2\n3;4\n", {.separator = ';', .header = false});
  EXPECT_TRUE(found.names().empty());
  EXPECT_EQ(found.numbers(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(table("").rows(), 0u);
  EXPECT_EQ(table("\n\n").columns(), 0u);
  EXPECT_EQ(table("a,b\n").rows(), 0u);
}

TEST(data_csv, quotes_hold_separators_line_breaks_and_quotes) {
  const auto found = table("\xef\xbb\xbf\"a\",\"b \"\"x\"\", y\"\r\n\"1\n2\",\"\"\r\n\r\n3,z\r\n");
  EXPECT_EQ(found.names(), (std::vector<std::string>{"a", "b \"x\", y"}));
  EXPECT_EQ(found.field(0, 0), "1\n2");
  EXPECT_EQ(found.field(0, 1), "");
  EXPECT_EQ(found.field(1, 0), "3");
  EXPECT_EQ(sentence_of([&] { (void)found.numbers({"b \"x\", y"}); }),
            "f: line 2, column 2 (\"b \\\"x\\\", y\"): expected a number that f32 holds, found nothing");
  EXPECT_EQ(sentence_of([&] { (void)table("a\n\"1\n2\"\nx\n").numbers(); }),
            "f: line 2, column 1 (\"a\"): expected a number that f32 holds, found \"1\\n2\"");
  EXPECT_EQ(sentence_of([&] { (void)table("a\n\"1\"\n\n\nx\n").numbers(); }),
            "f: line 5, column 1 (\"a\"): expected a number that f32 holds, found \"x\"");
}

TEST(data_csv, classes_are_numbered_as_those_of_another_table) {
  const data::csv_classes train = table("k\nred\nblue\ngreen\n").classes("k");
  const data::csv_classes test = table("k\ngreen\nred\n").classes("k", train.names);
  EXPECT_EQ(test.labels, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(test.names, train.names);
  EXPECT_EQ(sentence_of([&] { (void)table("k\nred\npink\n").classes("k", train.names); }),
            "f: line 3, column 1 (\"k\"): expected one of the 3 classes that are known, found \"pink\"");
}

TEST(data_csv, columns_that_there_are_are_named) {
  EXPECT_EQ(refusal([] { (void)table("a;b\n1;2\n").numbers({"a"}); }),
            "f: has no column \"a\"; it has \"a;b\" alone; what divides columns is the option separator");
  EXPECT_EQ(refusal([] { (void)table("1,2\n", {.header = false}).numbers({"a"}); }),
            "f: has no column \"a\"; it was read without a header");
  EXPECT_EQ(refusal([] { (void)table("a,b,c,d,e,f,g,h,i,j,k,l\n").column("zz"); }),
            "f: has no column \"zz\"; it has \"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", "
            "\"j\" and 2 more");
}

TEST(data_csv, what_is_no_table_is_a_sentence) {
  EXPECT_EQ(sentence_of([] { (void)table("a,b\n1,2\n1,2,3\n"); }),
            "f: line 3: expected 2 fields, as in the first line, found 3");
  EXPECT_EQ(sentence_of([] { (void)table("a,b\n1\n"); }),
            "f: line 2: expected 2 fields, as in the first line, found 1");
  EXPECT_EQ(sentence_of([] { (void)table("a,b\n1,\"2\n3,4"); }),
            "f: line 2, column 2: expected a quote that ends, found the end of the file");
  EXPECT_EQ(sentence_of([] { (void)table("a,b\n1,\"2\n\"3\n"); }),
            "f: line 3, column 2: expected a separator behind the quotes, found \"3\"");
  EXPECT_EQ(sentence_of([] { (void)table("a,b\n,1\n").classes("a"); }),
            "f: line 2, column 1 (\"a\"): expected the name of a class, found nothing");
  for (const char separator : {'"', '\r', '\n'}) {
    EXPECT_EQ(sentence_of([&] { (void)table("a\nb\n", {.separator = separator}); }),
              fmt::format("f: the separator {} is what quotes fields or ends lines; take another one",
                          quote({&separator, 1})));
  }
}

TEST(data_csv, numbers_are_decimal_and_of_f32) {
  const auto one = [](std::string_view text) { return table(text, {.header = false}).numbers()[0]; };
  EXPECT_EQ(one("+1.5E+3"), 1500);
  EXPECT_EQ(one(".5"), 0.5f);
  EXPECT_TRUE(std::isnan(one("NaN")));
  EXPECT_EQ(one("-inf"), -HUGE_VALF);
  for (const char* text : {"0x10", "1e39", "-1e400", "1 2", "1,5;", "NA", "nano", "--1", "1e", "-", "infinit",
                           "1111111111111111111111111111111111111111111111111111111111111111111"}) {
    const std::string found = sentence_of([&] { (void)table(text, {.separator = '\t', .header = false}).numbers(); });
    EXPECT_EQ(found, fmt::format("f: line 1, column 1: expected a number that f32 holds, found {}", quote(text, 40)));
  }
  // A comma for a point, as other countries' programs have it, changes nothing here.
  const std::string before = std::setlocale(LC_ALL, nullptr);
  if (std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr) {
    EXPECT_EQ(one("1.5"), 1.5f);
  }
  std::setlocale(LC_ALL, before.c_str());
}

TEST(data_csv, files_are_read) {
  const support::temporary_folder folder;
  support::write(folder / "f.csv", std::string("a\n1\nx\n"));
  EXPECT_EQ(sentence_of([&] { (void)data::csv_table::read(folder / "f.csv").numbers(); }),
            folder / "f.csv" + ": line 3, column 1 (\"a\"): expected a number that f32 holds, found \"x\"");
  EXPECT_EQ(support::thrown_by([&] { (void)data::csv_table::read(folder / "f.csv", {.most = 5}); }),
            error_category::io);
}

}  // namespace
