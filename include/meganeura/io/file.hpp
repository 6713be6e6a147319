// SPDX-License-Identifier: MIT
// Files: read whole, mapped read-only, written so that a reader never sees half of one; and the sentence for a bad one.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::io {

/// Throws the one sentence for a file that is not what it should be: "FILE: at byte OFFSET: expected X, found Y".
[[noreturn]] inline void bad_file(const std::string& name, std::uint64_t offset, std::string_view expected,
                                  std::string_view found) {
  fail(error_category::invalid_file, "{}: at byte {}: expected {}, found {}", name, offset, expected, found);
}

/// The whole file.
/// errors: `io` when it cannot be opened or read.
[[nodiscard]] std::vector<std::uint8_t> read_file(const std::string& path);

/// A file while it is being written. The bytes go into a temporary file of a random name in the same folder; `commit`
/// flushes it to the disk and renames it, so that a reader, a crash or a second writer at the same moment finds what
/// `path` held before or all of the new content, never a mixture. Destroyed before `commit`, it leaves nothing behind.
/// A file that is replaced keeps its permissions, and its owner and group where the system allows that. A link at
/// `path` is followed and stays; in a folder that everyone may write into, somebody else's link is refused. What is no
/// ordinary file (a device, a FIFO, /dev/stdout) is written through, byte by byte as they come. What runs killed in
/// earlier writes left in the folder is removed: temporary files of this user that no living process holds locked.
class file_writer {
 public:
  /// errors: `io` when it cannot be created, or `path` is a folder.
  explicit file_writer(const std::string& path);
  file_writer(const file_writer&) = delete;
  file_writer& operator=(const file_writer&) = delete;
  ~file_writer();

  /// errors: `io`, with the system's reason.
  void write(std::span<const std::byte> bytes);
  /// Once, at the end. errors: `io`, with the system's reason.
  void commit();

 private:
  void create_temporary();
  void keep_owner_and_mode();

  std::string path_;       // as asked for, for messages
  std::string name_;       // in the folder, links followed; empty: written through
  std::string temporary_;  // in the folder; empty: there is none
  int folder_ = -1, file_ = -1;
};

/// Writes the pieces one after another by a `file_writer`.
/// errors: `io`; `path` then holds what it held before.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);

/// Whether `write_file` could begin to write there, tried out: nothing is left behind. For long work that ends in a
/// file. errors: `io`.
void check_writable(const std::string& path);

/// A file mapped for reading. Pages arrive when touched, so opening a large checkpoint costs nothing.
class mapped_file {
 public:
  /// errors: `io` when it cannot be opened or mapped.
  explicit mapped_file(const std::string& path);
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file();

  /// Valid while this object, or the one it was moved to, lives.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/file.ipp>
#endif
