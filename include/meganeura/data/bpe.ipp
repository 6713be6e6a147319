// SPDX-License-Identifier: MIT
// Bodies of data/bpe.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/data/bpe.hpp>
#include <meganeura/data/characters.hpp>
#include <meganeura/io/bounded_json.hpp>
#include <meganeura/io/file.hpp>

#include <array>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

/// Tokens are written in printable characters, one for each byte: those of Latin-1 that can be seen stand for
/// themselves, the others are those from U+0100 on.
inline bool is_written_as_itself(std::uint32_t code) {
  return (code >= 33 && code <= 126) || (code >= 161 && code <= 255 && code != 173);
}
inline const std::array<std::uint32_t, 256>& written_bytes() {
  static const auto table = [] {
    std::array<std::uint32_t, 256> result{};
    std::uint32_t next = 256;
    for (std::uint32_t byte = 0; byte < 256; ++byte) result[byte] = is_written_as_itself(byte) ? byte : next++;
    return result;
  }();
  return table;
}
inline std::string written(char byte) {
  std::string result;
  append_utf8(result, written_bytes()[static_cast<std::uint8_t>(byte)]);
  return result;
}

/// What GPT-2 and CLIP take as one word, from the beginning of a text on: their regular expressions. 0: nothing, a
/// space of CLIP's. source: Language Models are Unsupervised Multitask Learners, 2019; arXiv 2103.00020.
inline std::size_t first_word(std::string_view text, bool clip) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  const auto kind_at = [&](std::size_t at) {
    return kind_of(meganeura::detail::first_character(text.substr(at)).code);
  };
  const auto next = [&](std::size_t at) { return at + meganeura::detail::first_character(text.substr(at)).bytes; };
  if (clip) {
    const character_kind kind = kind_at(0);
    if (kind == character_kind::space) return 0;
    std::size_t end = next(0);
    while (kind != character_kind::number && end < text.size() && kind_at(end) == kind) end = next(end);
    return end;
  }
  std::size_t end = 0;
  if (kind_at(0) == character_kind::space) {
    std::size_t last = 0;  // where the last space begins
    while (end < text.size() && kind_at(end) == character_kind::space) last = std::exchange(end, next(end));
    if (end == text.size()) return end;
    if (last > 0) return last;  // all spaces but one, which belongs to the word behind
    if (text[0] != ' ') return end;
  }
  const character_kind kind = kind_at(end);
  while (end < text.size() && kind_at(end) == kind) end = next(end);
  return end;
}

}  // namespace detail

MEGANEURA_INLINE bpe_tokenizer bpe_tokenizer::parse(std::string_view vocabulary, std::string_view merges,
                                                    const std::string& name, const bpe_options& options) try {
  bpe_tokenizer result;
  result.options_ = options;
  result.parse_vocabulary(vocabulary, name);
  result.parse_merges(merges, name);
  return result;
} catch (...) {
  rethrow_as_error("reading a vocabulary");
}

MEGANEURA_INLINE bpe_tokenizer bpe_tokenizer::read(const std::string& vocabulary, const std::string& merges,
                                                   const bpe_options& options) try {
  constexpr std::uint64_t most = 16 << 20;
  bpe_tokenizer result;
  result.options_ = options;
  const auto text = [](const std::vector<std::uint8_t>& bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  result.parse_vocabulary(text(io::read_file(vocabulary, most)), vocabulary);
  if (!merges.empty()) result.parse_merges(text(io::read_file(merges, most)), merges);
  return result;
} catch (...) {
  rethrow_as_error("reading a vocabulary");
}

MEGANEURA_INLINE void bpe_tokenizer::parse_vocabulary(std::string_view text, const std::string& name) {
  const auto all = io::detail::parse_bounded_json(text, name, "a JSON object of numbers by token");
  if (!all.is_object() || all.empty()) io::bad_file(name, 0, "a JSON object of numbers by token", "something else");
  for (const auto& [token, number] : all.items()) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max()) {
      io::bad_file(name, 0, fmt::format("a number from 0 to 2^31 - 1 for the token {}", quote(token)),
                   "something else");
    }
    const auto value = number.get<std::int32_t>();
    if (const auto [at, added] = tokens_.emplace(value, token); !added) {
      io::bad_file(name, 0, fmt::format("another number than {} for the token {}", value, quote(token)),
                   fmt::format("that of {}", quote(at->second)));
    }
    numbers_.emplace(token, value);
  }
}

