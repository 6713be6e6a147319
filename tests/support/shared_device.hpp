// SPDX-License-Identifier: MIT
// Devices of the tests, which check on closing that the validation layers had nothing to say.
#pragma once
#include <meganeura/vulkan/device.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::support {

/// A device whose end is a check: not one validation message, synchronisation included.
class checked_device : public vulkan::device {
 public:
  using device::device;
  ~checked_device() { EXPECT_EQ(validation_messages(), 0u); }
};

/// Checked when the program ends.
inline const vulkan::device& checked_at_the_end(const vulkan::device& made) {
  class silence : public ::testing::Environment {
   public:
    explicit silence(const vulkan::device& of) : of_(of) {}
    void TearDown() override { EXPECT_EQ(of_.validation_messages(), 0u); }

   private:
    const vulkan::device& of_;
  };
  ::testing::AddGlobalTestEnvironment(new silence(made));
  return made;
}

inline vulkan::device_options shared_options() {
  vulkan::device_options options;
  options.disk_cache = false;
  options.log = [](log_level level, std::string_view text) {
    if (level >= log_level::warning) std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  };
  return options;
}

/// One device for all tests of a program: opening it costs more than they do.
inline const vulkan::device& shared_device() {
  static const vulkan::device made{shared_options()};
  static const vulkan::device& checked = checked_at_the_end(made);
  return checked;
}

/// The same with matrix units, emulated ones of this shape where it has none.
template <matrix_shape Unit = matrix_shape{}>
const vulkan::device& shared_unit_device() {
  static const vulkan::device made{[] {
    vulkan::device_options options = shared_options();
    options.emulated_units = Unit;
    return options;
  }()};
  static const vulkan::device& checked = checked_at_the_end(made);
  return checked;
}

/// A device whose descriptors cover `most` bytes, so that all storage buffers that are longer are reached by address.
inline vulkan::device_options address_options(std::uint64_t most = 0) {
  vulkan::device_options options = shared_options();
  options.at_most = shared_device().facts();
  options.at_most->max_storage_range = most;
  options.at_most->quirks.prefers_texel_buffers = false;  // storage buffers, then
  return options;
}

/// Everything by address; matrix units emulated where it has none.
inline const vulkan::device& shared_address_device() {
  static const vulkan::device made{[] {
    vulkan::device_options options = address_options();
    options.emulated_units = matrix_shape{};
    return options;
  }()};
  static const vulkan::device& checked = checked_at_the_end(made);
  return checked;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
