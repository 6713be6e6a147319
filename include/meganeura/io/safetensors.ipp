// SPDX-License-Identifier: MIT
// Bodies of io/safetensors.hpp. Format: 8 bytes of header length (little-endian), the JSON header, then the data.
#pragma once
#include <meganeura/core/quote.hpp>
#include <meganeura/io/crc32.hpp>
#include <meganeura/io/safetensors.hpp>
#include <meganeura/io/safetensors_header.ipp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace meganeura::inline MEGANEURA_ABI::io {
namespace detail {

inline constexpr std::string_view checksum_prefix = "crc32.";      // before a tensor's name: a key of the metadata
inline constexpr std::string_view header_key = "meganeura.crc32";  // of the header, its own 8 digits taken as zeros
inline constexpr std::string_view no_digits = "00000000";

inline std::string checksum_key_of(std::string_view tensor) { return fmt::format("{}{}", checksum_prefix, tensor); }

/// Where the digits of the header's own checksum stand in its text; npos: it has none. Inside of a name or a text of
/// JSON every quote is behind a backslash, so that nothing else reads like this.
inline std::size_t header_digits(std::string_view header) {
  const std::string before = fmt::format("\"{}\":\"", header_key);
  const std::size_t at = header.find(before);
  return at == header.npos ? at : at + before.size();
}

inline std::string quote_json(std::string_view text) { return nlohmann::json(text).dump(); }

/// What dtype and shape need; `check_shape` comes first.
inline std::uint64_t bytes_of(const safetensors_entry& entry) {
  std::uint64_t size = 0;
  (void)byte_count(entry.shape, safetensors_element_bits(entry.dtype), size);
  return size;
}

inline void check_shape(const safetensors_entry& entry, const std::string& path) {
  const std::size_t element_bits = safetensors_element_bits(entry.dtype);
  if (element_bits == 0) {
    fail(error_category::invalid_argument, "{}: cannot hold tensor {}: the format has no dtype {}", shown_path(path),
         quote(entry.name), quote(entry.dtype));
  }
  if (entry.shape.size() > highest_rank) {
    fail(error_category::invalid_argument, "{}: cannot hold tensor {}: it has {} extents; {} are the most",
         shown_path(path), quote(entry.name), entry.shape.size(), highest_rank);
  }
  std::uint64_t size = 0;
  if (byte_count(entry.shape, element_bits, size)) return;
  fail(error_category::invalid_argument,
       "{}: cannot hold tensor {}: {} [{}] has no whole number of bytes that can be counted", shown_path(path),
       quote(entry.name), entry.dtype, fmt::join(entry.shape, ", "));
}

inline void check_bytes(const safetensors_entry& entry, std::size_t given, const std::string& path) {
  if (const std::uint64_t size = bytes_of(entry); size != given) {
    fail(error_category::invalid_argument, "{}: tensor {}, {} [{}], needs {} bytes; {} were given", shown_path(path),
         quote(entry.name), entry.dtype, fmt::join(entry.shape, ", "), size, given);
  }
}

/// The JSON text, padded with spaces so that the data begins at a multiple of 8 bytes; as long whatever the checksums
/// are.
inline std::string write_header(std::span<const safetensors_entry> entries, const safetensors_metadata& metadata,
                                std::span<const std::string> checksums) {
  std::vector<std::string> members, texts;
  for (const auto& pair : metadata) texts.push_back(quote_json(pair.first) + ":" + quote_json(pair.second));
  for (std::size_t i = 0; i < entries.size(); ++i)
    texts.push_back(fmt::format("{}:\"{}\"", quote_json(checksum_key_of(entries[i].name)), checksums[i]));
  texts.push_back(fmt::format("\"{}\":\"{}\"", header_key, no_digits));
  members.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(texts, ",")));
  std::uint64_t offset = 0;
  for (const auto& entry : entries) {
    const std::uint64_t end = offset + bytes_of(entry);
    members.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  quote_json(entry.name), entry.dtype, fmt::join(entry.shape, ","), offset, end));
    offset = end;
  }
  std::string header = fmt::format("{{{}}}", fmt::join(members, ","));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string checksum = io::crc32(std::as_bytes(std::span(header)));
  return header.replace(header_digits(header), checksum.size(), checksum);
}

