// SPDX-License-Identifier: MIT
// NumPy's arrays: .npy files of the format's versions 1 to 3, and .npz archives of them (numpy.lib.format).
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/data/byte_source.hpp>
#include <meganeura/io/file.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

enum class npy_type : std::uint8_t { f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

[[nodiscard]] const char* to_string(npy_type type);

struct npy_array {
  npy_type type = npy_type::f32;
  std::vector<std::size_t> shape;   // empty: one number
  std::vector<std::uint8_t> bytes;  // row-major, in this machine's byte order

  [[nodiscard]] std::size_t size() const;  // elements

  /// As f32, to the nearest, which is infinity for what is beyond f32; true is 1. errors: out_of_memory.
  [[nodiscard]] std::vector<float> floats() const;
  /// As i32, labels and tokens. errors: invalid_argument for an array of floats and, with its place, for a number that
  /// i32 does not hold; out_of_memory.
  [[nodiscard]] std::vector<std::int32_t> integers() const;
};

/// Parses the `size` bytes of an .npy file; big-endian ones are turned. `name` is for messages.
/// errors: `invalid_file` for what is no such file, another version or dtype, Fortran order (Python:
/// numpy.ascontiguousarray), and other bytes than the shape needs; `out_of_memory`.
[[nodiscard]] npy_array parse_npy(const byte_source& bytes, std::uint64_t size, const std::string& name);

/// errors: as parse_npy, and `io`.
[[nodiscard]] npy_array read_npy(const std::string& path);

/// An archive of arrays with names, as numpy.savez and numpy.savez_compressed write it. Opening reads the names alone.
class npz_file {
 public:
  /// errors: `io`; `invalid_file` for what is no zip file, one in zip64 or in parts, and a name that is there twice.
  [[nodiscard]] static npz_file open(const std::string& path);

  /// In the order of their text, without ".npy".
  [[nodiscard]] std::vector<std::string> names() const;

  /// Length and CRC-32 are checked. errors: as parse_npy; `io`; `invalid_argument` for a name that is not there;
  /// `invalid_file` for encrypted arrays and other compressions than deflate.
  [[nodiscard]] npy_array read(std::string_view name) const;

 private:
  struct entry {
    std::uint16_t flags, method;
    std::uint32_t crc, packed, unpacked, header;
  };
  explicit npz_file(io::file_reader file) : file_(std::move(file)) {}
  void read_directory();
  [[nodiscard]] std::uint64_t data_of(const entry& of) const;

  io::file_reader file_;
  std::uint64_t directory_ = 0;  // where the arrays end
  std::map<std::string, entry, std::less<>> entries_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/npy.ipp>
#endif
