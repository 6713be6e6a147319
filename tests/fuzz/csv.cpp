// SPDX-License-Identifier: MIT
// Fuzz target: tables of text. Written again with every field in quotes they are the same.
#include <meganeura/data/csv.hpp>

#include "fuzz.hpp"

namespace data = meganeura::data;

namespace {

std::string quoted(std::string_view field) {
  std::string result = "\"";
  for (const char c : field) result.append(c == '"' ? 2 : 1, c);
  return result + "\"";
}

void check(std::string_view text) {
  const auto table = data::csv_table::parse(text, "fuzz.csv");
  std::string again;
  for (std::size_t i = 0; i < table.columns(); ++i) again += (i == 0 ? "" : ",") + quoted(table.names()[i]);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    again += '\n';
    for (std::size_t i = 0; i < table.columns(); ++i) again += (i == 0 ? "" : ",") + quoted(table.field(row, i));
  }
  const auto second = data::csv_table::parse(again, "again.csv");
  fuzz::require(second.names() == table.names() && second.rows() == table.rows(), "names and rows survive writing");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    for (std::size_t i = 0; i < table.columns(); ++i) {
      fuzz::require(second.field(row, i) == table.field(row, i), "fields survive writing");
    }
  }
  fuzz::accepts([&] { fuzz::require(table.numbers().size() == table.rows() * table.columns(), "all are numbers"); });
  fuzz::accepts([&] { fuzz::require(table.classes("a").labels.size() == table.rows(), "a label for each row"); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  fuzz::accepts([&] { check({reinterpret_cast<const char*>(bytes), size}); });
  return 0;
}