/// Compares a header with the checksum in it; false: there is none. Before it is parsed, for what a damaged header says
/// is no help; its digits are zeros afterwards.
inline bool is_checked(std::string& header, const std::string& path) {
  const std::size_t at = header_digits(header);
  if (at == header.npos) return false;
  const std::string written = header.substr(at, no_digits.size());
  header.replace(at, written.size(), no_digits.substr(0, written.size()));
  const std::string found = io::crc32(std::as_bytes(std::span(header)));
  if (found == written) return true;
  bad_file(path, header_begin, fmt::format("a header with the CRC-32 {} that it was written with", quote(written)),
           fmt::format("\"{}\": the file was damaged or changed since; take another copy", found));
}

inline void check_names(std::span<const safetensors_entry> entries, const safetensors_metadata& metadata,
                        const std::string& path) {
  std::set<std::string_view> names, keys;
  const auto check = [&](const char* what, std::string_view name, bool is_new) {
    const char* problem = !is_new ? "used twice" : !is_utf8(name) ? "no UTF-8" : nullptr;
    if (problem == nullptr) return;
    fail(error_category::invalid_argument, "{}: cannot hold {} {}: the name is {}", shown_path(path), what, quote(name),
         problem);
  };
  for (const auto& entry : entries) {
    if (entry.name == "__metadata__") {
      fail(error_category::invalid_argument, "{}: cannot hold tensor \"__metadata__\": the name is reserved",
           shown_path(path));
    }
    check("tensor", entry.name, names.insert(entry.name).second);
  }
  std::set<std::string> checksums{std::string(header_key)};
  for (const auto& entry : entries) checksums.insert(checksum_key_of(entry.name));
  for (const auto& [key, text] : metadata) {
    check("metadata", key, keys.insert(key).second && !checksums.contains(key));
    if (is_utf8(text)) continue;
    fail(error_category::invalid_argument, "{}: cannot hold metadata {}: its text is no UTF-8", shown_path(path),
         quote(key));
  }
}

/// What a file of another kind begins with, and what it is.
struct known_beginning {
  std::string_view bytes;
  const char* what;
};
inline constexpr known_beginning known_beginnings[] = {
    {"PK\3\4",
     "a zip archive, as torch.save (.pt, .bin) and numpy.savez write; in Python, "
     "safetensors.torch.save_file(torch.load(path), ..) makes a .safetensors file of it"},
    {"\x80\2",
     "a pickle, as torch.save wrote before PyTorch 1.6; in Python, safetensors.torch.save_file(torch.load(path), "
     "..) makes a .safetensors file of it"},
    {"\x80\4", "a Python pickle; load it in Python and write its tensors by safetensors.torch.save_file"},
    {"GGUF", "a GGUF file, of llama.cpp; take the model's .safetensors files"},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes; take the model's .safetensors files"},
    {"\x1f\x8b", "a gzip archive; unpack it first"},
    {"\x93NUMPY", "a .npy file, one array without a name; data::read_npy reads it"},
    {"version https://git-lfs", "a Git LFS pointer, which stands for the file; fetch that by git lfs pull"},
    {"<!DOCTYPE", "a web page, as a download that failed leaves; download the file again"},
    {"<!doctype", "a web page, as a download that failed leaves; download the file again"},
    {"<html", "a web page, as a download that failed leaves; download the file again"},
    {"\x7f"
     "ELF",
     "a program (ELF)"},
};

