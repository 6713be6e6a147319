// SPDX-License-Identifier: MIT
// Bodies of data/npy.hpp.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/float_format.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/data/exact_bytes.hpp>
#include <meganeura/data/gzip.hpp>
#include <meganeura/data/npy.hpp>

#include <zlib.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

struct npy_type_info {
  const char* name;
  std::string_view described;  // in the header, behind the byte order
  std::size_t bytes;
};
inline constexpr npy_type_info npy_types[] = {{"f16", "f2", 2}, {"f32", "f4", 4}, {"f64", "f8", 8}, {"i8", "i1", 1},
                                              {"i16", "i2", 2}, {"i32", "i4", 4}, {"i64", "i8", 8}, {"u8", "u1", 1},
                                              {"u16", "u2", 2}, {"u32", "u4", 4}, {"u64", "u8", 8}, {"bool", "b1", 1}};

inline const npy_type_info& info(npy_type type) { return npy_types[static_cast<std::size_t>(type)]; }

/// use(i, element i as a number of C++), for each.
template <class T, class Use>
void each_element(const npy_array& array, const Use& use) {
  for (std::size_t i = 0; i < array.bytes.size() / sizeof(T); ++i) {
    T value{};
    std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
    use(i, value);
  }
}
template <class Use>
void each_number(const npy_array& array, const Use& use) {
  switch (array.type) {
    case npy_type::f16:
      return each_element<std::uint16_t>(
          array, [&](std::size_t i, std::uint16_t bits) { use(i, float_format(dtype::f16).decode(bits)); });
    case npy_type::f32:
      return each_element<float>(array, use);
    case npy_type::f64:
      return each_element<double>(array, use);
    case npy_type::i8:
      return each_element<std::int8_t>(array, use);
    case npy_type::i16:
      return each_element<std::int16_t>(array, use);
    case npy_type::i32:
      return each_element<std::int32_t>(array, use);
    case npy_type::i64:
      return each_element<std::int64_t>(array, use);
    case npy_type::u8:
      return each_element<std::uint8_t>(array, use);
    case npy_type::u16:
      return each_element<std::uint16_t>(array, use);
    case npy_type::u32:
      return each_element<std::uint32_t>(array, use);
    case npy_type::u64:
      return each_element<std::uint64_t>(array, use);
    case npy_type::boolean:
      return each_element<std::uint8_t>(array, [&](std::size_t i, std::uint8_t byte) { use(i, int{byte != 0}); });
  }
}

