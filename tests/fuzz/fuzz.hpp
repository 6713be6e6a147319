// SPDX-License-Identifier: MIT
// What every fuzz target shares: a reader answers any bytes with a value or with a short, printable sentence of ours.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

namespace fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: does not hold: %s\n", what);
  std::abort();
}

/// Calls the reader. Another exception than ours ends the run, as does a sentence that is long or steers a terminal.
template <class Call>
bool accepts(Call call) {
  try {
    call();
    return true;
  } catch (const meganeura::error& problem) {
    std::string_view text = problem.what();
    require(text.size() < 4096, "a sentence is shorter than 4 kB");
    while (!text.empty()) {
      const auto [code, bytes] = meganeura::detail::first_character(text);
      require(bytes > 0 && !meganeura::detail::is_unsafe_to_print(code), "a sentence is printable UTF-8");
      text.remove_prefix(bytes);
    }
    return false;
  }
}

/// A file in memory with a path, for readers that open files.
class memory_file {
 public:
  memory_file() : number_(::memfd_create("fuzz", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(number_)) {
    require(number_ >= 0, "memfd_create");
  }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() { ::close(number_); }

  const std::string& holding(std::span<const std::uint8_t> bytes) const {
    const bool done = ::ftruncate(number_, 0) == 0 && ::lseek(number_, 0, SEEK_SET) == 0 &&
                      ::pwrite(number_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
    require(done, "writing the file in memory");
    return path_;
  }

 private:
  int number_;
  std::string path_;
};

}  // namespace fuzz