/// Why the first bytes are no length, in words that help: checkpoints of other kinds are often tried.
inline std::string describe_beginning(std::string_view first, std::uint64_t length) {
  for (const known_beginning& each : known_beginnings) {
    if (first.starts_with(each.bytes)) return each.what;
  }
  const std::string_view text = first.substr(0, header_begin);
  if (std::ranges::all_of(text, [](char each) {
        return (each >= ' ' && each <= '~') || each == '\n' || each == '\r' || each == '\t';
      })) {
    return "text, beginning " + quote(text);
  }
  return fmt::format("a length of {}", length);
}

}  // namespace detail

MEGANEURA_INLINE const char* safetensors_dtype(dtype type) { return info(type).safetensors; }

MEGANEURA_INLINE std::size_t safetensors_element_bits(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::size_t> bits[] = {
      {"F32", 32},        {"F16", 16},    {"BF16", 16},   {"F64", 64},    {"I32", 32},    {"U32", 32},
      {"I64", 64},        {"U64", 64},    {"I16", 16},    {"U16", 16},    {"I8", 8},      {"U8", 8},
      {"BOOL", 8},        {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& entry : bits) {
    if (entry.first == dtype) return entry.second;
  }
  return 0;
}

MEGANEURA_INLINE safetensors_file safetensors_file::open(const std::string& path) {
  safetensors_file result{file_reader(path)};
  const std::uint64_t size = result.file_.size();
  if (size < detail::header_begin) {
    bad_file(path, 0, "a .safetensors file, which begins with 8 bytes of header length",
             fmt::format("a file of {} bytes", size));
  }
  std::byte bytes[detail::header_begin];
  result.file_.read(0, bytes);
  std::uint64_t length = 0;
  for (std::size_t i = std::size(bytes); i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  const std::uint64_t there = size - detail::header_begin;
  if (length > detail::longest_header) {
    bad_file(path, 0,
             fmt::format("a .safetensors file, which begins with the length of its header, at most {}",
                         detail::longest_header),
             [&] {
               std::string first(std::min<std::uint64_t>(size, 32), '\0');
               result.file_.read(0, std::as_writable_bytes(std::span(first)));
               return detail::describe_beginning(first, length);
             }());
  }
  if (length > there) {
    bad_file(path, size, fmt::format("the {} bytes of header that its first 8 bytes promise", length),
             fmt::format("the end of the file after {} of them", there));
  }
  try {
    std::string text(length, '\0');
    result.file_.read(detail::header_begin, std::as_writable_bytes(std::span(text)));
    const bool is_checked = detail::is_checked(text, path);
    detail::safetensors_header header(path, text, size);
    header.parse();
    result.tensors_ = std::move(header.tensors);
    result.by_name_ = std::move(header.by_name);
    result.metadata_ = std::move(header.metadata);
    result.take_checksums(is_checked);
  } catch (const std::bad_alloc&) {
    fail(error_category::out_of_memory, "{}: its header of {} bytes does not fit into memory", shown_path(path),
         length);
  }
  return result;
}

MEGANEURA_INLINE void safetensors_file::take_checksums(bool header_is_checked) {
  bool is_ours = false;
  std::erase_if(metadata_, [&](std::pair<std::string, std::string>& entry) {
    const std::string_view key = entry.first;
    is_ours = is_ours || key.starts_with("meganeura.");
    if (key == detail::header_key) return true;
    if (!key.starts_with(detail::checksum_prefix)) return false;
    const auto* found = find(key.substr(detail::checksum_prefix.size()));
    if (found == nullptr) return false;
    tensors_[static_cast<std::size_t>(found - tensors_.data())].crc32 = std::move(entry.second);
    return is_ours = true;
  });
  if (!is_ours) return;
  // One that was lost would guard nothing, and nobody would know.
  const auto bare = std::ranges::find_if(tensors_, [](const auto& each) { return each.crc32.empty(); });
  if (header_is_checked && bare == tensors_.end()) return;
  bad_file(path(), detail::header_begin,
           fmt::format("the CRC-32 of {}, as in every file that meganeura writes",
                       header_is_checked ? "tensor " + quote(bare->name) : "the header"),
           "none: the file was damaged or changed since; take another copy");
}

MEGANEURA_INLINE const safetensors_tensor* detail::find_tensor(std::span<const safetensors_tensor> tensors,
                                                               std::span<const std::uint32_t> by_name,
                                                               std::string_view name) {
  const auto name_of = [&](std::uint32_t i) -> std::string_view { return tensors[i].name; };
  const auto found = std::ranges::lower_bound(by_name, name, {}, name_of);
  return found != by_name.end() && name_of(*found) == name ? &tensors[*found] : nullptr;
}

MEGANEURA_INLINE const safetensors_tensor* safetensors_file::find(std::string_view name) const {
  return detail::find_tensor(tensors_, by_name_, name);
}

MEGANEURA_INLINE std::vector<std::byte> safetensors_file::read(const safetensors_tensor& tensor) const {
  std::vector<std::byte> bytes;
  read(tensor, bytes);
  return bytes;
}

MEGANEURA_INLINE void safetensors_file::read(const safetensors_tensor& tensor, std::vector<std::byte>& bytes) const {
  if (bytes.capacity() < tensor.size) {
    bytes = {};  // before there is another
    bytes = allocate_for<std::byte>(path(), tensor.size);
  }
  bytes.resize(static_cast<std::size_t>(tensor.size));
  file_.read(tensor.begin, bytes);
  if (tensor.crc32.empty()) return;
  if (const std::string found = crc32(bytes); found != tensor.crc32) {
    bad_file(path(), tensor.begin,
             fmt::format("tensor {} with the CRC-32 {} that it was written with", quote(tensor.name),
                         quote(tensor.crc32, 40)),
             fmt::format("\"{}\": the file was damaged or changed since; take another copy", found));
  }
}

namespace detail {

inline std::string length_of(const std::string& header) {
  std::string length(header_begin, '\0');
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length;
}

}  // namespace detail

MEGANEURA_INLINE void write_safetensors(const std::string& path, std::span<const safetensors_entry> entries,
                                        const safetensors_metadata& metadata) {
  detail::check_names(entries, metadata, path);
  std::vector<std::string> checksums;
  for (const auto& entry : entries) {
    detail::check_shape(entry, path);
    detail::check_bytes(entry, entry.bytes.size(), path);
    checksums.push_back(crc32(entry.bytes));
  }
  const std::string header = detail::write_header(entries, metadata, checksums), length = detail::length_of(header);
  std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(length)), std::as_bytes(std::span(header))};
  for (const auto& entry : entries) pieces.push_back(entry.bytes);
  write_file(path, pieces);
}