/// The header's text, a literal of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class npy_header {
 public:
  npy_header(std::string_view text, std::uint64_t begin, const std::string& name)
      : text_(text), begin_(begin), name_(name) {}

  npy_type type{};
  bool big_endian = false;
  std::vector<std::size_t> shape;

  void parse() {
    bool seen[3] = {};
    expect('{');
    while (!accepts('}')) {
      skip_spaces();
      const std::uint64_t at = place();
      const std::string_view key = string();
      const std::string_view keys[] = {"descr", "fortran_order", "shape"};
      const auto which = static_cast<std::size_t>(std::find(keys, keys + 3, key) - keys);
      if (which == 3 || std::exchange(seen[which], true)) {
        io::bad_file(name_, at, "'descr', 'fortran_order' and 'shape', each once", quote(key));
      }
      expect(':');
      which == 0 ? parse_type() : which == 1 ? parse_order() : parse_shape();
      if (!accepts(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) refuse("the end of the header");
    if (!seen[0] || !seen[1] || !seen[2]) refuse("'descr', 'fortran_order' and 'shape', each once");
  }

 private:
  [[nodiscard]] std::uint64_t place() const { return begin_ + at_; }
  [[noreturn]] void refuse(std::string_view expected) const {
    io::bad_file(name_, place(), expected,
                 at_ == text_.size() ? "the end of the header" : quote(text_.substr(at_), 20));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  [[nodiscard]] bool accepts(char wanted) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accepts(wanted)) refuse(fmt::format("'{}'", wanted));
  }
  [[nodiscard]] bool accepts_word(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  [[nodiscard]] std::string_view string() {
    const char mark = accepts('"') ? '"' : '\'';
    if (mark == '\'' && !accepts('\'')) refuse("a string");
    const std::size_t end = text_.find(mark, at_);
    if (end == text_.npos) refuse("a string that ends");
    const std::string_view result = text_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }
  void parse_type() {
    skip_spaces();
    const std::uint64_t at = place();
    const std::string_view described = string(), of = described.substr(std::min<std::size_t>(1, described.size()));
    const auto* found =
        std::find_if(std::begin(npy_types), std::end(npy_types), [&](const auto& row) { return row.described == of; });
    if (described.find_first_of("<>=|") != 0 || found == std::end(npy_types)) {
      io::bad_file(name_, at, "a dtype of one number, floats of 2 to 8 bytes, integers of 1 to 8 or bool",
                   quote(described));
    }
    type = static_cast<npy_type>(found - npy_types);
    big_endian = described[0] == '>' || (described[0] == '=' && std::endian::native == std::endian::big);
  }
  void parse_order() {
    if (accepts_word("False")) return;
    if (accepts_word("True")) {
      io::bad_file(name_, place(), "an array in C order; save numpy.ascontiguousarray(it)", "one in Fortran order");
    }
    refuse("True or False");
  }
  void parse_shape() {
    expect('(');
    while (!accepts(')')) {
      skip_spaces();
      std::uint64_t extent = 0;
      const std::size_t first = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        extent = extent * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
        if (extent >> 59 != 0) at_ = first, refuse("an extent below 2^59");
      }
      if (at_ == first) refuse("an extent");
      shape.push_back(extent);
      if (!accepts(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint64_t begin_;
  const std::string& name_;
};

/// Fills `into` or refuses.
inline void read_all(const byte_source& bytes, std::span<std::uint8_t> into, std::uint64_t at, const std::string& name,
                     std::string_view what) {
  if (const std::size_t got = bytes(into); got < into.size()) {
    io::bad_file(name, at + got, fmt::format("{} of {} bytes", what, into.size()), "the end of the file");
  }
}

}  // namespace detail

MEGANEURA_INLINE const char* to_string(npy_type type) { return detail::info(type).name; }

MEGANEURA_INLINE std::size_t npy_array::size() const { return bytes.size() / detail::info(type).bytes; }

MEGANEURA_INLINE std::vector<float> npy_array::floats() const {
  auto result = allocate_for<float>("npy_array::floats", size());
  detail::each_number(*this, [&](std::size_t i, auto value) { result[i] = static_cast<float>(value); });
  return result;
}

MEGANEURA_INLINE std::vector<std::int32_t> npy_array::integers() const try {
  if (type <= npy_type::f64) {
    fail(error_category::invalid_argument, "npy_array::integers: the array is {}; take its floats()", to_string(type));
  }
  auto result = allocate_for<std::int32_t>("npy_array::integers", size());
  detail::each_number(*this, [&](std::size_t i, auto value) {
    if constexpr (std::is_integral_v<decltype(value)>) {
      if (!std::in_range<std::int32_t>(value)) {
        fail(error_category::invalid_argument, "npy_array::integers: element {} is {}, which i32 does not hold", i,
             value);
      }
      result[i] = static_cast<std::int32_t>(value);
    }
  });
  return result;
} catch (...) {
  rethrow_as_error("reading an array");
}

MEGANEURA_INLINE npy_array parse_npy(const byte_source& bytes, std::uint64_t size, const std::string& name) try {
  std::array<std::uint8_t, 12> start{};
  detail::read_all(bytes, std::span(start).first(8), 0, name, "a beginning");
  if (std::memcmp(start.data(), "\x93NUMPY", 6) != 0) {
    io::bad_file(name, 0, "\"\\x93NUMPY\", as .npy files begin",
                 quote({reinterpret_cast<const char*>(start.data()), 6}));
  }
  const int version = start[6];
  if (version < 1 || version > 3) io::bad_file(name, 6, "version 1, 2 or 3 of the format", std::to_string(version));
  const std::size_t digits = version == 1 ? 2 : 4;
  detail::read_all(bytes, std::span(start).subspan(8, digits), 8, name, "the header's length");
  const std::uint32_t length = detail::little_endian(start, 8, digits);
  constexpr std::uint32_t longest = 1 << 16;
  if (length > longest)
    io::bad_file(name, 8, fmt::format("a header of at most {} bytes", longest), fmt::format("{}", length));
  const std::uint64_t begin = 8 + digits, data = begin + length;
  std::vector<std::uint8_t> text(length);
  detail::read_all(bytes, text, begin, name, "a header");
  detail::npy_header header({reinterpret_cast<const char*>(text.data()), text.size()}, begin, name);
  header.parse();
  const std::size_t each = detail::info(header.type).bytes;
  const std::uint64_t count = detail::bytes_of(header.shape, each, size > data ? size - data : 0, begin, name);
  npy_array result{header.type, std::move(header.shape), {}};
  result.bytes = detail::read_exactly(bytes, count, data, name, result.shape);
  if (header.big_endian != (std::endian::native == std::endian::big)) {
    for (std::size_t i = 0; i < result.bytes.size(); i += each) {
      std::reverse(result.bytes.begin() + static_cast<std::ptrdiff_t>(i),
                   result.bytes.begin() + static_cast<std::ptrdiff_t>(i + each));
    }
  }
  return result;
} catch (...) {
  rethrow_as_error("reading an array");
}

MEGANEURA_INLINE npy_array read_npy(const std::string& path) try {
  const io::file_reader file(path);
  return parse_npy(source_of(file), file.size(), path);
} catch (...) {
  rethrow_as_error("reading an array");
}

// --- zip (PKWARE's APPNOTE 6.3) --------------------------------------------------------------------------------------

MEGANEURA_INLINE npz_file npz_file::open(const std::string& path) try {
  npz_file result{io::file_reader(path)};
  result.read_directory();
  return result;
} catch (...) {
  rethrow_as_error("reading an array");
}

MEGANEURA_INLINE void npz_file::read_directory() {
  constexpr std::uint64_t shortest = 22, comment = 65535;
  const std::string& name = file_.path();
  std::vector<std::uint8_t> end(static_cast<std::size_t>(std::min(file_.size(), shortest + comment)));
  const std::uint64_t begin = file_.size() - end.size();
  file_.read(begin, std::as_writable_bytes(std::span(end)));
  const auto word = [](std::span<const std::uint8_t> bytes, std::size_t at, std::size_t count) {
    return detail::little_endian(bytes, at, count);
  };
  std::size_t at = end.size() >= shortest ? end.size() - shortest + 1 : 0;
  const auto is_end = [&] {
    return word(end, at, 4) == 0x06054b50 && at + shortest + word(end, at + 20, 2) == end.size();
  };
  bool found = false;
  while (!found && at > 0) --at, found = is_end();
  if (!found) io::bad_file(name, file_.size(), "a zip file, with its directory at the end", "none");
  const std::uint64_t count = word(end, at + 10, 2), size = word(end, at + 12, 4);
  directory_ = word(end, at + 16, 4);
  if (count == 0xffff || size == 0xffffffff || directory_ == 0xffffffff) {
    io::bad_file(name, begin + at, "a zip file of less than 4 GiB and 65535 arrays; save arrays as .npy", "zip64");
  }
  if (word(end, at + 4, 4) != 0 || word(end, at + 8, 2) != count) {
    io::bad_file(name, begin + at + 4, "a zip file in one part", "one in several");
  }
  if (directory_ + size > begin + at) {
    io::bad_file(name, begin + at + 12, fmt::format("a directory that ends before byte {}", begin + at),
                 fmt::format("one of {} bytes at byte {}", size, directory_));
  }
  std::vector<std::uint8_t> directory(static_cast<std::size_t>(size));
  file_.read(directory_, std::as_writable_bytes(std::span(directory)));
  std::size_t next = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    constexpr std::size_t fixed = 46;
    const bool fits = directory.size() - next >= fixed && word(directory, next, 4) == 0x02014b50;
    const std::size_t length = fits ? word(directory, next + 28, 2) : 0,
                      extra = fits ? word(directory, next + 30, 2) + word(directory, next + 32, 2) : 0;
    if (!fits || directory.size() - next - fixed < length + extra) {
      io::bad_file(name, directory_ + next, fmt::format("entry {} of {} of the directory", i + 1, count), "none");
    }
    std::string key(reinterpret_cast<const char*>(directory.data()) + next + fixed, length);
    if (key.ends_with(".npy")) key.resize(key.size() - 4);
    const entry made{static_cast<std::uint16_t>(word(directory, next + 8, 2)),
                     static_cast<std::uint16_t>(word(directory, next + 10, 2)),
                     word(directory, next + 16, 4),
                     word(directory, next + 20, 4),
                     word(directory, next + 24, 4),
                     word(directory, next + 42, 4)};
    if (made.packed == 0xffffffff || made.unpacked == 0xffffffff || made.header == 0xffffffff) {
      io::bad_file(name, directory_ + next, "arrays of less than 4 GiB; save larger ones as .npy", "zip64");
    }
    if (!entries_.emplace(std::move(key), made).second) {
      io::bad_file(name, directory_ + next, "each name once", "a name that was there before");
    }
    next += fixed + length + extra;
  }
}

MEGANEURA_INLINE std::vector<std::string> npz_file::names() const try {
  std::vector<std::string> result;
  for (const auto& [name, of] : entries_) result.push_back(name);
  return result;
} catch (...) {
  rethrow_as_error("reading an array");
}

MEGANEURA_INLINE std::uint64_t npz_file::data_of(const entry& of) const {
  std::array<std::uint8_t, 30> header{};
  const std::size_t got = file_.read_some(of.header, std::as_writable_bytes(std::span(header)));
  if (got < header.size() || detail::little_endian(header, 0, 4) != 0x04034b50) {
    io::bad_file(file_.path(), of.header, "an array's header", "none");
  }
  const std::uint64_t begin = std::uint64_t{of.header} + header.size() + detail::little_endian(header, 26, 2) +
                              detail::little_endian(header, 28, 2);
  if (begin + of.packed > directory_) {
    io::bad_file(file_.path(), begin, fmt::format("{} bytes before the directory at byte {}", of.packed, directory_),
                 fmt::format("{}", directory_ - std::min(directory_, begin)));
  }
  return begin;
}

MEGANEURA_INLINE npy_array npz_file::read(std::string_view name) const try {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    fail(error_category::invalid_argument, "{}: has no array {}{}", shown_path(file_.path()), quote(name),
         meganeura::detail::did_you_mean(meganeura::detail::nearest(name, names())));
  }
  const entry& of = found->second;
  const std::string label = fmt::format("{}({})", file_.path(), name.substr(0, 120));
  const std::uint64_t begin = data_of(of);
  if ((of.flags & 1) != 0) io::bad_file(label, begin, "an array that is not encrypted", "an encrypted one");
  const bool stored = of.method == 0;
  if (!stored && of.method != 8) {
    io::bad_file(label, begin, "compression 0 (none) or 8 (deflate)", fmt::format("{}", of.method));
  }
  constexpr std::uint64_t densest = 1032;  // times that deflate packs at best
  if (stored ? of.unpacked != of.packed : of.unpacked > densest * (of.packed + 1)) {
    io::bad_file(label, begin, fmt::format("an array that {} bytes can hold", of.packed),
                 fmt::format("one of {}", of.unpacked));
  }
  std::uint64_t at = 0;
  uLong crc = ::crc32_z(0, nullptr, 0);
  const byte_source packed = [&](std::span<std::uint8_t> into) {
    const auto bytes = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), of.packed - at)));
    file_.read(begin + at, std::as_writable_bytes(bytes));
    at += bytes.size();
    if (stored && !bytes.empty()) crc = ::crc32_z(crc, bytes.data(), bytes.size());
    return bytes.size();
  };
  if (stored) {
    npy_array result = parse_npy(packed, of.unpacked, label);
    if (crc != of.crc)
      io::bad_file(label, begin, fmt::format("bytes of CRC-32 {:08x}", of.crc), fmt::format("{:08x}", crc));
    return result;
  }
  // What lies in a zip file between header and directory is what lies in a gzip file between header and checksum.
  std::vector<std::uint8_t> before{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}, after;
  for (const std::uint32_t number : {of.crc, of.unpacked}) {
    for (int shift = 0; shift < 32; shift += 8) after.push_back(static_cast<std::uint8_t>(number >> shift));
  }
  gzip_reader unpacked(
      [&, head = source_of(before), tail = source_of(after)](std::span<std::uint8_t> into) {
        if (const std::size_t got = head(into); got > 0) return got;
        if (const std::size_t got = packed(into); got > 0) return got;
        return tail(into);
      },
      label);
  return parse_npy([&](std::span<std::uint8_t> into) { return unpacked.read(into); }, of.unpacked, label);
} catch (...) {
  rethrow_as_error("reading an array");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
