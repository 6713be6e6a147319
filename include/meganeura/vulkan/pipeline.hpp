// SPDX-License-Identifier: MIT
// A kernel compiled for one device, and the check of its limits that comes first.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/spirv/module.hpp>
#include <meganeura/vulkan/facts.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::vulkan {

namespace detail {
inline constexpr std::uint64_t texel_bytes = 16;      // of a group of four f32, RGBA32F
inline constexpr std::uint64_t address_bytes = 8;     // of a push constant
inline constexpr std::uint64_t push_constants = 128;  // bytes that every device has
class device_state;
struct pipeline_state;
}  // namespace detail

/// What became of the pipeline cache on disk when the device was opened.
enum class pipeline_cache_origin : std::uint8_t {
  off,      // not wanted, or there is no directory for it
  absent,   // no file yet
  loaded,   // read, checked and handed to the driver
  rejected  // corrupt, or of another device or driver; ignored and written anew
};

/// Why the device cannot run the module, as a sentence; empty if it can. Makes nothing: a planner may ask for
/// candidates.
[[nodiscard]] std::string reason_to_refuse(const device_facts& facts, const spirv::module& kernel);

/// Why a binding of that kind cannot cover `bytes`, or the device cannot launch so many workgroups; empty if it can.
[[nodiscard]] std::string reason_to_refuse(const device_facts& facts, spirv::binding_kind kind, std::uint64_t bytes);
[[nodiscard]] std::string reason_to_refuse(const device_facts& facts, const std::array<std::uint32_t, 3>& groups);

/// Shared ownership; made by `device::create_pipelines`.
class pipeline {
 public:
  pipeline() = default;
  explicit pipeline(std::shared_ptr<detail::pipeline_state> state) : state_(std::move(state)) {}
  explicit operator bool() const { return state_ != nullptr; }
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::shared_ptr<detail::pipeline_state>& state() const { return state_; }

 private:
  std::shared_ptr<detail::pipeline_state> state_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/pipeline_state.hpp>  // which ends with pipeline.ipp
#endif