MEGANEURA_INLINE void bpe_tokenizer::parse_merges(std::string_view text, const std::string& name) {
  const auto number = [&](std::string_view token, std::size_t at) {
    const auto found = find(token);
    if (!found) io::bad_file(name, at, "a token of the vocabulary", quote(token));
    return *found;
  };
  std::uint32_t rank = 0;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (at == 0 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    if (space == line.npos) io::bad_file(name, at, "two tokens with a space between them", quote(line));
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    const auto first = static_cast<std::uint64_t>(number(left, at)),
               second = static_cast<std::uint64_t>(number(right, at));
    merges_.emplace(first << 32 | second, merge{rank++, number(std::string(left) + std::string(right), at)});
  }
}

MEGANEURA_INLINE std::optional<std::int32_t> bpe_tokenizer::find(std::string_view token) const {
  const auto found = numbers_.find(std::string(token));
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

MEGANEURA_INLINE std::vector<std::int32_t> bpe_tokenizer::encode(std::string_view text) const try {
  if (!is_utf8(text)) fail(error_category::invalid_argument, "bpe_tokenizer::encode: {} is not UTF-8", quote(text));
  const std::string lower = options_.clip ? lower_case(text) : std::string();
  if (options_.clip) text = lower;
  std::vector<std::int32_t> result;
  while (!text.empty()) {
    const std::size_t size = detail::first_word(text, options_.clip);
    if (size > 0) encode_word(text.substr(0, size), result);
    text.remove_prefix(size > 0 ? size : meganeura::detail::first_character(text).bytes);
  }
  return result;
} catch (...) {
  rethrow_as_error("encoding a text");
}

MEGANEURA_INLINE void bpe_tokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& into) const {
  constexpr std::size_t none = std::string_view::npos;
  struct part {
    std::int32_t token;  // -1: merged into the one before
    std::size_t before, behind;
  };
  std::vector<part> parts;
  for (std::size_t i = 0; i < word.size(); ++i) {
    std::string token = detail::written(word[i]);
    if (options_.clip && i + 1 == word.size()) token += "</w>";
    const auto found = find(token);
    if (!found)
      fail(error_category::invalid_argument, "bpe_tokenizer::encode: the vocabulary has no token {}", quote(token));
    parts.push_back({*found, i == 0 ? none : i - 1, i + 1 == word.size() ? none : i + 1});
  }
  // Merges that were possible when they were entered: rank, place of the left one, and what was there then.
  using candidate = std::tuple<std::uint32_t, std::size_t, std::int32_t, std::int32_t>;
  std::priority_queue<candidate, std::vector<candidate>, std::greater<>> open;
  const auto key = [](std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
  };
  const auto enter = [&](std::size_t left) {
    if (left == none || parts[left].behind == none) return;
    const std::int32_t first = parts[left].token, second = parts[parts[left].behind].token;
    if (const auto found = merges_.find(key(first, second)); found != merges_.end())
      open.emplace(found->second.rank, left, first, second);
  };
  for (std::size_t i = 0; i < parts.size(); ++i) enter(i);
  while (!open.empty()) {
    const auto [rank, at, first, second] = open.top();
    open.pop();
    part& left = parts[at];
    if (left.token != first || left.behind == none || parts[left.behind].token != second) continue;
    part& right = parts[left.behind];
    left.token = merges_.at(key(first, second)).token;
    right.token = -1;
    left.behind = right.behind;
    if (left.behind != none) parts[left.behind].before = at;
    enter(left.before);
    enter(at);
  }
  for (const part& each : parts) {
    if (each.token >= 0) into.push_back(each.token);
  }
}

MEGANEURA_INLINE std::string bpe_tokenizer::decode(std::span<const std::int32_t> tokens) const try {
  static const auto bytes = [] {
    std::unordered_map<std::uint32_t, char> result;
    for (std::size_t byte = 0; byte < 256; ++byte)
      result.emplace(detail::written_bytes()[byte], static_cast<char>(static_cast<std::uint8_t>(byte)));
    return result;
  }();
  std::string result;
  for (const std::int32_t token : tokens) {
    const auto found = tokens_.find(token);
    if (found == tokens_.end()) {
      fail(error_category::invalid_argument, "bpe_tokenizer::decode: no token of the vocabulary has the number {}",
           token);
    }
    std::string_view text = found->second;
    const bool ends_word = options_.clip && text.ends_with("</w>");
    if (ends_word) text.remove_suffix(4);
    while (!text.empty()) {
      const auto [code, size] = meganeura::detail::first_character(text);  // JSON is UTF-8
      const auto byte = bytes.find(code);
      if (byte == bytes.end()) {
        result += text.substr(0, size);  // of a special token
      } else {
        result += byte->second;
      }
      text.remove_prefix(size);
    }
    if (ends_word) result += ' ';
  }
  if (options_.clip && result.ends_with(' ')) result.pop_back();
  return result;
} catch (...) {
  rethrow_as_error("decoding tokens");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
