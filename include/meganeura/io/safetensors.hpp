// SPDX-License-Identifier: MIT
// Reading and writing .safetensors checkpoints: a JSON header, then the bytes of the tensors.
#pragma once
#include <meganeura/core/dtype.hpp>
#include <meganeura/io/file.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::io {

/// One tensor to be written: row-major, little-endian. The bytes belong to someone else.
struct safetensors_entry {
  std::string name;
  std::string dtype;  // as the format spells it: F32, F16, BF16, F64, I8 .. I64, U8 .. U64, BOOL, F8_E4M3, ..
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// One tensor of an open file; its bytes stay there until they are read.
struct safetensors_tensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, size = 0;  // in bytes, from the start of the file
  std::string crc32{};                // of its bytes, where the file says it; empty: it does not
};

namespace detail {
/// The tensor of that name, or null; `by_name` are indices of `tensors`, sorted.
[[nodiscard]] const safetensors_tensor* find_tensor(std::span<const safetensors_tensor> tensors,
                                                    std::span<const std::uint32_t> by_name, std::string_view name);
}  // namespace detail

using safetensors_metadata = std::vector<std::pair<std::string, std::string>>;

/// Bits of one element of that dtype, of F4 and F6 fewer than a byte; 0 for a name the format does not have.
[[nodiscard]] std::size_t safetensors_element_bits(std::string_view dtype);
/// How the format spells a dtype.
[[nodiscard]] const char* safetensors_dtype(dtype type);

/// An open checkpoint. Everything is checked on opening: the header's length and JSON, that names are UTF-8 and used
/// once, each dtype, shape and byte range, and that the ranges cover the data exactly, without overlap, gap or a
/// truncated end. A file that this library wrote must still have its checksums (of the header and of every tensor), and
/// the header be as it was written; a file from elsewhere needs none. Only the header is then in memory.
class safetensors_file {
 public:
  /// errors: `io` when it cannot be read; `invalid_file` with file, byte, expected and found when it is not valid;
  /// `out_of_memory`.
  [[nodiscard]] static safetensors_file open(const std::string& path);

  /// In the order of the file's header.
  [[nodiscard]] std::span<const safetensors_tensor> tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  [[nodiscard]] const safetensors_tensor* find(std::string_view name) const;
  /// The bytes of a tensor of this file, read now.
  /// errors: `io`; `invalid_file` when the file has become shorter since it was opened, or the bytes are not those of
  /// the file's checksum; `out_of_memory`.
  [[nodiscard]] std::vector<std::byte> read(const safetensors_tensor& tensor) const;
  /// The same into memory that is used again, tensor after tensor.
  void read(const safetensors_tensor& tensor, std::vector<std::byte>& into) const;
  [[nodiscard]] const safetensors_metadata& metadata() const { return metadata_; }
  [[nodiscard]] const std::string& path() const { return file_.path(); }

 private:
  explicit safetensors_file(file_reader file) : file_(std::move(file)) {}
  void take_checksums(bool header_is_checked);

  file_reader file_;
  std::vector<safetensors_tensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices of tensors_, sorted
  safetensors_metadata metadata_;
};

/// Writes a checkpoint by a `file_writer`, so that nothing half-written is ever left at `path`. Each tensor's CRC-32
/// goes into the metadata, as "crc32.<name>", and that of the whole header, as "meganeura.crc32" (its own digits taken
/// as zeros), where other readers skip them; `safetensors_file::metadata` leaves them out.
/// errors: `invalid_argument` for an unknown dtype, bytes that are not what dtype and shape need, a name that is no
/// UTF-8 or used twice; `io` when the disk refuses.
void write_safetensors(const std::string& path, std::span<const safetensors_entry> entries,
                       const safetensors_metadata& metadata = {});
/// The same with the bytes of each entry, by its place, when it is their turn: no more than one is in memory at a time,
/// unless `path` is no ordinary file. What `bytes_of` throws leaves what there was at `path`.
void write_safetensors(const std::string& path, std::span<const safetensors_entry> entries,
                       const safetensors_metadata& metadata,
                       const std::function<std::vector<std::byte>(std::size_t)>& bytes_of);

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/safetensors.ipp>
#endif
