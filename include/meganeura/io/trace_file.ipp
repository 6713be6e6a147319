// SPDX-License-Identifier: MIT
// Definitions for io/trace_file.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/io/trace_file.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::io {

MEGANEURA_INLINE std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

namespace detail {

inline constexpr std::string_view trace_begin = "[\n{\"ph\":";

// Opened for writing by this process alone; -1 where another one has it. What is replaced is a trace or empty.
inline int open_alone(const std::string& path) {
  // Not waiting for the reader of a FIFO, which is refused below.
  const int file = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  const auto refuse = [&](std::string_view why) {
    if (file >= 0) ::close(file);
    fail(error_category::io, "{}", why);
  };
  struct stat facts {};
  if (file < 0 || ::fstat(file, &facts) != 0) refuse(std::generic_category().message(errno));
  if (!S_ISREG(facts.st_mode)) refuse("it is no ordinary file");
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file);
    return -1;
  }  // some file systems have no locks
  char begin[trace_begin.size()]{};
  const auto length = static_cast<std::size_t>(std::max<ssize_t>(::pread(file, begin, sizeof begin, 0), 0));
  if (std::string_view(begin, length) != trace_begin.substr(0, length))
    refuse("it is a file of something else, which would be lost");
  if (::ftruncate(file, 0) != 0) refuse(std::generic_category().message(errno));
  return file;
}

inline std::string with_process_number(const std::string& path) {
  std::filesystem::path named(path);
  const std::string extension = named.extension().string();
  return named.replace_extension(fmt::format(".{}{}", ::getpid(), extension)).string();
}

inline std::string process_name() {
#if defined(__GLIBC__)
  return program_invocation_short_name;
#elif defined(__APPLE__)
  return ::getprogname();
#else
  return "meganeura";
#endif
}

// Microseconds, to the nanosecond.
inline std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

struct open_traces {
  std::mutex mutex{};
  std::map<std::string, std::shared_ptr<trace_file>> by_path{};

  open_traces() = default;
  open_traces(const open_traces&) = delete;
  open_traces& operator=(const open_traces&) = delete;
  ~open_traces() {  // devices that nobody closes still have theirs
    for (const auto& [path, trace] : by_path) {
      if (trace) trace->close();
    }
  }
};

}  // namespace detail

MEGANEURA_INLINE std::shared_ptr<trace_file> trace_file::open(const std::string& path, std::uint64_t most_events,
                                                              const log_sink& log) noexcept {
  static detail::open_traces all;
  const char* advice = "set MEGANEURA_TRACE or device_options::trace to a file that can be written";
  try {
    const std::lock_guard lock(all.mutex);
    std::error_code unknown;  // with no such folder it will be said below
    const std::filesystem::path whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path), unknown);
    std::shared_ptr<trace_file>& known = all.by_path[unknown ? path : whole.string()];
    if (known) return known;
    try {
      std::string name = path;
      int file = detail::open_alone(name);
      if (file < 0) file = detail::open_alone(name = detail::with_process_number(path));
      if (file < 0) fail(error_category::io, "other processes are writing it");
      known.reset(new trace_file(std::move(name), file, most_events));
      known->flush(log);
    } catch (const error& problem) {
      const std::string said =
          fmt::format("there is no trace: {} cannot be written: {}; {}", shown_path(path), problem.what(), advice);
      write_log(log, log_level::warning, "{}", said);
      // Who sets the variable for a program that logs nothing has to learn it as well.
      if (!log) fmt::print(stderr, "meganeura: {}\n", said);
    }
    return known;
  } catch (...) {  // memory
    return nullptr;
  }
}

MEGANEURA_INLINE trace_file::trace_file(std::string path, int file, std::uint64_t most_events)
    : path_(std::move(path)), file_(file), process_(::getpid()), most_events_(most_events) {
  pending_ = fmt::format(R"({}"M","pid":{},"tid":0,"name":"process_name","args":{{"name":{}}}}})", detail::trace_begin,
                         process_, json_text(detail::process_name()));
}

MEGANEURA_INLINE trace_file::~trace_file() { end(); }

