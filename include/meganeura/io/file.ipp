// SPDX-License-Identifier: MIT
// Bodies of io/file.hpp, on POSIX calls: they report why, which streams do not.
#pragma once
#include <meganeura/core/quote.hpp>
#include <meganeura/io/file.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <random>
#include <system_error>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::io {

[[noreturn]] MEGANEURA_INLINE void bad_file(const std::string& name, std::uint64_t offset, std::string_view expected,
                                            std::string_view found) {
  fail(error_category::invalid_file, "{}: at byte {}: expected {}, found {}", shown_path(name), offset, expected,
       found);
}

namespace detail {

[[noreturn]] inline void refuse(const std::string& path, const char* what) {
  const int number = errno;
  fail(error_category::io, "{}: cannot {}: {}", shown_path(path), what, std::generic_category().message(number));
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

inline const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

inline void write_all(int file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EAGAIN) {  // a descriptor of this process that somebody made non-blocking
      pollfd room{file, POLLOUT, 0};
      ::poll(&room, 1, -1);
      continue;
    }
    if (done == 0) errno = ENOSPC;  // a device that is full and says so this way would be asked for ever
    if (done <= 0) refuse(path, "be written");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

/// The number of one of this process's own descriptors by its name (/dev/stdout is a link to such a name), or -1.
inline int own_descriptor(std::string_view path) {
  for (const std::string_view prefix : {"/proc/self/fd/", "/dev/fd/"}) {
    if (!path.starts_with(prefix)) continue;
    const std::string_view digits = path.substr(prefix.size());
    int number = -1;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (problem == std::errc() && end == digits.data() + digits.size() && number >= 0) return number;
  }
  return -1;
}

inline std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

inline std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// What the kernel refuses by fs.protected_symlinks where that is set: in a folder that everyone may write into, a link
/// of somebody else is a trap.
inline bool is_foreign_link(const struct stat& link, const std::string& path) {
  struct stat folder {};
  if (::stat(folder_of(path).c_str(), &folder) != 0) return false;
  const bool shared = (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWOTH) != 0;
  return shared && link.st_uid != ::geteuid() && link.st_uid != folder.st_uid;
}

/// Where a file asked for at `path` is to be written: links followed as far as they lead, the last one to nothing too.
inline std::string follow_links(const std::string& path) {
  check_path(path);
  std::string at = path;
  for (int links = 0; links < 40; ++links) {
    struct stat facts {};
    if (own_descriptor(at) >= 0 || ::lstat(at.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) return at;
    if (is_foreign_link(facts, at)) {
      fail(error_category::io, "{}: is not written: it is a link of another user in a folder open to all; remove it",
           shown_path(path));
    }
    char target[4096];
    const ssize_t length = ::readlink(at.c_str(), target, sizeof target);
    if (length < 0) refuse(path, "be followed as a link");
    const std::string next(target, static_cast<std::size_t>(length));
    at = next.starts_with('/') ? next : folder_of(at) + "/" + next;
  }
  fail(error_category::io, "{}: is not written: it leads through more than 40 links", shown_path(path));
}

inline constexpr std::string_view temporary_prefix = ".meganeura-", temporary_suffix = ".part";

/// Independent of the file's own name, so that a name of the greatest length can be written too.
inline std::string random_temporary_name() {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{}", temporary_prefix, random(), random(), temporary_suffix);
}

/// Whether `random_temporary_name` could have made it: other names are somebody else's.
inline bool is_temporary_name(std::string_view name) {
  constexpr std::size_t digits = 16, length = temporary_prefix.size() + digits + temporary_suffix.size();
  return name.size() == length && name.starts_with(temporary_prefix) && name.ends_with(temporary_suffix) &&
         name.find_first_not_of("0123456789abcdef", temporary_prefix.size()) == length - temporary_suffix.size();
}

/// Removes a temporary file when its writer is dead: each holds its lock until it is renamed or removed.
inline void remove_if_abandoned(int folder, const char* name) {
  const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, writable = ::openat(folder, name, O_RDWR | flags);
  const descriptor file(writable < 0 ? ::openat(folder, name, O_RDONLY | flags)
                                     : writable);  // NFS locks need the first
  struct stat facts {};
  if (file.number < 0 || ::fstat(file.number, &facts) != 0) return;
  if (!S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid() || facts.st_nlink != 1) return;
  if (::flock(file.number, LOCK_EX | LOCK_NB) == 0) ::unlinkat(folder, name, 0);
}

inline void remove_abandoned(int folder) {
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // fdopendir takes it over
  DIR* entries = again < 0 ? nullptr : ::fdopendir(again);
  if (entries == nullptr) {
    if (again >= 0) ::close(again);
    return;
  }
  while (const dirent* entry = ::readdir(entries)) {
    if (is_temporary_name(entry->d_name)) remove_if_abandoned(folder, entry->d_name);
  }
  ::closedir(entries);
}

/// Whether `target` is written through instead of replaced: a device, a FIFO, a descriptor of this process.
inline bool is_special(const std::string& target, const std::string& path) {
  struct stat facts {};
  if (own_descriptor(target) >= 0) return true;
  if (::lstat(target.c_str(), &facts) != 0) return false;
  if (S_ISDIR(facts.st_mode)) fail(error_category::io, "{}: is a folder; name a file to write", shown_path(path));
  return !S_ISREG(facts.st_mode);
}

/// Opens what is no ordinary file for writing. A FIFO that nobody reads is refused rather than waited for.
inline int open_through(const std::string& target, const std::string& path) {
  if (const int own = own_descriptor(target); own >= 0) {
    const int copy = ::fcntl(own, F_DUPFD_CLOEXEC, 0);  // not opened anew: that would begin at its start again
    if (copy < 0) refuse(path, "be opened for writing");
    return copy;
  }
  const int file = ::open(target.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0 && errno == ENXIO)
    fail(error_category::io, "{}: cannot be opened for writing: nobody reads it", shown_path(path));
  if (file < 0) refuse(path, "be opened for writing");
  ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

}  // namespace detail

MEGANEURA_INLINE void check_path(std::string_view path) {
  const auto zero = path.find('\0');
  if (zero == path.npos) return;
  fail(error_category::invalid_argument,
       "the path {} has a zero byte at {}, where the system would end it; leave it out", quote(path), zero);
}

MEGANEURA_INLINE file_reader::file_reader(const std::string& path) : path_(path) {
  check_path(path);
  if (path.empty()) fail(error_category::io, "\"\": names no file to read");
  detail::descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.number < 0) detail::refuse(path, "be opened for reading");
  struct stat facts {};
  if (::fstat(file.number, &facts) != 0) detail::refuse(path, "be examined");
  if (!S_ISREG(facts.st_mode)) {
    fail(error_category::io, "{}: cannot be read: it is {}, not a file", shown_path(path),
         detail::kind_of(facts.st_mode));
  }
  size_ = static_cast<std::uint64_t>(facts.st_size);
  file_ = std::exchange(file.number, -1);
}

MEGANEURA_INLINE file_reader::file_reader(file_reader&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), size_(std::exchange(other.size_, 0)) {}

MEGANEURA_INLINE file_reader& file_reader::operator=(file_reader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(size_, other.size_);
  return *this;
}

MEGANEURA_INLINE file_reader::~file_reader() {
  if (file_ >= 0) ::close(file_);
}

MEGANEURA_INLINE std::size_t file_reader::read_some(std::uint64_t offset, std::span<std::byte> into) const {
  std::size_t filled = 0;
  while (filled < into.size()) {
    const auto at = static_cast<off_t>(offset + filled);
    const ssize_t got = ::pread(file_, into.data() + filled, into.size() - filled, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) detail::refuse(path_, "be read");
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

MEGANEURA_INLINE void file_reader::read(std::uint64_t offset, std::span<std::byte> into) const {
  const std::size_t got = read_some(offset, into);
  if (got == into.size()) return;
  bad_file(path_, offset + got, fmt::format("{} more bytes", into.size() - got),
           "the end of the file, which another program shortened while it was read");
}

MEGANEURA_INLINE std::vector<std::uint8_t> read_file(const std::string& path, std::uint64_t most) {
  const file_reader file(path);
  if (file.size() > most) {
    fail(error_category::io, "{}: is not read: its {} bytes are more than the {} that such a file may have",
         shown_path(path), file.size(), most);
  }
  auto bytes = allocate_for<std::uint8_t>(path, file.size());
  bytes.resize(file.read_some(0, std::as_writable_bytes(std::span(bytes))));  // the parser says what is missing
  return bytes;
}

MEGANEURA_INLINE file_writer::file_writer(const std::string& path) : path_(path) {
  const std::string target = detail::follow_links(path);
  if (detail::is_special(target, path)) {
    file_ = detail::open_through(target, path);
    return;
  }
  name_ = detail::name_of(target);
  if (name_.empty()) fail(error_category::io, "{}: names no file to write", shown_path(path));
  const std::string folder = detail::folder_of(target);
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0 && errno == EACCES) folder_ = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) detail::refuse(path, "be created");
  try {
    create_temporary();
  } catch (...) {
    ::close(folder_);
    throw;
  }
}

MEGANEURA_INLINE void file_writer::create_temporary() {
  detail::remove_abandoned(folder_);
  struct stat facts {};
  const bool replaces = ::fstatat(folder_, name_.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  const mode_t mode = replaces ? 0600 : 0666;  // nobody else reads it before it has the mode of what it replaces
  for (int attempts = 0; attempts < 100; ++attempts) {
    std::string name = detail::random_temporary_name();
    const int file = ::openat(folder_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) detail::refuse(path_, "be created");
    // Another writer that cleans up may have taken it for abandoned before it was locked; then it is gone, or will be.
    const bool locked = ::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (locked && ::fstat(file, &facts) == 0 && facts.st_nlink > 0) {
      file_ = file;
      temporary_ = std::move(name);  // copied, it could fail and leave the file behind
      return;
    }
    ::close(file);
  }
  fail(error_category::io, "{}: cannot be created: no temporary file beside it lasts", shown_path(path_));
}

MEGANEURA_INLINE file_writer::~file_writer() {
  if (!temporary_.empty()) ::unlinkat(folder_, temporary_.c_str(), 0);
  if (file_ >= 0) ::close(file_);
  if (folder_ >= 0) ::close(folder_);
}

MEGANEURA_INLINE void file_writer::write(std::span<const std::byte> bytes) { detail::write_all(file_, bytes, path_); }

MEGANEURA_INLINE void file_writer::replace(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (::lseek(file_, static_cast<off_t>(offset), SEEK_SET) < 0) detail::refuse(path_, "be written again");
  detail::write_all(file_, bytes, path_);
}

MEGANEURA_INLINE void file_writer::keep_owner_and_mode() {
  struct stat old {
  }, own{};
  if (::fstatat(folder_, name_.c_str(), &old, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(old.st_mode)) return;
  if (::fchown(file_, old.st_uid, old.st_gid) != 0) {  // only the superuser gives files away, but a group may be shared
    (void)!::fchown(file_, static_cast<uid_t>(-1), old.st_gid);
  }
  if (::fstat(file_, &own) != 0) detail::refuse(path_, "be examined");
  mode_t mode = old.st_mode & 0777;
  if (own.st_gid != old.st_gid) mode &= ~(S_IRWXG & ~(mode << 3));  // another group gets what everyone had, no more
  if (mode != (own.st_mode & 0777) && ::fchmod(file_, mode) != 0)
    detail::refuse(path_, "be given the permissions of the file it replaces");
}

MEGANEURA_INLINE void file_writer::commit() {
  if (name_.empty()) return;  // written through
  keep_owner_and_mode();
  if (::fsync(file_) != 0) detail::refuse(path_, "be flushed to the disk");
  if (::renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0) detail::refuse(path_, "be replaced");
  temporary_.clear();
  // Only now does the new name survive a power cut. A folder that may not be read cannot be flushed (EBADF), and some
  // file systems need no flush of folders and say so (EINVAL).
  if (::fsync(folder_) != 0 && errno != EBADF && errno != EINVAL) detail::refuse(path_, "have its folder flushed");
}

MEGANEURA_INLINE void write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  file_writer file(path);
  for (const auto piece : pieces) file.write(piece);
  file.commit();
}

MEGANEURA_INLINE void check_writable(const std::string& path) {
  const std::string target = detail::follow_links(path);
  if (!detail::is_special(target, path)) {
    const file_writer tried(path);
    return;
  }
  const int own = detail::own_descriptor(target);  // not opened: whoever reads a FIFO would see it end
  if (own < 0 ? ::access(target.c_str(), W_OK) != 0 : ::fcntl(own, F_GETFL) < 0) {
    detail::refuse(path, "be opened for writing");
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
