// SPDX-License-Identifier: MIT
// Published files brought into a folder: by whatever brings bytes, checked as they come, by several programs at once.
#pragma once
#include <meganeura/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::data {

/// Takes the next bytes of a file; what it throws ends the download.
using byte_sink = std::function<void(std::span<const std::byte>)>;

/// Hands all bytes behind a URL to the sink, in order, or throws. `data::download` (data/download.hpp) is one, on
/// libcurl.
using downloader = std::function<void(const std::string& url, const byte_sink& sink)>;

/// A file as it was published.
struct published_file {
  std::string name, sha256;
  std::uint64_t bytes = 0;
};

/// Brings `file` from `mirror` + its name into the folder. Size and checksum are kept an eye on while it comes, and it
/// has its name only when they are right: no reader sees half of it.
/// errors: `invalid_file` for other or more bytes than were published; `io`; what `from` throws.
void fetch_file(const downloader& from, const std::string& mirror, const std::string& folder,
                const published_file& file);

/// Locks a folder while it lives, waiting for others: many readers, or one that fills it. It ends with the process,
/// however that ends. A folder that is not there, or on a file system without locks, is not locked.
class folder_lock {
 public:
  enum class use : std::uint8_t { read, fill };
  folder_lock(const std::string& folder, use wanted);
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;
  ~folder_lock();

 private:
  int folder_ = -1;
};

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/fetch.ipp>
#endif
