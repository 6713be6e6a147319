// SPDX-License-Identifier: MIT
// Bodies of io/safetensors.hpp. Format: 8 bytes of header length (little-endian), the JSON header, then the data.
#pragma once
#include <meganeura/io/json.hpp>
#include <meganeura/io/safetensors.hpp>

#include <algorithm>
#include <set>

namespace meganeura::inline MEGANEURA_ABI::io {
namespace detail {

/// The format's own limit; a longer header is a damaged length, not a large model.
inline constexpr std::uint64_t longest_header = 100'000'000;

/// Bytes of a tensor of `shape`; false when that is negative or past 2^63 - 1.
inline bool byte_count(std::span<const std::int64_t> shape, std::size_t element_size, std::uint64_t& result) {
  result = element_size;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return false;
    if (extent != 0 && result > static_cast<std::uint64_t>(INT64_MAX) / static_cast<std::uint64_t>(extent))
      return false;
    result *= static_cast<std::uint64_t>(extent);
  }
  return true;
}

inline const json& member(const json& object, std::string_view name, json::kind type, const std::string& path,
                          std::string_view tensor) {
  const json* found = object.find(name);
  if (found == nullptr) {
    bad_file(path, object.offset, fmt::format("a member '{}' of tensor '{}'", name, tensor), "none");
  }
  if (found->type != type) {
    bad_file(path, found->offset, fmt::format("'{}' of tensor '{}' to be {}", name, tensor, to_string(type)),
             to_string(found->type));
  }
  return *found;
}

inline std::uint64_t integer(const json& value, std::string_view what, std::string_view tensor,
                             const std::string& path) {
  if (value.type != json::kind::integer || value.number > static_cast<std::uint64_t>(INT64_MAX)) {
    bad_file(path, value.offset, fmt::format("{} of tensor '{}' to be an integer below 2^63", what, tensor),
             value.type == json::kind::integer ? fmt::format("{}", value.number) : to_string(value.type));
  }
  return value.number;
}

/// One entry of the header, its range checked against its shape and the size of the data.
inline safetensors_entry read_entry(const std::string& name, const json& value, std::span<const std::byte> data,
                                    const std::string& path) {
  if (value.type != json::kind::object) {
    bad_file(path, value.offset, fmt::format("tensor '{}' to be an object", name), to_string(value.type));
  }
  const json& dtype = member(value, "dtype", json::kind::string, path, name);
  const json& shape = member(value, "shape", json::kind::array, path, name);
  const json& range = member(value, "data_offsets", json::kind::array, path, name);
  safetensors_entry entry{name, dtype.text, {}, {}};
  const std::size_t element_size = safetensors_element_size(dtype.text);
  if (element_size == 0) {
    bad_file(path, dtype.offset, fmt::format("a dtype of the format for tensor '{}'", name),
             fmt::format("'{}'", dtype.text));
  }
  for (const json& extent : shape.items) {
    entry.shape.push_back(static_cast<std::int64_t>(integer(extent, "each extent", name, path)));
  }
  std::uint64_t size = 0;
  if (!byte_count(entry.shape, element_size, size)) {
    bad_file(path, shape.offset, fmt::format("a shape of tensor '{}' whose bytes can be counted", name),
             fmt::format("[{}]", fmt::join(entry.shape, ", ")));
  }
  if (range.items.size() != 2) {
    bad_file(path, range.offset, fmt::format("two data_offsets of tensor '{}'", name),
             fmt::format("{}", range.items.size()));
  }
  const std::uint64_t begin = integer(range.items[0], "the begin", name, path);
  const std::uint64_t end = integer(range.items[1], "the end", name, path);
  if (begin > end || end > data.size()) {
    bad_file(path, range.offset,
             fmt::format("data_offsets of tensor '{}' within the {} bytes of data the file has", name, data.size()),
             fmt::format("[{}, {}]", begin, end));
  }
  if (end - begin != size) {
    bad_file(path, range.offset,
             fmt::format("{} bytes for tensor '{}', {} [{}]", size, name, entry.dtype, fmt::join(entry.shape, ", ")),
             fmt::format("{}", end - begin));
  }
  entry.bytes = data.subspan(begin, size);
  return entry;
}

/// The ranges, in order, must cover the data without overlap or gap; so the file ends where the last tensor ends.
inline void check_coverage(std::span<const safetensors_entry> entries, std::span<const std::byte> data,
                           std::uint64_t data_offset, const std::string& path) {
  std::vector<const safetensors_entry*> ordered;
  for (const auto& entry : entries) ordered.push_back(&entry);
  const auto begin_of = [&](const safetensors_entry& entry) {
    return static_cast<std::uint64_t>(entry.bytes.data() - data.data());
  };
  std::stable_sort(ordered.begin(), ordered.end(), [&](const auto* a, const auto* b) {
    return std::pair(begin_of(*a), a->bytes.size()) < std::pair(begin_of(*b), b->bytes.size());
  });
  std::uint64_t at = 0;
  for (const auto* entry : ordered) {
    if (begin_of(*entry) != at) {
      bad_file(path, data_offset + std::min(at, begin_of(*entry)),
               fmt::format("tensor '{}' to begin at {} of the data, where the one before it ends", entry->name, at),
               fmt::format("{}, {}", begin_of(*entry), begin_of(*entry) < at ? "an overlap" : "a gap"));
    }
    at += entry->bytes.size();
  }
  if (at != data.size()) {
    bad_file(path, data_offset + at, "the end of the file after the last tensor",
             fmt::format("{} more bytes", data.size() - at));
  }
}

inline safetensors_metadata read_metadata(const json& value, const std::string& path) {
  safetensors_metadata result;
  if (value.type != json::kind::object)
    bad_file(path, value.offset, "__metadata__ to be an object", to_string(value.type));
  for (std::size_t i = 0; i < value.names.size(); ++i) {
    const json& text = value.items[i];
    if (text.type != json::kind::string) {
      bad_file(path, text.offset, fmt::format("metadata '{}' to be a string", value.names[i]), to_string(text.type));
    }
    result.emplace_back(value.names[i], text.text);
  }
  return result;
}

/// The JSON text, padded with spaces so that the data begins at a multiple of 8 bytes.
inline std::string write_header(std::span<const safetensors_entry> entries, const safetensors_metadata& metadata) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> texts;
    for (const auto& pair : metadata) texts.push_back(quote_json(pair.first) + ":" + quote_json(pair.second));
    members.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(texts, ",")));
  }
  std::uint64_t offset = 0;
  for (const auto& entry : entries) {
    members.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  quote_json(entry.name), entry.dtype, fmt::join(entry.shape, ","), offset,
                                  offset + entry.bytes.size()));
    offset += entry.bytes.size();
  }
  std::string header = fmt::format("{{{}}}", fmt::join(members, ","));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

