// SPDX-License-Identifier: MIT
// The JSON header of a .safetensors file, read value by value: no tree of it is ever in memory.
#pragma once
#include <meganeura/core/quote.hpp>
#include <meganeura/io/safetensors.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

namespace meganeura::inline MEGANEURA_ABI::io::detail {

/// The format's own limit; a longer header is a damaged length, not a large model.
inline constexpr std::uint64_t longest_header = 100'000'000;
/// Far more than any model has; they keep the memory and the sentences of a hostile header small.
inline constexpr std::size_t highest_rank = 64, most_metadata = 1'048'576;
inline constexpr std::uint64_t header_begin = 8;  // bytes; before it stands the header's length

/// Bytes of a tensor of `shape`; false when that is negative, no whole number, or has more than 2^63 - 1 bits.
inline bool byte_count(std::span<const std::int64_t> shape, std::size_t element_bits, std::uint64_t& result) {
  result = element_bits;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return false;
    if (extent != 0 && result > static_cast<std::uint64_t>(INT64_MAX) / static_cast<std::uint64_t>(extent))
      return false;
    result *= static_cast<std::uint64_t>(extent);
  }
  const bool is_whole = result % 8 == 0;
  result /= 8;
  return is_whole;
}

/// Goes through a text and tells how far it was read, which the parser's events do not.
class counting_iterator {
 public:
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  counting_iterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  counting_iterator& operator++() {
    *furthest_ = std::max(*furthest_, ++at_);
    return *this;
  }
  bool operator==(const counting_iterator& other) const { return at_ == other.at_; }
  bool operator!=(const counting_iterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

/// What a parser of JSON calls (nlohmann's SAX interface). Each problem is thrown where it is met.
class safetensors_header {
 public:
  safetensors_header(const std::string& path, std::string_view text, std::uint64_t file_size)
      : path_(path),
        text_(text),
        furthest_(text.data()),
        data_begin_(header_begin + text.size()),
        data_size_(file_size - data_begin_) {}

  /// Reads and checks everything. errors: invalid_file.
  void parse() {
    if (!text_.starts_with('{')) refuse_at(0, "a header that begins with '{'", quote(text_.substr(0, 1)));
    if (const auto zero = text_.find('\0'); zero != text_.npos) refuse_at(zero, "valid JSON", "a zero byte");
    nlohmann::json::sax_parse(counting_iterator(text_.data(), &furthest_),
                              counting_iterator(text_.data() + text_.size(), &furthest_), this);
    check_names();
    check_coverage();
  }

  std::vector<safetensors_tensor> tensors;
  std::vector<std::uint32_t> by_name;
  safetensors_metadata metadata;

  bool null() { return other("null"); }
  bool boolean(bool value) { return other(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return other(fmt::format("{}", value)); }
  bool number_float(double, const std::string& text) { return other(quote(text, 40)); }
  bool binary(std::vector<std::uint8_t>&) { return other("binary data"); }  // not in JSON text

  bool number_unsigned(std::uint64_t value) {
    if ((place_ != place::shape && place_ != place::range) || value > static_cast<std::uint64_t>(INT64_MAX)) {
      return other(fmt::format("{}", value));
    }
    if (place_ == place::shape) {
      if (shape_.size() == highest_rank)
        refuse(fmt::format("at most {} extents of {}", highest_rank, tensor()), "more");
      shape_.push_back(static_cast<std::int64_t>(value));
    } else {
      if (offsets_ == 2) refuse("two data_offsets of " + tensor(), "more");
      (offsets_++ == 0 ? begin_ : end_) = value;
    }
    return true;
  }

  bool string(std::string& value) {
    if (place_ == place::metadata) {
      if (metadata.size() == most_metadata) refuse(fmt::format("at most {} metadata", most_metadata), "more");
      metadata.emplace_back(key_, std::move(value));
    } else if (place_ == place::tensor && key_ == "dtype") {
      dtype_ = value;
      if (safetensors_element_bits(dtype_) == 0) {
        refuse("a dtype of the format for " + tensor(), quote(dtype_, 40));
      }
    } else {
      return other("a string");
    }
    return true;
  }

  bool start_object(std::size_t) {
    if (place_ == place::document) return enter(place::header);
    if (place_ == place::header && key_ == "__metadata__") {
      if (has_metadata_) refuse("one __metadata__", "a second one");
      has_metadata_ = true;
      return enter(place::metadata);
    }
    if (place_ != place::header) return nested("an object");
    name_ = key_;
    at_ = static_cast<std::uint32_t>(furthest_ - text_.data() - 1);
    dtype_.clear();
    shape_.clear();
    has_shape_ = false;
    offsets_ = 0;
    return enter(place::tensor);
  }

  bool start_array(std::size_t) {
    const bool is_shape = place_ == place::tensor && key_ == "shape";
    if (!is_shape && (place_ != place::tensor || key_ != "data_offsets")) return nested("an array");
    if (is_shape ? has_shape_ : offsets_ > 0) refuse(fmt::format("one {} of {}", key_, tensor()), "a second one");
    has_shape_ = has_shape_ || is_shape;
    return enter(is_shape ? place::shape : place::range);
  }

  bool key(std::string& name) {
    if (skipped_ > 0) return true;
    if (place_ == place::tensor && name == "dtype" && !dtype_.empty()) {
      refuse("one dtype of " + tensor(), "a second one");
    }
    key_ = std::move(name);
    return true;
  }

  bool end_array() {
    if (skipped_ > 0) {
      --skipped_;
      return true;
    }
    if (place_ == place::range && offsets_ != 2) refuse("two data_offsets of " + tensor(), fmt::format("{}", offsets_));
    return enter(place::tensor);
  }

  bool end_object() {
    if (skipped_ > 0) {
      --skipped_;
      return true;
    }
    if (place_ == place::tensor) add_tensor();
    return enter(place_ == place::header ? place::document : place::header);
  }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception& problem) {
    std::string_view why =
        problem.what();  // "[...] parse error at line 1, column 4: syntax error while ... - WHY; ..."
    if (const auto dash = why.find(" - "); dash != why.npos) why.remove_prefix(dash + 3);
    why = why.substr(0, why.find("; last read"));
    const std::string_view rest =
        std::string_view(token).substr(token.size() - std::min<std::size_t>(token.size(), 20));
    refuse_at(position == 0 ? 0 : position - 1, "valid JSON", fmt::format("{} at {}", quote(why), quote(rest)));
  }

 private:
  enum class place { document, header, metadata, tensor, shape, range };

  [[noreturn]] void refuse_at(std::uint64_t offset, std::string_view expected, std::string_view found) const {
    bad_file(path_, header_begin + offset, expected, found);
  }
  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const {
    const std::ptrdiff_t read = furthest_ - text_.data();
    refuse_at(static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(read, 1) - 1), expected, found);
  }
  [[nodiscard]] std::string tensor() const { return "tensor " + quote(name_); }

  bool enter(place where) {
    place_ = where;
    return true;
  }

  /// An object or array in a place for neither; inside members of a tensor that the format does not have all is
  /// skipped.
  bool nested(std::string_view found) {
    other(found);
    ++skipped_;
    return true;
  }

  /// A value that the format does not have in this place.
  bool other(std::string_view found) {
    if (skipped_ > 0) return true;
    switch (place_) {
      case place::header:
        refuse(fmt::format("tensor {} to be an object", quote(key_)), found);
      case place::metadata:
        refuse(fmt::format("metadata {} to be a string", quote(key_)), found);
      case place::shape:
        refuse(fmt::format("each extent of {} to be an integer from 0 to 2^63 - 1", tensor()), found);
      case place::range:
        refuse(fmt::format("each of the data_offsets of {} to be an integer from 0 to 2^63 - 1", tensor()), found);
      case place::document:  // begins with '{'
      case place::tensor:
        break;
    }
    if (key_ == "dtype") refuse("the dtype of " + tensor() + " to be a string", found);
    if (key_ == "shape" || key_ == "data_offsets")
      refuse(fmt::format("the {} of {} to be an array", key_, tensor()), found);
    return true;
  }

  void add_tensor() {
    const char* missing = dtype_.empty() ? "dtype" : !has_shape_ ? "shape" : offsets_ != 2 ? "data_offsets" : nullptr;
    if (missing != nullptr) refuse_at(at_, fmt::format("a member {} of {}", missing, tensor()), "none");
    const std::string shape = fmt::format("{} [{}]", dtype_, fmt::join(shape_, ", "));
    std::uint64_t size = 0;
    if (!byte_count(shape_, safetensors_element_bits(dtype_), size)) {
      refuse_at(at_, fmt::format("a shape of {} whose bytes can be counted", tensor()), shape);
    }
    if (begin_ > end_ || end_ > data_size_) {
      refuse_at(at_, fmt::format("data_offsets of {} within the {} bytes of data the file has", tensor(), data_size_),
                fmt::format("[{}, {}]", begin_, end_));
    }
    if (end_ - begin_ != size) {
      refuse_at(at_, fmt::format("{} bytes for {}, {}", size, tensor(), shape), fmt::format("{}", end_ - begin_));
    }
    tensors.push_back({name_, dtype_, shape_, data_begin_ + begin_, size});
    offset_.push_back(at_);
  }

  [[nodiscard]] std::vector<std::uint32_t> all() const {
    std::vector<std::uint32_t> result(tensors.size());
    std::iota(result.begin(), result.end(), 0u);
    return result;
  }

  void check_names() {
    by_name = all();
    std::ranges::sort(by_name, {}, [&](std::uint32_t i) { return std::pair(std::string_view(tensors[i].name), i); });
    for (std::size_t i = 1; i < by_name.size(); ++i) {
      const auto& again = tensors[by_name[i]];
      if (again.name != tensors[by_name[i - 1]].name) continue;
      refuse_at(offset_[by_name[i]], "names used once", "a second tensor " + quote(again.name));
    }
    std::vector<std::string_view> keys;
    for (const auto& pair : metadata) keys.push_back(pair.first);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice != keys.end()) refuse_at(0, "metadata used once", "a second " + quote(*twice));
  }