MEGANEURA_INLINE void write_safetensors(const std::string& path, std::span<const safetensors_entry> entries,
                                        const safetensors_metadata& metadata,
                                        const std::function<std::vector<std::byte>(std::size_t)>& bytes_of) {
  detail::check_names(entries, metadata, path);
  for (const auto& entry : entries) detail::check_shape(entry, path);
  file_writer file(path);
  if (!file.keeps_bytes()) {  // the header comes first, with the checksums of all that follows
    std::vector<std::vector<std::byte>> values;
    std::vector<safetensors_entry> whole(entries.begin(), entries.end());
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i].bytes = values.emplace_back(bytes_of(i));
    return write_safetensors(path, whole, metadata);
  }
  std::vector<std::string> checksums(entries.size(), std::string(detail::no_digits));
  const std::string draft = detail::write_header(entries, metadata, checksums), length = detail::length_of(draft);
  file.write(std::as_bytes(std::span(length)));
  file.write(std::as_bytes(std::span(draft)));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::vector<std::byte> values = bytes_of(i);
    detail::check_bytes(entries[i], values.size(), path);
    checksums[i] = crc32(values);
    file.write(values);
  }
  const std::string header = detail::write_header(entries, metadata, checksums);
  file.replace(detail::header_begin, std::as_bytes(std::span(header)));
  file.commit();
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
