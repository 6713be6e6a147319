// SPDX-License-Identifier: MIT
// What tests of files need: a folder that goes away, writing a file of given bytes, and the sentence a call throws.
#pragma once
#include <meganeura/core/error.hpp>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::support {

class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "meganeura-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
    path_ = pattern;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

template <class Bytes>
void write(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(std::data(bytes)), static_cast<std::streamsize>(std::size(bytes)));
}

/// The message of the meganeura::error that `call` throws, or "no error".
template <class Call>
[[nodiscard]] std::string sentence_of(Call call) {
  try {
    call();
  } catch (const meganeura::error& problem) {
    return problem.what();
  }
  return "no error";
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
