// SPDX-License-Identifier: MIT
// Bodies of data/csv.hpp.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/data/csv.hpp>
#include <meganeura/io/file.hpp>

#include <locale.h>
#include <stdlib.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

inline std::string_view without_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Decimal, whatever the user's locale says; nothing for what is no number or beyond f32. (libc++ 19 has no
/// std::from_chars of floats.)
inline std::optional<float> number_in(std::string_view text) {
  static const locale_t plain = [] {
    if (const locale_t made = ::newlocale(LC_ALL_MASK, "C", nullptr)) return made;
    throw std::bad_alloc();
  }();
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  std::string lower(text.substr(0, 64));
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const std::string_view word = std::string_view(lower).substr(sign);
  const bool named = word == "nan" || word == "inf" || word == "infinity";
  if (text.size() > 64 || word.empty() || (!named && word.find_first_not_of("0123456789.e+-") != word.npos)) return {};
  char* end = nullptr;
  const auto value = static_cast<float>(::strtod_l(lower.c_str(), &end, plain));
  if (end != lower.c_str() + lower.size() || (!named && !std::isfinite(value))) return {};
  return value;
}

}  // namespace detail

/// Goes through the text once.
class csv_parser {
 public:
  csv_parser(std::string_view text, csv_table& into, const csv_options& options)
      : text_(text), into_(into), separator_(options.separator) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  /// False at the end of the text.
  bool parse_row() {
    while (at_ < text_.size() && skip_line_end()) {
    }
    if (at_ == text_.size()) return false;
    const std::uint64_t line = line_;
    std::size_t fields = 0;
    do {
      parse_field(++fields);
    } while (at_ < text_.size() && text_[at_] == separator_ && ++at_ > 0);
    skip_line_end();
    if (into_.columns_ == 0) into_.columns_ = fields;
    if (fields != into_.columns_) {
      fail(error_category::invalid_file, "{}: line {}: expected {} fields, as in the first line, found {}",
           shown_path(into_.name_), line, into_.columns_, fields);
    }
    into_.lines_.push_back(line);
    return true;
  }

 private:
  bool skip_line_end() {
    const std::size_t length = text_.substr(at_).starts_with("\r\n") ? 2 : text_.substr(at_).starts_with('\n') ? 1 : 0;
    at_ += length;
    if (length > 0) ++line_;
    return length > 0;
  }
  [[nodiscard]] bool at_field_end() const {
    const std::string_view rest = text_.substr(at_, 2);
    return rest.empty() || rest[0] == separator_ || rest[0] == '\n' || rest == "\r\n";
  }
  void parse_field(std::size_t column) {
    if (at_ < text_.size() && text_[at_] == '"') {
      parse_quoted(column);
    } else {
      const std::size_t first = at_;
      while (!at_field_end()) ++at_;
      into_.text_ += text_.substr(first, at_ - first);
    }
    into_.ends_.push_back(into_.text_.size());
  }
  void parse_quoted(std::size_t column) {
    const std::uint64_t line = line_;
    for (;;) {
      const std::size_t first = ++at_, end = text_.find('"', first);
      if (end == text_.npos) {
        fail(error_category::invalid_file,
             "{}: line {}, column {}: expected a quote that ends, found the end of the file", shown_path(into_.name_),
             line, column);
      }
      const std::string_view piece = text_.substr(first, end - first);
      into_.text_ += piece;
      line_ += static_cast<std::uint64_t>(std::count(piece.begin(), piece.end(), '\n'));
      at_ = end + 1;
      if (at_ == text_.size() || text_[at_] != '"') break;
      into_.text_ += '"';
    }
    if (!at_field_end()) {
      fail(error_category::invalid_file, "{}: line {}, column {}: expected a separator behind the quotes, found {}",
           shown_path(into_.name_), line_, column, quote(text_.substr(at_, 1)));
    }
  }

  std::string_view text_;
  csv_table& into_;
  char separator_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 1;
};

MEGANEURA_INLINE csv_table csv_table::parse(std::string_view text, const std::string& name,
                                            const csv_options& options) try {
  if (std::string_view("\"\r\n").find(options.separator) != std::string_view::npos) {
    fail(error_category::invalid_argument, "{}: the separator {} is what quotes fields or ends lines; take another one",
         shown_path(name), quote({&options.separator, 1}));
  }
  csv_table result;
  result.name_ = name;
  csv_parser parser(text, result, options);
  if (options.header && parser.parse_row()) {
    for (std::size_t i = 0; i < result.columns_; ++i) result.names_.emplace_back(result.field(0, i));
    result.text_.clear();
    result.ends_.clear();
    result.lines_.clear();
  }
  while (parser.parse_row()) {
  }
  return result;
} catch (...) {
  rethrow_as_error("reading a table");
}