template <class Work>
void trace_file::locked(const Work& work) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    // A child of this process has the file as well, and is not to write.
    if (is_open_ && process_ == ::getpid()) work();
  } catch (...) {
    pending_.clear();
  }
}

MEGANEURA_INLINE void trace_file::end() noexcept {
  is_open_ = false;
  if (file_ < 0) return;
  constexpr std::string_view last = "\n]\n";
  if (process_ == ::getpid()) (void)!::write(file_, last.data(), last.size());  // read without it as well
  ::close(std::exchange(file_, -1));
}

MEGANEURA_INLINE void trace_file::close() noexcept {
  const std::lock_guard lock(mutex_);
  end();
}

MEGANEURA_INLINE void trace_file::append(std::string_view event) {
  pending_ += ",\n";
  pending_ += event;
  ++events_;
}

MEGANEURA_INLINE void trace_file::append(const trace_slice& slice) {
  append(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"cat":"{}","name":{},"args":{{{}}}}})", process_,
                     slice.track, detail::microseconds(slice.begin),
                     detail::microseconds(std::max<std::int64_t>(slice.end - slice.begin, 0)), slice.category,
                     json_text(slice.name), slice.arguments));
}

MEGANEURA_INLINE void trace_file::append(const trace_arrow& arrow) {
  const auto end_of = [&](char phase, std::uint32_t track, std::int64_t at, const char* binding) {
    append(fmt::format(R"({{"ph":"{}","id":{},"pid":{},"tid":{},"ts":{},"cat":"step","name":"step"{}}})", phase,
                       arrow.id, process_, track, detail::microseconds(at), binding));
  };
  end_of('s', arrow.from_track, arrow.from, "");
  end_of('f', arrow.to_track, arrow.to, R"(,"bp":"e")");
}

MEGANEURA_INLINE void trace_file::flush(const log_sink& log) {
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const ssize_t done = ::write(file_, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      const int code = done < 0 ? errno : ENOSPC;
      (void)!::ftruncate(file_, written_);  // no part of an event
      end();
      pending_.clear();
      return write_log(log, log_level::warning, "the trace {} ends here: it cannot be written: {}", shown_path(path_),
                       std::generic_category().message(code));
    }
    rest.remove_prefix(static_cast<std::size_t>(done));
  }
  written_ += static_cast<std::int64_t>(pending_.size());
  pending_.clear();
}

MEGANEURA_INLINE std::uint32_t trace_file::add_track_locked(std::string_view name, const log_sink& log) {
  const std::uint32_t track = ++tracks_;
  append(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", process_, track,
                     json_text(name)));
  append(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})",
                     process_, track, track));
  flush(log);
  return track;
}

MEGANEURA_INLINE std::uint32_t trace_file::add_track(std::string_view name, const log_sink& log) noexcept {
  std::uint32_t track = 0;
  locked([&] { track = add_track_locked(name, log); });
  return track;
}

MEGANEURA_INLINE std::uint32_t trace_file::thread_track(const log_sink& log) noexcept {
  std::uint32_t track = 0;
  locked([&] {
    std::uint32_t& known = threads_[std::this_thread::get_id()];
    if (known == 0) known = add_track_locked(fmt::format("host thread {}", threads_.size()), log);
    track = known;
  });
  return track;
}

MEGANEURA_INLINE void trace_file::write(std::span<const trace_slice> slices, std::span<const trace_arrow> arrows,
                                        const log_sink& log) noexcept {
  locked([&] {
    bool is_full = false;
    const auto has_room = [&](std::uint64_t more) {
      is_full = is_full || events_ + more > most_events_;
      return !is_full;
    };
    for (const trace_slice& each : slices) {
      if (has_room(1)) append(each);
    }
    for (const trace_arrow& each : arrows) {
      if (has_room(2)) append(each);
    }
    if (is_full) {
      append(fmt::format(R"({{"ph":"i","s":"g","pid":{},"tid":0,"ts":{},"cat":"trace","name":"the trace was cut after )"
                         R"({} events: see device_options::trace_events"}})",
                         process_, detail::microseconds(monotonic_now()), events_));
    }
    flush(log);
    if (is_full) end();
  });
}

}  // namespace meganeura::inline MEGANEURA_ABI::io
