// SPDX-License-Identifier: MIT
// Pipeline caches that lie, in folders that are not there: a device opens all the same, and soon.
#include "inject.hpp"

#include <meganeura/io/file.hpp>
#include <meganeura/vulkan/device.hpp>
#include <meganeura/vulkan/pipeline_state.hpp>
#include <support/temporary_folder.hpp>
#include <unit/vulkan_support.hpp>

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <random>

namespace mn = meganeura;
namespace fs = std::filesystem;
namespace support = meganeura::support;
using mn::vulkan::pipeline_cache_origin;

namespace {

class faults_cache : public testing::Test {
 protected:
  void SetUp() override {  // a good cache of one kernel
    const mn::vulkan::device gpu(options());
    (void)gpu.create_pipeline(mn::test::scale_kernel(2, 1));
    path = gpu.cache_file();
    gpu.save_pipeline_cache();
    good = mn::io::read_file(path);
  }
  [[nodiscard]] mn::vulkan::device_options options() const {
    return {.cache_directory = folder.path().string(),
            .threads = 1,
            .log = [this](mn::log_level, std::string_view text) { said += std::string(text) + "\n"; }};
  }
  /// Opens a device over the cache as it is now, within the time of a person's patience, and compiles with it.
  void expect_ignored(const std::string& what) {
    said.clear();
    const auto begin = std::chrono::steady_clock::now();
    {
      const mn::vulkan::device gpu(options());
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4)) << what;
      EXPECT_EQ(gpu.cache_origin(), pipeline_cache_origin::rejected) << what;
      EXPECT_TRUE(gpu.create_pipeline(mn::test::scale_kernel(2, 1))) << what;
    }
    EXPECT_NE(said.find("ignored"), std::string::npos) << what << ": " << said;
  }

  support::temporary_folder folder;
  std::string path;
  std::vector<std::uint8_t> good;
  mutable std::string said;
};

}  // namespace

TEST_F(faults_cache, damaged_bytes_are_ignored_and_replaced) {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    auto bytes = good;
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    if (round % 3 == 1) bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1 + random() % 255);
    if (round % 3 == 2) {
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    }
    support::write(path, bytes);
    expect_ignored(std::to_string(round));
  }
  EXPECT_EQ(mn::vulkan::device(options()).cache_origin(), pipeline_cache_origin::loaded);  // the last one wrote it anew
}

TEST_F(faults_cache, another_devices_cache_is_ignored) {
  auto facts = mn::vulkan::device(options()).facts();
  facts.driver_uuid[0] ^= 1;
  support::write(path, mn::vulkan::detail::pack_cache(std::vector<std::byte>(100), facts));
  expect_ignored("another driver's");
}

TEST_F(faults_cache, what_is_no_file_is_ignored_and_not_waited_for) {
  fs::remove(path);
  fs::create_directories(path + "/inside");
  expect_ignored("a folder");
  fs::remove_all(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_ignored("a FIFO");
}

TEST_F(faults_cache, a_huge_file_is_not_read) {
  fs::resize_file(path, std::uintmax_t{2} << 30);
  expect_ignored("2 GB that begin well");
  support::write(path, good);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  constexpr std::uint64_t claimed = (std::uint64_t{2} << 30) - 80;
  file.seekp(64);  // the header's size of what follows
  file.write(reinterpret_cast<const char*>(&claimed), sizeof claimed);
  file.close();
  fs::resize_file(path, std::uintmax_t{2} << 30);
  expect_ignored("2 GB whose header says so");
}

TEST_F(faults_cache, without_a_place_for_it_a_device_works) {
  const support::temporary_folder other;
  support::write(other / "file", std::string("x"));
  for (const std::string& place : {other / "file/below", std::string("/proc/nowhere"), std::string(300, 'n')}) {
    const mn::vulkan::device gpu({.cache_directory = place, .threads = 1});
    EXPECT_TRUE(gpu.create_pipeline(mn::test::scale_kernel(2, 1)));
    EXPECT_EQ(mn::test::thrown_by([&] { gpu.save_pipeline_cache(); }), mn::error_category::io) << place;
  }
  const mn::test::scoped_environment cache("XDG_CACHE_HOME", nullptr), home("HOME", nullptr);
  EXPECT_EQ(mn::vulkan::device({.threads = 1}).cache_origin(), pipeline_cache_origin::off);
}

TEST_F(faults_cache, memory_that_runs_out_while_it_is_read_or_written_leaves_it_whole) {
  const mn::vulkan::device gpu(options());
  for (std::uint64_t at = 0; at < 60; ++at) {
    (void)gpu.create_pipeline(mn::test::scale_kernel(static_cast<float>(at), 1));
    try {
      const mn::faults::allocation_fault fault(at);
      gpu.save_pipeline_cache();
    } catch (const mn::error& problem) {
      EXPECT_EQ(problem.category(), mn::error_category::out_of_memory) << at;
    }
    EXPECT_FALSE(mn::vulkan::detail::read_cache(path, gpu.facts()).empty()) << at;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1) << at;
  }
}

TEST_F(faults_cache, what_a_full_disk_refused_is_saved_at_close) {
  int refused = 0;
  for (std::uint64_t at = 0; at < 4; ++at) {
    bool happened = false;
    {
      const mn::vulkan::device gpu(options());
      (void)gpu.create_pipeline(mn::test::scale_kernel(3, static_cast<float>(at)));
      {
        const mn::faults::file_fault full(mn::faults::file_fault::kind::refused, at, ENOSPC);
        const auto category = mn::test::thrown_by([&] { gpu.save_pipeline_cache(); });
        happened = full.happened();
        if (!category) continue;  // a lock or a mode that may be refused
        EXPECT_EQ(category, mn::error_category::io) << at;
        ++refused;
      }
      fs::remove(path);
    }
    ASSERT_TRUE(happened) << at;
    EXPECT_TRUE(fs::exists(path)) << at;
  }
  EXPECT_GT(refused, 1);
}
