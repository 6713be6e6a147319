// SPDX-License-Identifier: MIT
// Bodies of io/json.hpp: recursive descent after RFC 8259, without what the formats we read never hold.
#pragma once
#include <meganeura/io/file.hpp>
#include <meganeura/io/json.hpp>

#include <set>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::io {
namespace detail {

class json_parser {
 public:
  json_parser(std::string_view text, const std::string& name, std::uint64_t offset)
      : text_(text), name_(name), offset_(offset) {}

  [[nodiscard]] json document() {
    json result = value(0);
    skip_space();
    if (at_ != text_.size()) reject("the end of the JSON text");
    return result;
  }

 private:
  [[noreturn]] void reject(std::string_view expected) const {
    if (at_ >= text_.size()) bad_file(name_, offset_ + at_, expected, "the end of the JSON text");
    const char c = text_[at_];
    const bool printable = c >= 0x20 && c < 0x7f;
    bad_file(name_, offset_ + at_, expected,
             printable ? fmt::format("'{}'", c) : fmt::format("the byte 0x{:02x}", static_cast<unsigned char>(c)));
  }

  [[nodiscard]] bool peek(char c) const { return at_ < text_.size() && text_[at_] == c; }

  void skip_space() {
    while (peek(' ') || peek('\n') || peek('\r') || peek('\t')) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (!peek(c)) return false;
    ++at_;
    return true;
  }

  void expect(char c, std::string_view description) {
    if (!accept(c)) reject(description);
  }

  [[nodiscard]] json value(int depth) {
    skip_space();
    if (depth > 32) reject("at most 32 levels of nesting");
    json result;
    result.offset = offset_ + at_;
    if (peek('"')) {
      result.type = json::kind::string;
      result.text = string();
    } else if (accept('[')) {
      result.type = json::kind::array;
      items(result, depth);
    } else if (accept('{')) {
      members(result, depth);
    } else {
      result.type = json::kind::integer;
      result.number = integer();
    }
    return result;
  }

  void items(json& array, int depth) {
    if (accept(']')) return;
    do {
      array.items.push_back(value(depth + 1));
    } while (accept(','));
    expect(']', "',' or ']'");
  }

  void members(json& object, int depth) {
    if (accept('}')) return;
    std::set<std::string> seen;  // not find(): thousands of tensors would cost their square
    do {
      skip_space();
      const std::size_t start = at_;
      std::string key = string();
      if (!seen.insert(key).second) {
        bad_file(name_, offset_ + start, "names used once", fmt::format("a second member '{}'", key));
      }
      expect(':', "':'");
      object.names.push_back(std::move(key));
      object.items.push_back(value(depth + 1));
    } while (accept(','));
    expect('}', "',' or '}'");
  }

  [[nodiscard]] std::uint64_t integer() {
    const std::size_t start = at_;
    std::uint64_t result = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (result > (UINT64_MAX - digit) / 10) reject("an integer below 2^64");
      result = result * 10 + digit;
    }
    if (at_ == start) reject("a string, a non-negative integer, an array or an object");
    if (text_[start] == '0' && at_ - start > 1) {
      at_ = start;
      reject("an integer without leading zeros");
    }
    return result;
  }

  [[nodiscard]] std::string string() {
    expect('"', "'\"'");
    std::string result;
    while (!peek('"')) {
      if (at_ >= text_.size() || static_cast<unsigned char>(text_[at_]) < 0x20)
        reject("a character of a string or '\"'");
      if (!peek('\\')) {
        result += text_[at_++];
        continue;
      }
      ++at_;
      escape(result);
    }
    ++at_;
    return result;
  }

  void escape(std::string& result) {
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    if (peek('u')) {
      ++at_;
      append_utf8(result, code_point());
      return;
    }
    const std::size_t index = at_ < text_.size() ? letters.find(text_[at_]) : std::string_view::npos;
    if (index == std::string_view::npos) reject("one of \" \\ / b f n r t u after '\\'");
    result += meanings[index];
    ++at_;
  }

  [[nodiscard]] std::uint32_t hex4() {
    std::uint32_t result = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      constexpr std::string_view digits = "0123456789abcdef";
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const std::size_t digit = digits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
      if (digit == std::string_view::npos) reject("four hexadecimal digits after '\\u'");
      result = result * 16 + static_cast<std::uint32_t>(digit);
    }
    return result;
  }

  /// Joins the two halves of a character beyond U+FFFF (RFC 8259 section 7).
  [[nodiscard]] std::uint32_t code_point() {
    const std::uint32_t high = hex4();
    if (high < 0xd800 || high > 0xdfff) return high;
    if (high > 0xdbff || text_.substr(at_, 2) != "\\u") reject("the second half of a surrogate pair");
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xdc00 || low > 0xdfff) reject("the second half of a surrogate pair");
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  }

  static void append_utf8(std::string& result, std::uint32_t code) {
    const auto put = [&result](std::uint32_t byte) { result += static_cast<char>(byte); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xc0 | (code >> 6));
    } else if (code < 0x10000) {
      put(0xe0 | (code >> 12));
      put(0x80 | ((code >> 6) & 0x3f));
    } else {
      put(0xf0 | (code >> 18));
      put(0x80 | ((code >> 12) & 0x3f));
      put(0x80 | ((code >> 6) & 0x3f));
    }
    put(0x80 | (code & 0x3f));
  }

  std::string_view text_;
  const std::string& name_;
  std::uint64_t offset_;
  std::size_t at_ = 0;
};

}  // namespace detail

MEGANEURA_INLINE const json* json::find(std::string_view name) const {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return &items[i];
  }
  return nullptr;
}

MEGANEURA_INLINE json parse_json(std::string_view text, const std::string& name, std::uint64_t offset) {
  return detail::json_parser(text, name, offset).document();
}

MEGANEURA_INLINE std::string quote_json(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
