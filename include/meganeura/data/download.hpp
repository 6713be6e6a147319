// SPDX-License-Identifier: MIT
// Downloads by libcurl. Not part of meganeura.hpp: include it where it is wanted and link meganeura::download.
#pragma once
#include <meganeura/data/fetch.hpp>

#if __has_include(<curl/curl.h>)
#include <curl/curl.h>

#include <exception>
#include <memory>
#endif

namespace meganeura::inline MEGANEURA_ABI::data {

#if __has_include(<curl/curl.h>)
namespace detail {

struct curl_transfer {
  const byte_sink& sink;
  std::exception_ptr failure{};  // of the sink: nothing may be thrown through libcurl
};

inline std::size_t curl_receive(char* bytes, std::size_t size, std::size_t count, void* user) {
  curl_transfer& transfer = *static_cast<curl_transfer*>(user);
  try {
    transfer.sink(std::as_bytes(std::span(bytes, size * count)));
    return size * count;
  } catch (...) {
    transfer.failure = std::current_exception();
    return 0;  // not what came: libcurl ends the transfer
  }
}

inline void curl_configure(CURL* curl, const std::string& url) {
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
#if LIBCURL_VERSION_NUM >= 0x075500  // 7.85
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https,file");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS | CURLPROTO_FILE);
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 5L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L);  // bytes a second, ...
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 20L);     // ... for so many seconds: given up
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);            // other threads may be at work
}

}  // namespace detail
#endif

/// A `downloader` on libcurl, of http, https and file URLs; redirects are followed, a transfer that stalls is given up.
/// errors: `io`, with libcurl's reason; `unsupported` where libcurl's headers were missing when this was compiled.
inline void download(const std::string& url, const byte_sink& sink) {
#if __has_include(<curl/curl.h>)
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(started == CURLE_OK ? curl_easy_init() : nullptr,
                                                    curl_easy_cleanup);
  if (curl == nullptr) fail(error_category::io, "{}: cannot be downloaded: libcurl does not start", url);
  detail::curl_transfer transfer{sink};
  char reason[CURL_ERROR_SIZE] = "";
  detail::curl_configure(curl.get(), url);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, detail::curl_receive);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  const CURLcode result = curl_easy_perform(curl.get());
  if (transfer.failure != nullptr) std::rethrow_exception(transfer.failure);
  if (result == CURLE_OK) return;
  fail(error_category::io, "{}: cannot be downloaded: {}", url, *reason != '\0' ? reason : curl_easy_strerror(result));
#else
  static_cast<void>(sink);
  fail(error_category::unsupported,
       "{}: cannot be downloaded: this program was compiled without libcurl (Debian: libcurl4-openssl-dev)", url);
#endif
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