MEGANEURA_INLINE csv_table csv_table::read(const std::string& path, const csv_options& options) try {
  const std::vector<std::uint8_t> bytes = io::read_file(path, options.most);
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, options);
} catch (...) {
  rethrow_as_error("reading a table");
}

MEGANEURA_INLINE std::size_t csv_table::column(std::string_view name) const try {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) {
    constexpr std::size_t most = 10;
    std::string all;
    for (std::size_t i = 0; i < std::min(names_.size(), most); ++i) all += (i > 0 ? ", " : "") + quote(names_[i], 40);
    fail(error_category::invalid_argument, "{}: has no column {}; {}{}{}{}", shown_path(name_), quote(name),
         names_.empty() ? "it was read without a header" : "it has " + all,
         names_.size() > most ? fmt::format(" and {} more", names_.size() - most) : "",
         names_.size() == 1 ? " alone; what divides columns is the option separator" : "",
         meganeura::detail::did_you_mean(meganeura::detail::nearest(name, names_)));
  }
  if (std::find(found + 1, names_.end(), name) != names_.end()) {
    fail(error_category::invalid_argument, "{}: has two columns {}; give them different names", shown_path(name_),
         quote(name));
  }
  return static_cast<std::size_t>(found - names_.begin());
} catch (...) {
  rethrow_as_error("reading a table");
}

MEGANEURA_INLINE std::string_view csv_table::field(std::size_t row, std::size_t column) const {
  if (row >= rows() || column >= columns_) {
    fail(error_category::invalid_argument, "{}: field ({}, {}) was asked for; it has {} rows of {}", shown_path(name_),
         row, column, rows(), columns_);
  }
  const std::size_t at = row * columns_ + column, begin = static_cast<std::size_t>(at == 0 ? 0 : ends_[at - 1]);
  return std::string_view(text_).substr(begin, static_cast<std::size_t>(ends_[at]) - begin);
}

MEGANEURA_INLINE void csv_table::refuse(std::size_t row, std::size_t column, std::string_view expected) const {
  const std::string_view found = detail::without_spaces(field(row, column));
  fail(error_category::invalid_file, "{}: line {}, column {}{}: expected {}, found {}", shown_path(name_), lines_[row],
       column + 1, names_.empty() ? "" : " (" + quote(names_[column]) + ")", expected,
       found.empty() ? "nothing" : quote(found, 40));
}

MEGANEURA_INLINE std::vector<float> csv_table::numbers_of(const std::vector<std::size_t>& columns) const {
  auto result = reserve_for<float>(name_, std::uint64_t{rows()} * columns.size());
  for (std::size_t row = 0; row < rows(); ++row) {
    for (const std::size_t column : columns) {
      const auto value = detail::number_in(detail::without_spaces(field(row, column)));
      if (!value) refuse(row, column, "a number that f32 holds");
      result.push_back(*value);
    }
  }
  return result;
}

MEGANEURA_INLINE std::vector<float> csv_table::numbers(const std::vector<std::string>& names) const try {
  std::vector<std::size_t> columns;
  for (const std::string& name : names) columns.push_back(column(name));
  return numbers_of(columns);
} catch (...) {
  rethrow_as_error("reading a table");
}

MEGANEURA_INLINE std::vector<float> csv_table::numbers() const try {
  std::vector<std::size_t> all(columns_);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return numbers_of(all);
} catch (...) {
  rethrow_as_error("reading a table");
}

MEGANEURA_INLINE csv_classes csv_table::classes(std::string_view name) const try {
  const std::size_t chosen = column(name);
  std::vector<std::string> names;
  for (std::size_t row = 0; row < rows(); ++row) {
    if (field(row, chosen).empty()) refuse(row, chosen, "the name of a class");
    names.emplace_back(field(row, chosen));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return classes(name, names);
} catch (...) {
  rethrow_as_error("reading a table");
}

MEGANEURA_INLINE csv_classes csv_table::classes(std::string_view name, const std::vector<std::string>& known) const
    try {
  const std::size_t chosen = column(name);
  std::map<std::string_view, std::int32_t> numbers;
  for (std::size_t i = 0; i < known.size(); ++i) numbers.emplace(known[i], static_cast<std::int32_t>(i));
  csv_classes result{{}, known};
  for (std::size_t row = 0; row < rows(); ++row) {
    const auto at = numbers.find(field(row, chosen));
    if (at == numbers.end()) refuse(row, chosen, fmt::format("one of the {} classes that are known", known.size()));
    result.labels.push_back(at->second);
  }
  return result;
} catch (...) {
  rethrow_as_error("reading a table");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
