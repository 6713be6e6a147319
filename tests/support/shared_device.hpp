// SPDX-License-Identifier: MIT
// Devices of the tests, which check on closing that the validation layers had nothing to say.
#pragma once
#include <meganeura/vulkan/device.hpp>

#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::support {

/// A device whose end is a check: not one validation message, synchronisation included.
class checked_device : public vulkan::device {
 public:
  using device::device;
  ~checked_device() { EXPECT_EQ(validation_messages(), 0u); }
};

/// One device for all tests of a program: opening it costs more than they do. Checked when the program ends.
inline const vulkan::device& shared_device() {
  static const vulkan::device made{[] {
    vulkan::device_options options;
    options.disk_cache = false;
    options.log = [](log_level level, std::string_view text) {
      if (level >= log_level::warning) std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
    };
    return options;
  }()};
  class silence : public ::testing::Environment {
    void TearDown() override { EXPECT_EQ(made.validation_messages(), 0u); }
  };
  static const auto* registered = ::testing::AddGlobalTestEnvironment(new silence);
  static_cast<void>(registered);
  return made;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
