// SPDX-License-Identifier: MIT
// One Vulkan device: opening it, memory, copies, pipelines, submissions. The front door of this folder.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/log.hpp>
#include <meganeura/spirv/module.hpp>
#include <meganeura/vulkan/buffer.hpp>
#include <meganeura/vulkan/facts.hpp>
#include <meganeura/vulkan/pipeline.hpp>
#include <meganeura/vulkan/recording.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::io {
class trace_file;
}

namespace meganeura::inline MEGANEURA_ABI::vulkan {

/// Whether it is measured how long things take on a device, by which kernels are chosen, before its first program is
/// made (runtime/measured_rates.hpp).
enum class rate_measurement : std::uint8_t {
  automatic,  // of devices that the library was not fitted to
  never,      // estimated by the number of multiprocessors there
  always      // of any device
};

/// Environment: MEGANEURA_DEVICE stands in for an empty `device`, MEGANEURA_TRACE for an empty `trace`;
/// MEGANEURA_VALIDATION=1 switches `validation` on; MEGANEURA_VULKAN_LIBRARY names the Vulkan loader to open instead of
/// libvulkan.so.1.
struct device_options {
  std::string device{};                              // index, part of the name, "cpu"; empty = the best
  bool validation = false;                           // Khronos validation layer with synchronisation checks
  bool disk_cache = true;                            // keep compiled pipelines and measured rates between runs
  std::string cache_directory{};                     // empty = $XDG_CACHE_HOME/meganeura or ~/.cache/meganeura
  std::uint64_t staging_bytes = 32U << 20;           // host memory that uploads pass through
  std::uint32_t threads = 0;                         // that generate kernels and create pipelines; 0 = one a processor
  std::optional<std::uint32_t> poll_microseconds{};  // a wait asks again and again for so long before it sleeps, from
                                                     // which it would wake late, and about when it should be over by
                                                     // what the last one took; empty = 1000, of a software device 0
  std::optional<device_facts> at_most{};             // simulates a weaker device: nothing beyond these facts is used
  std::string trace{};  // a file for ui.perfetto.dev: what programs on the device build and run, each dispatch alone as
                        // by program_options::profile, which takes longer; see io::trace_file
  std::uint64_t trace_events = 1'000'000;        // of such a file, then it ends; about 250 bytes each
  std::optional<matrix_shape> emulated_units{};  // matrix units where the device has none: slow, to see what products
                                                 // on them compute
  rate_measurement rates = rate_measurement::automatic;  // what decides which kernels are quick
  log_sink log{};                                        // what the device has to say; empty: nobody hears it
};

/// What happened so far; a replayed step raises `submissions` and nothing else.
struct device_counters {
  std::uint64_t allocations = 0;
  std::uint64_t pipelines = 0;
  std::uint64_t recordings = 0;
  std::uint64_t submissions = 0;
  [[nodiscard]] bool operator==(const device_counters&) const = default;
};

/// Every device the loader knows, the unusable ones included. errors: no_device when there is no loader.
[[nodiscard]] std::vector<device_facts> enumerate_devices(const device_options& options = {});

/// Shared ownership: copies are the same device, and what was made from it keeps it open.
/// All members may be called from several threads. Once the device is lost, every call throws device_lost.
class device {
 public:
  /// errors: no_device, unsupported, out_of_memory.
  explicit device(const device_options& options = {});

  [[nodiscard]] const device_facts& facts() const;

  /// Contents are undefined. errors: out_of_memory, naming the bytes asked and the room there is.
  [[nodiscard]] buffer allocate(std::uint64_t bytes, memory_kind kind = memory_kind::device_local) const;

  /// Why buffers of these sizes cannot be allocated beside what lives now, by their number and by the largest of them;
  /// empty if they can, as far as there is memory.
  [[nodiscard]] std::string reason_to_refuse(std::span<const std::uint64_t> buffer_bytes) const;

  /// `bytes` may go as soon as this returns; what is submitted later sees them. The copy itself travels with the next
  /// submission, or earlier when much has gathered.
  void upload(const buffer& target, std::uint64_t offset, std::span<const std::byte> bytes) const;
  template <class T>
  void upload(const buffer& target, std::uint64_t offset, const std::vector<T>& values) const {
    upload(target, offset, std::as_bytes(std::span(values)));
  }

  /// Starts a copy after everything submitted so far. size 0 means up to the buffer's end.
  [[nodiscard]] read_back_ticket read_back(const buffer& source, std::uint64_t offset = 0,
                                           std::uint64_t size = 0) const;

  /// How many of them a call that prepares may use, at least 1.
  [[nodiscard]] std::uint32_t threads() const;

  /// Created in parallel and in order. errors: unsupported, naming the kernel and the limit.
  [[nodiscard]] std::vector<pipeline> create_pipelines(std::span<const spirv::module> kernels) const;
  [[nodiscard]] pipeline create_pipeline(const spirv::module& kernel) const;

  /// Runs it after everything submitted before; returns the timeline value that says it is done.
  std::uint64_t submit(const recording& commands) const;
  void wait(std::uint64_t value) const;
  [[nodiscard]] bool is_done(std::uint64_t value) const;
  void wait_idle() const;

  /// Done by itself when the device closes; errors: io.
  void save_pipeline_cache() const;
  [[nodiscard]] pipeline_cache_origin cache_origin() const;
  [[nodiscard]] std::string cache_file() const;  // empty when off

  [[nodiscard]] device_counters counters() const;
  /// Bytes of all buffers that live now, as the driver rounds them.
  [[nodiscard]] std::uint64_t allocated_bytes() const;
  [[nodiscard]] std::uint64_t validation_messages() const;  // warnings and errors, 0 without validation

  /// As it was opened with.
  [[nodiscard]] rate_measurement rate_option() const;
  /// What `find` returned to the first call of all, for which the others wait: a profile is found once a device. Where
  /// it throws, the next call is the first.
  [[nodiscard]] device_profile profile(const std::function<device_profile()>& find) const;

  /// Null where none is written.
  [[nodiscard]] const std::shared_ptr<io::trace_file>& trace() const;
  /// The device's own.
  [[nodiscard]] std::uint32_t trace_track() const;

  /// The sink it was opened with, one call at a time and without what it throws.
  [[nodiscard]] const log_sink& log() const;

  /// False once it was moved from; every call then throws invalid_argument.
  explicit operator bool() const { return state_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<detail::device_state>& state() const;

 private:
  std::shared_ptr<detail::device_state> state_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/device.ipp>
#endif