  /// The ranges, in order, must cover the data without overlap or gap; so the file ends where the last tensor ends.
  void check_coverage() const {
    std::vector<std::uint32_t> order = all();
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::tuple(tensors[i].begin, tensors[i].size, i); });
    std::uint64_t at = data_begin_;
    for (const std::uint32_t i : order) {
      const auto& next = tensors[i];
      if (next.begin != at) {
        bad_file(path_, std::min(at, next.begin),
                 fmt::format("tensor {} to begin at {} of the data, where the one before it ends", quote(next.name),
                             at - data_begin_),
                 fmt::format("{}, {}", next.begin - data_begin_, next.begin < at ? "an overlap" : "a gap"));
      }
      at += next.size;
    }
    if (const std::uint64_t end = data_begin_ + data_size_; at != end) {
      bad_file(path_, at, "the end of the file after the last tensor", fmt::format("{} more bytes", end - at));
    }
  }

  const std::string& path_;
  std::string_view text_;
  const char* furthest_;
  std::uint64_t data_begin_, data_size_;
  std::vector<std::uint32_t> offset_;  // in the header, of each tensor's object
  place place_ = place::document;
  std::size_t skipped_ = 0;  // levels of nesting inside a member that the format does not have
  std::string key_, name_, dtype_;
  std::vector<std::int64_t> shape_;
  std::uint64_t begin_ = 0, end_ = 0;
  std::uint32_t at_ = 0;  // where the current tensor's object begins in the header
  int offsets_ = 0;
  bool has_shape_ = false, has_metadata_ = false;
};

}  // namespace meganeura::inline MEGANEURA_ABI::io::detail
