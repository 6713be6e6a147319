// SPDX-License-Identifier: MIT
// A trace of what a process does when, in the JSON trace-event format that ui.perfetto.dev opens.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/log.hpp>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>

namespace meganeura::inline MEGANEURA_ABI::io {

/// Nanoseconds of CLOCK_MONOTONIC, the clock of traces: those of several processes fit together.
[[nodiscard]] inline std::int64_t monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

/// `text` as JSON writes it, in quotes; what is no UTF-8 is replaced.
[[nodiscard]] std::string json_text(std::string_view text);

/// A slice of a track; times in nanoseconds of CLOCK_MONOTONIC.
struct trace_slice {
  std::uint32_t track = 0;
  std::string_view name, category;
  std::int64_t begin = 0, end = 0;
  std::string_view arguments{};  // members of a JSON object, R"("bytes":12,"module":"fc1")"
};

/// An arrow from a moment within one slice to one within another.
struct trace_arrow {
  std::uint64_t id = 0;
  std::uint32_t from_track = 0, to_track = 0;
  std::int64_t from = 0, to = 0;
};

inline constexpr std::uint64_t most_trace_events = 1'000'000;

/// One file of one process, written as things happen: what a killed process leaves is read as well. All members may be
/// called from several threads, and none throws: where writing fails, the log of who wrote has a warning, and the trace
/// ends there. After so many events there is a last one that says so.
class trace_file {
 public:
  /// The process's trace of that path, begun by the first call and ended when the process is. A file that was there is
  /// replaced. Where another process is writing it, the name gets this one's number, "trace.4711.json". Null where it
  /// cannot be written, of which the log has a warning.
  [[nodiscard]] static std::shared_ptr<trace_file> open(const std::string& path, std::uint64_t most_events,
                                                        const log_sink& log) noexcept;
  ~trace_file();
  trace_file(const trace_file&) = delete;
  trace_file& operator=(const trace_file&) = delete;

  /// False once it is full or could not be written.
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// A number for what is told apart by one: programs, arrows.
  [[nodiscard]] std::uint64_t next_number() { return ++numbers_; }

  /// A track of its own, for a device.
  [[nodiscard]] std::uint32_t add_track(std::string_view name, const log_sink& log) noexcept;
  /// The calling thread's.
  [[nodiscard]] std::uint32_t thread_track(const log_sink& log) noexcept;
  /// Side by side in the file, whoever writes at the same time.
  void write(std::span<const trace_slice> slices, std::span<const trace_arrow> arrows, const log_sink& log) noexcept;
  /// Ends it; nothing is written after that.
  void close() noexcept;

 private:
  trace_file(std::string path, int file, std::uint64_t most_events);
  // Does what appends and flushes; where memory is short, what was not written yet is left out.
  template <class Work>
  void locked(const Work& work) noexcept;
  // The following expect `mutex_` to be held.
  [[nodiscard]] std::uint32_t add_track_locked(std::string_view name, const log_sink& log);
  void append(std::string_view event);
  void append(const trace_slice& slice);
  void append(const trace_arrow& arrow);
  void flush(const log_sink& log);
  void end() noexcept;

  std::mutex mutex_;
  std::string path_;
  int file_;
  long process_;
  std::uint64_t most_events_, events_ = 0;
  std::string pending_;       // not yet in the file
  std::int64_t written_ = 0;  // bytes, whole events
  std::uint32_t tracks_ = 0;
  std::map<std::thread::id, std::uint32_t> threads_;
  std::atomic<std::uint64_t> numbers_{0};
  std::atomic<bool> is_open_{true};
};

}  // namespace meganeura::inline MEGANEURA_ABI::io

#if MEGANEURA_HEADER_ONLY
#include <meganeura/io/trace_file.ipp>
#endif