inline void check_entries(std::span<const safetensors_entry> entries, const std::string& path) {
  std::set<std::string_view> names;
  for (const auto& entry : entries) {
    if (entry.name == "__metadata__" || !names.insert(entry.name).second) {
      fail(error_category::invalid_argument, "{}: cannot hold tensor '{}': the name is {}", path, entry.name,
           entry.name == "__metadata__" ? "reserved" : "used twice");
    }
    std::uint64_t size = 0;
    const std::size_t element_size = safetensors_element_size(entry.dtype);
    if (element_size == 0) {
      fail(error_category::invalid_argument, "{}: cannot hold tensor '{}': the format has no dtype '{}'", path,
           entry.name, entry.dtype);
    }
    if (!byte_count(entry.shape, element_size, size) || size != entry.bytes.size()) {
      fail(error_category::invalid_argument, "{}: tensor '{}', {} [{}], needs {} bytes; {} were given", path,
           entry.name, entry.dtype, fmt::join(entry.shape, ", "), size, entry.bytes.size());
    }
  }
}

}  // namespace detail

MEGANEURA_INLINE std::size_t safetensors_element_size(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::size_t> sizes[] = {
      {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I32", 4},  {"U32", 4},     {"I64", 8},    {"U64", 8},
      {"I16", 2}, {"U16", 2}, {"I8", 1},   {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& entry : sizes) {
    if (entry.first == dtype) return entry.second;
  }
  return 0;
}

MEGANEURA_INLINE safetensors_file safetensors_file::open(const std::string& path) {
  safetensors_file result(path, mapped_file(path));
  const auto bytes = result.file_.bytes();
  if (bytes.size() < 8) bad_file(path, 0, "8 bytes of header length", fmt::format("a file of {} bytes", bytes.size()));
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  const std::uint64_t most = std::min<std::uint64_t>(bytes.size() - 8, detail::longest_header);
  if (length > most) {
    bad_file(path, 0, fmt::format("a header of at most {} bytes", most), fmt::format("a length of {}", length));
  }
  const auto header_bytes = bytes.subspan(8, length);
  const auto data = bytes.subspan(8 + length);
  const std::string_view text(reinterpret_cast<const char*>(header_bytes.data()), header_bytes.size());
  const json header = parse_json(text, path, 8);
  if (header.type != json::kind::object) bad_file(path, 8, "an object as header", to_string(header.type));
  for (std::size_t i = 0; i < header.names.size(); ++i) {
    if (header.names[i] == "__metadata__") {
      result.metadata_ = detail::read_metadata(header.items[i], path);
    } else {
      result.tensors_.push_back(detail::read_entry(header.names[i], header.items[i], data, path));
    }
  }
  detail::check_coverage(result.tensors_, data, 8 + length, path);
  return result;
}

MEGANEURA_INLINE const safetensors_entry* safetensors_file::find(std::string_view name) const {
  for (const auto& entry : tensors_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

MEGANEURA_INLINE void write_safetensors(const std::string& path, std::span<const safetensors_entry> entries,
                                        const safetensors_metadata& metadata) {
  detail::check_entries(entries, path);
  const std::string header = detail::write_header(entries, metadata);
  std::byte length[8];
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  std::vector<std::span<const std::byte>> pieces{length, std::as_bytes(std::span(header))};
  for (const auto& entry : entries) pieces.push_back(entry.bytes);
  write_file(path, pieces);
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
