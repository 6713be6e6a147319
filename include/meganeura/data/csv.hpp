// SPDX-License-Identifier: MIT
// Tables of text, comma-separated (RFC 4180), and their columns as numbers and classes.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// How a table is written.
struct csv_options {
  char separator = ',';                         // between fields; not a quote or a line break
  bool header = true;                           // the first line has the columns' names
  std::uint64_t most = std::uint64_t{1} << 30;  // bytes of a file that is read
};

/// A column's texts as numbers from 0: their places among the names, which are sorted unless they were given.
struct csv_classes {
  std::vector<std::int32_t> labels;  // [rows]
  std::vector<std::string> names;    // [classes]
};

/// A table: rows of as many fields each. Lines and columns in messages count from 1.
class csv_table {
 public:
  /// Fields in quotes may hold separators, line breaks and, twice, quotes. Lines end in \n or \r\n, empty ones are
  /// passed over, as is a byte order mark. `name` is for messages.
  /// errors: `invalid_file`, with the line, for a row of more or fewer fields than the first one, a quote that does not
  /// end, and text beside one; invalid_argument for a separator that is a quote or a line break; `out_of_memory`.
  [[nodiscard]] static csv_table parse(std::string_view text, const std::string& name, const csv_options& options = {});
  /// errors: as parse; `io`.
  [[nodiscard]] static csv_table read(const std::string& path, const csv_options& options = {});

  [[nodiscard]] std::size_t rows() const { return lines_.size(); }  // without the header
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }  // empty without a header

  /// errors: invalid_argument for a name that no column has, or two.
  [[nodiscard]] std::size_t column(std::string_view name) const;
  /// errors: invalid_argument for a field that is not there.
  [[nodiscard]] std::string_view field(std::size_t row, std::size_t column) const;

  /// Columns as f32, [rows, columns named]; spaces around a number are nothing, "nan" and "inf" are numbers.
  /// errors: as column; `invalid_file`, with line and column, for a field that is missing, no number, or too large.
  [[nodiscard]] std::vector<float> numbers(const std::vector<std::string>& names) const;
  /// All columns. errors: as above.
  [[nodiscard]] std::vector<float> numbers() const;

  /// errors: as column; `invalid_file`, with line and column, for a field that is missing.
  [[nodiscard]] csv_classes classes(std::string_view name) const;
  /// As another table has numbered them, that of the training: test.classes("kind", train.classes("kind").names).
  /// errors: as above; `invalid_file`, with line and column, for a class that is not among `known`.
  [[nodiscard]] csv_classes classes(std::string_view name, const std::vector<std::string>& known) const;

 private:
  friend class csv_parser;
  [[nodiscard]] std::vector<float> numbers_of(const std::vector<std::size_t>& columns) const;
  [[noreturn]] void refuse(std::size_t row, std::size_t column, std::string_view expected) const;

  std::string name_, text_;           // fields one after another
  std::vector<std::uint64_t> ends_;   // of fields in it
  std::vector<std::uint64_t> lines_;  // of rows in the file
  std::vector<std::string> names_;
  std::size_t columns_ = 0;
};

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/csv.ipp>
#endif
