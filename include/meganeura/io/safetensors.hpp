// SPDX-License-Identifier: MIT
// Reading and writing .safetensors checkpoints: a JSON header, then the bytes of the tensors.
#pragma once
#include <meganeura/io/file.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::io {

/// One tensor of a file, or one to be written: row-major, little-endian. The bytes belong to someone else.
struct safetensors_entry {
  std::string name;
  std::string dtype;  // as the format spells it: F32, F16, BF16, F64, I8 .. I64, U8 .. U64, BOOL, F8_E4M3, F8_E5M2
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

using safetensors_metadata = std::vector<std::pair<std::string, std::string>>;

/// Bytes of one element of that dtype; 0 for a name the format does not have.
[[nodiscard]] std::size_t safetensors_element_size(std::string_view dtype);

/// An open checkpoint. Everything is checked on opening: the header's length and JSON, each dtype, shape and byte
/// range, and that the ranges cover the data exactly, without overlap, gap or a truncated end.
class safetensors_file {
 public:
  /// errors: `io` when it cannot be read; `invalid_file` with file, byte, expected and found when it is not valid.
  [[nodiscard]] static safetensors_file open(const std::string& path);

  /// In the order of the file's header. The spans are valid while this object, or the one it was moved to, lives.
  [[nodiscard]] std::span<const safetensors_entry> tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  [[nodiscard]] const safetensors_entry* find(std::string_view name) const;
  [[nodiscard]] const safetensors_metadata& metadata() const { return metadata_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  safetensors_file(const std::string& path, mapped_file file) : path_(path), file_(std::move(file)) {}

  std::string path_;
  mapped_file file_;
  std::vector<safetensors_entry> tensors_;
  safetensors_metadata metadata_;
};

/// Writes a checkpoint: to a temporary file first, then renamed, so that nothing half-written is ever left at `path`.
/// errors: `invalid_argument` for an unknown dtype, bytes that are not what dtype and shape need, or a name used twice;
/// `io` when the disk refuses.
void write_safetensors(const std::string& path, std::span<const safetensors_entry> entries,
                       const safetensors_metadata& metadata = {});

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/safetensors.ipp>
#endif
