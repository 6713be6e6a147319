// SPDX-License-Identifier: MIT
// Bodies of data/tokens.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/data/tokens.hpp>
#include <meganeura/io/file.hpp>

#include <algorithm>
#include <optional>
#include <set>

namespace meganeura::inline MEGANEURA_ABI::data {

MEGANEURA_INLINE text_vocabulary text_vocabulary::characters_of(std::string_view text) try {
  std::set<std::string_view> units;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = meganeura::detail::first_character(text.substr(at)).bytes;
    if (bytes == 0) {
      fail(error_category::invalid_argument,
           "text_vocabulary: byte {} of the text, {}, is not UTF-8; take text_vocabulary::bytes()", at,
           quote(text.substr(at, 1)));
    }
    units.insert(text.substr(at, bytes));
    at += bytes;
  }
  text_vocabulary result;
  result.units_.assign(units.begin(), units.end());
  result.characters_ = true;
  return result;
} catch (...) {
  rethrow_as_error("reading tokens");
}

MEGANEURA_INLINE text_vocabulary text_vocabulary::bytes() try {
  text_vocabulary result;
  for (int byte = 0; byte < 256; ++byte) result.units_.emplace_back(1, static_cast<char>(byte));
  return result;
} catch (...) {
  rethrow_as_error("reading tokens");
}

MEGANEURA_INLINE std::vector<std::int32_t> text_vocabulary::encode(std::string_view text) const try {
  std::vector<std::int32_t> result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t character = meganeura::detail::first_character(text.substr(at)).bytes;
    const std::string_view unit = text.substr(at, characters_ && character > 0 ? character : 1);
    const auto found = std::lower_bound(units_.begin(), units_.end(), unit);  // by unsigned bytes
    if (found == units_.end() || *found != unit) {
      fail(error_category::invalid_argument, "text_vocabulary: {} at byte {} of the text is none of its {} units",
           quote(unit), at, size());
    }
    result.push_back(static_cast<std::int32_t>(found - units_.begin()));
    at += unit.size();
  }
  return result;
} catch (...) {
  rethrow_as_error("reading tokens");
}

MEGANEURA_INLINE std::string text_vocabulary::decode(std::span<const std::int32_t> tokens) const try {
  std::string result;
  for (const std::int32_t token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= size()) {
      fail(error_category::invalid_argument, "text_vocabulary: {} is no token of a vocabulary of {}", token, size());
    }
    result += units_[static_cast<std::size_t>(token)];
  }
  return result;
} catch (...) {
  rethrow_as_error("reading tokens");
}

MEGANEURA_INLINE std::string text_vocabulary::alphabet() const try {
  std::string result;
  for (const std::string& unit : units_) result += unit;
  return result;
} catch (...) {
  rethrow_as_error("reading tokens");
}

struct token_sequence::source {
  std::vector<std::int32_t> tokens{};
  std::optional<io::file_reader> file{};  // instead of them
  std::size_t bytes = 4;
  std::uint32_t vocabulary = 0;
  std::uint64_t size = 0;
};

MEGANEURA_INLINE token_sequence::token_sequence(std::vector<std::int32_t> tokens) try {
  const std::size_t size = tokens.size();
  source_ = std::make_shared<const source>(source{.tokens = std::move(tokens), .size = size});
} catch (...) {
  rethrow_as_error("reading tokens");
}

MEGANEURA_INLINE token_sequence token_sequence::open(const std::string& path, int bytes, std::int32_t vocabulary) try {
  if (bytes != 2 && bytes != 4) {
    fail(error_category::invalid_argument, "{}: tokens of {} bytes were asked for; they have 2 or 4", shown_path(path),
         bytes);
  }
  source made{.file = io::file_reader(path), .bytes = static_cast<std::size_t>(bytes)};
  made.vocabulary = static_cast<std::uint32_t>(std::max(0, vocabulary));
  made.size = made.file->size() / made.bytes;
  if (made.file->size() % made.bytes != 0) {
    io::bad_file(path, made.size * made.bytes, fmt::format("tokens of {} bytes", bytes),
                 fmt::format("{} bytes", made.file->size() % made.bytes));
  }
  token_sequence result({});
  result.source_ = std::make_shared<const source>(std::move(made));
  return result;
} catch (...) {
  rethrow_as_error("reading tokens");
}

MEGANEURA_INLINE std::uint64_t token_sequence::size() const { return source_->size; }

MEGANEURA_INLINE void token_sequence::read(std::uint64_t first, std::span<std::int32_t> into) const {
  const source& from = *source_;
  if (first > from.size || into.size() > from.size - first) {
    fail(error_category::invalid_argument, "token_sequence: {} tokens from {} on were asked for; there are {}",
         into.size(), first, from.size);
  }
  if (!from.file) {
    std::copy_n(from.tokens.begin() + static_cast<std::ptrdiff_t>(first), into.size(), into.begin());
    return;
  }
  const auto place = [&](std::size_t i) { return (first + i) * from.bytes; };
  // The file's bytes go to the end of the target, so that each token is written before those that it covers are read.
  const auto bytes = std::as_writable_bytes(into).last(into.size() * from.bytes);
  from.file->read(place(0), bytes);
  for (std::size_t i = 0; i < into.size(); ++i) {
    std::uint32_t token = 0;
    for (std::size_t b = from.bytes; b-- > 0;)
      token = token << 8 | std::to_integer<std::uint32_t>(bytes[i * from.bytes + b]);
    if (token >= from.vocabulary) {
      io::bad_file(from.file->path(), place(i), fmt::format("a token below {}", from.vocabulary),
                   fmt::format("{}", token));
    }
    into[i] = static_cast<std::int32_t>(token);
  }
}

MEGANEURA_INLINE token_windows token_sequence::windows(std::size_t length, std::size_t stride) const {
  if (length == 0) fail(error_category::invalid_argument, "token_sequence: windows of 0 tokens were asked for");
  if (size() <= length) {
    fail(error_category::invalid_argument,
         "token_sequence: a window of {} tokens, and the one behind it, do not fit into {}; take a shorter one", length,
         size());
  }
  const std::size_t step = stride == 0 ? length : stride;
  return {*this, length, step, static_cast<std::size_t>((size() - length - 1) / step + 1)};
}

MEGANEURA_INLINE void token_windows::fill(const chosen_samples& chosen, token_batch& into) const try {
  const std::size_t count = chosen.indices.size();
  into.tokens.resize(count * length_);
  into.labels.resize(count * length_);
  std::vector<std::int32_t> window(length_ + 1);
  for (std::size_t i = 0; i < count; ++i) {
    of_.read(std::uint64_t{chosen.indices[i]} * stride_, window);
    std::copy_n(window.begin(), length_, into.tokens.begin() + static_cast<std::ptrdiff_t>(i * length_));
    std::copy_n(window.begin() + 1, length_, into.labels.begin() + static_cast<std::ptrdiff_t>(i * length_));
  }
} catch (...) {
  rethrow_as_error("reading tokens");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
