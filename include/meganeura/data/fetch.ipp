// SPDX-License-Identifier: MIT
// Bodies of data/fetch.hpp.
#pragma once
#include <meganeura/data/fetch.hpp>
#include <meganeura/io/file.hpp>
#include <meganeura/io/sha256.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace meganeura::inline MEGANEURA_ABI::data {

MEGANEURA_INLINE void fetch_file(const downloader& from, const std::string& mirror, const std::string& folder,
                                 const published_file& file) {
  const std::string url = mirror + file.name;
  io::file_writer target(folder + "/" + file.name);
  io::sha256_hash hash;
  std::uint64_t received = 0;
  from(url, [&](std::span<const std::byte> bytes) {
    received += bytes.size();
    if (received > file.bytes) {
      fail(error_category::invalid_file, "{}: sends more than the {} bytes that were published", url, file.bytes);
    }
    hash.update(bytes);
    target.write(bytes);
  });
  if (received != file.bytes || hash.finish() != file.sha256) {
    fail(error_category::invalid_file, "{}: its {} bytes are not the {} that were published (checksum {})", url,
         received, file.bytes, file.sha256);
  }
  target.commit();
}

MEGANEURA_INLINE folder_lock::folder_lock(const std::string& folder, use wanted)
    : folder_((io::check_path(folder), ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC))) {
  const int kind = wanted == use::fill ? LOCK_EX : LOCK_SH;
  while (folder_ >= 0 && ::flock(folder_, kind) != 0 && errno == EINTR) {
  }
}

MEGANEURA_INLINE folder_lock::~folder_lock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
