// SPDX-License-Identifier: MIT
// Bodies of io/file.hpp, on POSIX calls: they report why, which streams do not.
#pragma once
#include <meganeura/io/file.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::io {
namespace detail {

[[noreturn]] inline void refuse(const std::string& path, const char* what) {
  const int number = errno;
  fail(error_category::io, "{}: cannot {}: {}", path, what, std::generic_category().message(number));
}

/// Closes a file descriptor on every way out.
struct descriptor {
  int number;
  explicit descriptor(int opened) : number(opened) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number >= 0) ::close(number);
  }
};

inline std::size_t size_of(const descriptor& file, const std::string& path) {
  struct stat facts {};
  if (::fstat(file.number, &facts) != 0) refuse(path, "be examined");
  if (S_ISDIR(facts.st_mode)) fail(error_category::io, "{}: cannot be read: it is a folder, not a file", path);
  return static_cast<std::size_t>(facts.st_size);
}

inline void write_all(const descriptor& file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file.number, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) refuse(path, "be written");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

}  // namespace detail

MEGANEURA_INLINE std::vector<std::uint8_t> read_file(const std::string& path) {
  const detail::descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number < 0) detail::refuse(path, "be opened for reading");
  std::vector<std::uint8_t> bytes(detail::size_of(file, path));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(file.number, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) detail::refuse(path, "be read");
    if (got == 0) break;  // it shrank meanwhile; the parser will say what is missing
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

MEGANEURA_INLINE void write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  const std::string temporary = fmt::format("{}.{}.part", path, ::getpid());
  try {
    const detail::descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.number < 0) detail::refuse(temporary, "be created");
    for (const auto piece : pieces) detail::write_all(file, piece, temporary);
    if (::fsync(file.number) != 0) detail::refuse(temporary, "be flushed to the disk");
    if (std::rename(temporary.c_str(), path.c_str()) != 0) detail::refuse(path, "be replaced");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

MEGANEURA_INLINE void check_writable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    fail(error_category::io, "{}: is a folder; name a file to write", path);
  }
  const std::string temporary = fmt::format("{}.{}.part", path, ::getpid());
  const detail::descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.number < 0) detail::refuse(temporary, "be created");
  ::unlink(temporary.c_str());
}

MEGANEURA_INLINE mapped_file::mapped_file(const std::string& path) {
  const detail::descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number < 0) detail::refuse(path, "be opened for reading");
  size_ = detail::size_of(file, path);
  if (size_ == 0) return;  // an empty mapping is an error to the kernel, an empty file is not one to us
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) detail::refuse(path, "be mapped into memory");
  data_ = static_cast<const std::byte*>(address);
}

MEGANEURA_INLINE mapped_file::mapped_file(mapped_file&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MEGANEURA_INLINE mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MEGANEURA_INLINE mapped_file::~mapped_file() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
