// SPDX-License-Identifier: MIT
// Files: read, written so that a reader never sees half of one; and the sentence for a bad one.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::io {

/// Throws the one sentence for a file that is not what it should be: "FILE: at byte OFFSET: expected X, found Y".
[[noreturn]] void bad_file(const std::string& name, std::uint64_t offset, std::string_view expected,
                           std::string_view found);

/// Refuses what the system would silently cut. errors: invalid_argument for a zero byte in the path.
void check_path(std::string_view path);

/// An ordinary file opened for reading. Bytes are read when they are asked for and never mapped: where another process
/// shortens a mapped file, reading it kills the program (SIGBUS); here it is an error. A file that is replaced
/// meanwhile goes on being read as it was.
class file_reader {
 public:
  /// errors: `io` when it cannot be opened; folders, devices and FIFOs are refused, not waited for.
  explicit file_reader(const std::string& path);
  file_reader(file_reader&& other) noexcept;
  file_reader& operator=(file_reader&& other) noexcept;
  file_reader(const file_reader&) = delete;
  file_reader& operator=(const file_reader&) = delete;
  ~file_reader();

  /// Fills `into` from `offset` on; returns how many bytes there were, fewer only at the end of the file.
  /// errors: `io`, with the system's reason.
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> into) const;
  /// The same, all of them. errors: `io`; `invalid_file` when the file ends before, which is shorter than it was.
  void read(std::uint64_t offset, std::span<std::byte> into) const;

  [[nodiscard]] std::uint64_t size() const { return size_; }  // in bytes, when it was opened
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

/// The whole file, of at most `most` bytes.
/// errors: `io` when it cannot be opened or read, or is larger; `out_of_memory`.
[[nodiscard]] std::vector<std::uint8_t> read_file(const std::string& path, std::uint64_t most = std::uint64_t{1} << 30);

/// A file while it is being written. The bytes go into a temporary file of a random name in the same folder; `commit`
/// flushes it to the disk and renames it, so that a reader, a crash or a second writer at the same moment finds what
/// `path` held before or all of the new content, never a mixture. Destroyed before `commit`, it leaves nothing behind.
/// A file that is replaced keeps its permissions, and its owner and group where the system allows that. A link at
/// `path` is followed and stays; in a folder that everyone may write into, somebody else's link is refused. What is no
/// ordinary file (a device, a FIFO, /dev/stdout) is written through, byte by byte as they come; a FIFO whose reader
/// goes away raises SIGPIPE, and a file that outgrows the process's limit (`ulimit -f`) SIGXFSZ, as in any program:
/// they end it, unless it ignores them, when the write is an `io` error. What runs killed in earlier writes left in the
/// folder is removed: temporary files of this user that no living process holds locked.
class file_writer {
 public:
  /// errors: `io` when it cannot be created, or `path` is a folder.
  explicit file_writer(const std::string& path);
  file_writer(const file_writer&) = delete;
  file_writer& operator=(const file_writer&) = delete;
  ~file_writer();

  /// errors: `io`, with the system's reason.
  void write(std::span<const std::byte> bytes);
  /// Whether bytes may still be replaced: not where they are written through.
  [[nodiscard]] bool keeps_bytes() const { return !name_.empty(); }
  /// Other bytes for some that were written, from `offset` of the file on; nothing is written after that. errors: as
  /// write.
  void replace(std::uint64_t offset, std::span<const std::byte> bytes);
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
/// errors: `io`; `path` then holds what it held before, or all of the new content when only the folder could not be
/// flushed to the disk.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);

/// Whether `write_file` could begin to write there, tried out: nothing is left behind. For long work that ends in a
/// file. errors: `io`.
void check_writable(const std::string& path);

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/file.ipp>
#endif
