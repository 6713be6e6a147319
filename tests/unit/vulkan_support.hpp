// SPDX-License-Identifier: MIT
// What the Vulkan tests share: a device under validation, kernels with a known answer, scoped environment.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/spirv/kernel.hpp>
#include <meganeura/vulkan/device.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace meganeura::test {

using support::temporary_folder;
using support::thrown_by;

/// Sets a variable, or unsets it, until the end of the scope.
class scoped_environment {
 public:
  scoped_environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value != nullptr) setenv(name, value, 1);
    if (value == nullptr) unsetenv(name);
  }
  ~scoped_environment() {
    if (old_) setenv(name_, old_->c_str(), 1);
    if (!old_) unsetenv(name_);
  }
  scoped_environment(const scoped_environment&) = delete;
  scoped_environment& operator=(const scoped_environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

struct message_list {
  std::mutex mutex;
  std::vector<std::string> texts;
  [[nodiscard]] log_sink sink() {
    return [this](log_level level, std::string_view text) {
      const std::lock_guard lock(mutex);
      texts.push_back(std::string(to_string(level)) + ": " + std::string(text));
    };
  }
};

/// A device per test, under the validation layer where that is installed; any message fails the test.
class vulkan_fixture : public testing::Test {
 protected:
  void SetUp() override { open({}); }
  void TearDown() override {
    if (gpu == nullptr) return;
    EXPECT_EQ(gpu->validation_messages(), expected_messages);
    if (gpu->validation_messages() == expected_messages) return;
    for (const std::string& text : messages.texts) ADD_FAILURE() << text;
  }
  void open(vulkan::device_options options) {
    options.log = messages.sink();
    options.disk_cache = !options.cache_directory.empty();
    options.validation = true;
    gpu.reset();
    try {
      gpu = std::make_unique<vulkan::device>(options);
    } catch (const error& problem) {
      if (problem.category() != error_category::unsupported) throw;
      options.validation = false;
      gpu = std::make_unique<vulkan::device>(options);
    }
  }
  template <class T>
  [[nodiscard]] std::vector<T> read(const vulkan::buffer& source, std::uint64_t offset, std::size_t count) const {
    const vulkan::read_back_ticket ticket = gpu->read_back(source, offset, count * sizeof(T));
    std::vector<T> values(count);
    std::memcpy(values.data(), ticket.data().data(), count * sizeof(T));
    return values;
  }

  message_list messages;  // outlives the device
  std::unique_ptr<vulkan::device> gpu;
  std::uint64_t expected_messages = 0;
};

/// y[i] = x[i] * factor + shift for a workgroup of 64.
[[nodiscard]] inline spirv::module scale_kernel(float factor, float shift) {
  spirv::kernel k("scale", {64, 1, 1});
  const auto x = k.storage_buffer<spirv::f32>("x");
  const auto y = k.storage_buffer<spirv::f32>("y", spirv::access::write);
  const spirv::u32 i = k.global_id(0);
  y[i] = x[i] * factor + shift;
  return k.finish();
}

/// y[i] = sum of the four components of texel i.
[[nodiscard]] inline spirv::module texel_sum_kernel() {
  spirv::kernel k("texel_sum", {64, 1, 1});
  const auto x = k.texels("x");
  const auto y = k.storage_buffer<spirv::f32>("y", spirv::access::write);
  const spirv::u32 i = k.global_id(0);
  const spirv::f32x4 texel = x[i];
  y[i] = texel[0] + texel[1] + texel[2] + texel[3];
  return k.finish();
}

/// state[i] = state[i] * 3 + i, in place, for a workgroup of 64: the order of submissions shows in the result.
[[nodiscard]] inline spirv::module advance_kernel() {
  spirv::kernel k("advance", {64, 1, 1});
  const auto state = k.storage_buffer<spirv::u32>("state", spirv::access::read_write);
  const spirv::u32 i = k.global_id(0);
  state[i] = state[i].load() * 3u + i;
  return k.finish();
}

}  // namespace meganeura::test
