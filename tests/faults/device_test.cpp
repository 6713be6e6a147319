// SPDX-License-Identifier: MIT
// A device that is lost or has no memory left, simulated call by call: every call ends in an `error` of the right kind,
// nothing hangs or leaks, and after a refusal of memory a smaller model runs on the same device.
#include "inject.hpp"

#include <meganeura/meganeura.hpp>
#include <support/temporary_folder.hpp>
#include <unit/vulkan_support.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace mn = meganeura;
namespace faults = meganeura::faults;
namespace support = meganeura::support;

namespace {

template <int Hidden>
struct net {
  static constexpr auto forward(mn::value auto x) {
    return mn::linear<"fc2", 3>(mn::relu(mn::linear<"fc1", Hidden>(x)));
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
template <int Hidden>
using model = mn::model<net<Hidden>, mn::input<"x", mn::dtype::f32, mn::dims<batch, 5>>>;

const std::vector<float> inputs(10, 0.5f);
const std::vector<std::int32_t> labels{0, 2};

mn::device open_device() { return mn::device({.disk_cache = false, .threads = 1}); }

constexpr std::uint64_t staging_bytes = 64 << 10;
/// So little staging that `large` is sent while it is being uploaded: it is more than a quarter of the ring.
mn::device open_device_of_little_staging(bool pushes_descriptors = true) {
  mn::device_options options{.disk_cache = false, .staging_bytes = staging_bytes, .threads = 1};
  if (!pushes_descriptors) {
    options.at_most = mn::device({.disk_cache = false}).facts();
    options.at_most->max_push_descriptors = 0;
  }
  return mn::device(options);
}
const std::vector<float> large(staging_bytes / sizeof(float), 3.0f);

/// A few steps, the loss of each, and the weights.
template <int Hidden>
void train(const mn::device& gpu, const std::string& path) {
  mn::trainer<model<Hidden>, mn::cross_entropy<"label">> run(gpu, mn::adam{}, {{"batch", 2}});
  run.parameters().init({.seed = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(run.step(mn::bind<"x">(inputs), mn::bind<"label">(labels)).loss(), 0);
  }
  run.parameters().save(path);
}

/// A kernel that reads texels, which the driver needs a view for: small models have none.
void run_texels(const mn::device& gpu) {
  const mn::vulkan::pipeline kernel = gpu.create_pipeline(mn::test::texel_sum_kernel());
  const mn::vulkan::buffer from = gpu.allocate(1024), to = gpu.allocate(256);
  mn::vulkan::recorder commands(gpu);
  commands.dispatch(kernel, {{from, 0, 1024}, {to, 0, 256}}, {1, 1, 1});
  gpu.submit(commands.finish());
}

std::optional<mn::error_category> category_of(const auto& action) { return mn::test::thrown_by(action); }

}  // namespace

TEST(faults_device, lost_at_any_call_every_later_call_says_so_and_nothing_hangs) {
  const support::temporary_folder folder;
  std::uint64_t count = 0;
  {
    const mn::device gpu = open_device();
    const faults::vulkan_fault nothing("", VK_ERROR_DEVICE_LOST);
    train<4>(gpu, folder / "m");
    count = nothing.count();
  }
  ASSERT_GT(count, 5u);
  int thrown = 0;
  for (const std::uint64_t at : faults::points(count, 12)) {
    const mn::device gpu = open_device();
    const mn::vulkan::pipeline kernel = gpu.create_pipeline(mn::test::scale_kernel(1, 0));
    const mn::vulkan::buffer memory = gpu.allocate(512);
    mn::vulkan::recorder commands(gpu);
    commands.dispatch(kernel, {{memory, 0, 256}, {memory, 256, 256}}, {1, 1, 1});
    const mn::vulkan::recording recorded = commands.finish();
    const faults::vulkan_fault lost("", VK_ERROR_DEVICE_LOST, at, true);  // goes after everything above but the device
    const auto category = category_of([&] { train<4>(gpu, folder / "m"); });
    if (lost.count() <= at) continue;  // a wait needs more calls or fewer from one run to the next
    // One that a destructor met is not thrown, but remembered.
    thrown += category == mn::error_category::device_lost ? 1 : 0;
    ASSERT_TRUE(!category || category == mn::error_category::device_lost) << at;
    const auto expect_lost = [&](const char* what, const auto& action) {
      EXPECT_EQ(category_of(action), mn::error_category::device_lost) << what << " after call " << at;
    };
    expect_lost("allocate", [&] { (void)gpu.allocate(64); });
    expect_lost("upload", [&] { gpu.upload(memory, 0, std::vector<float>(4)); });
    expect_lost("read_back", [&] { (void)gpu.read_back(memory); });
    expect_lost("create_pipeline", [&] { (void)gpu.create_pipeline(mn::test::scale_kernel(2, 0)); });
    expect_lost("submit", [&] { (void)gpu.submit(recorded); });
    expect_lost("wait_idle", [&] { gpu.wait_idle(); });
    expect_lost("a new trainer", [&] { train<4>(gpu, folder / "m"); });
  }
  EXPECT_GT(thrown, 8);
  EXPECT_EQ(faults::living_objects(), "");
  train<4>(open_device(), folder / "m");  // opened anew, it works
}

TEST(faults_device, lost_while_a_trainer_lives_its_steps_say_so) {
  const support::temporary_folder folder;
  {
    const mn::device gpu = open_device();
    mn::trainer<model<4>, mn::cross_entropy<"label">> run(gpu, mn::adam{}, {{"batch", 2}});
    run.parameters().init({.seed = 1});
    const auto step = [&] { return run.step(mn::bind<"x">(inputs), mn::bind<"label">(labels)); };
    const auto last = step();
    last.wait();
    const faults::vulkan_fault lost("", VK_ERROR_DEVICE_LOST, 0, true);
    EXPECT_EQ(category_of([&] { (void)step(); }), mn::error_category::device_lost);
    EXPECT_EQ(category_of([&] { (void)step(); }), mn::error_category::device_lost);
    EXPECT_EQ(category_of([&] { (void)run.parameters().get("fc1.bias"); }), mn::error_category::device_lost);
    EXPECT_EQ(category_of([&] { run.parameters().save(folder / "m"); }), mn::error_category::device_lost);
    EXPECT_FALSE(std::filesystem::exists(folder / "m"));
  }
  EXPECT_EQ(faults::living_objects(), "");
}

TEST(faults_device, out_of_device_memory_and_then_a_smaller_model) {
  const support::temporary_folder folder;
  {
    const mn::device gpu = open_device();
    std::uint64_t count = 0;
    {
      const faults::vulkan_fault nothing("vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY);
      train<64>(gpu, folder / "m");
      count = nothing.count();
    }
    ASSERT_GT(count, 3u);
    for (std::uint64_t at = 0; at < count; ++at) {
      {
        const faults::vulkan_fault full("vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY, at, true);
        const auto category = category_of([&] { train<64>(gpu, folder / "m"); });
        ASSERT_TRUE(at != 0 || full.count() > 0) << "nothing is allocated any more";
        if (full.count() <= at) continue;  // memory of an earlier round was used again
        EXPECT_EQ(category, mn::error_category::out_of_memory) << at;
      }
      if (at % 4 != 0) continue;
      EXPECT_EQ(category_of([&] { train<4>(gpu, folder / "m"); }), std::nullopt) << at;
    }
  }
  EXPECT_EQ(faults::living_objects(), "");
}

TEST(faults_device, whatever_the_driver_cannot_make_is_an_error_and_leaks_nothing) {
  const support::temporary_folder folder;
  {
    const mn::device gpu = open_device_of_little_staging(false);
    for (const char* function :
         {"vkCreateBuffer", "vkBindBufferMemory", "vkMapMemory", "vkCreateBufferView", "vkCreateShaderModule",
          "vkCreateDescriptorSetLayout", "vkCreatePipelineLayout", "vkCreateComputePipelines", "vkCreateDescriptorPool",
          "vkAllocateDescriptorSets", "vkCreateCommandPool", "vkAllocateCommandBuffers", "vkBeginCommandBuffer",
          "vkEndCommandBuffer", "vkQueueSubmit", "vkWaitSemaphores"}) {
      for (const std::uint64_t at : {0, 1, 3}) {
        const faults::vulkan_fault fault(function, VK_ERROR_OUT_OF_HOST_MEMORY, at);
        const auto category = category_of([&] {
          train<4>(gpu, folder / "m");
          run_texels(gpu);
          gpu.upload(gpu.allocate(large.size() * sizeof(float)), 0, large);
        });
        const bool waits = function == std::string("vkWaitSemaphores");  // unless polling finds the work done
        EXPECT_TRUE(at != 0 || fault.count() > 0 || waits) << function << " is not called at all";
        if (fault.count() <= at) continue;
        const bool quiet = !category && waits;  // in a destructor
        EXPECT_TRUE(quiet || category == mn::error_category::out_of_memory) << function << " " << at;
      }
    }
    EXPECT_EQ(category_of([&] { train<4>(gpu, folder / "m"); }), std::nullopt);
  }
  EXPECT_EQ(faults::living_objects(), "");
  for (const char* function : {"vkCreateInstance", "vkEnumeratePhysicalDevices", "vkCreateDevice", "vkCreateSemaphore",
                               "vkCreateCommandPool", "vkAllocateMemory", "vkCreatePipelineCache"}) {
    const faults::vulkan_fault fault(function, VK_ERROR_OUT_OF_HOST_MEMORY, 0);
    EXPECT_EQ(category_of([] { (void)open_device(); }), mn::error_category::out_of_memory) << function;
  }
  EXPECT_EQ(faults::living_objects(), "");
}

TEST(faults_device, a_buffer_whose_copy_was_refused_may_go) {
  for (const bool reads : {false, true}) {
    const mn::device gpu = open_device_of_little_staging();
    const mn::vulkan::buffer kept = gpu.allocate(large.size() * sizeof(float));
    gpu.upload(kept, 0, large);
    gpu.wait_idle();
    {
      const mn::vulkan::buffer dropped = gpu.allocate(large.size() * sizeof(float));
      const faults::vulkan_fault refused("vkQueueSubmit", VK_ERROR_OUT_OF_HOST_MEMORY, 0);
      const auto copy = [&] { reads ? (void)gpu.read_back(dropped) : gpu.upload(dropped, 0, large); };
      EXPECT_EQ(category_of(copy), mn::error_category::out_of_memory);
    }
    gpu.upload(kept, 0, std::vector<float>(large.size(), 5.0f));
    const auto ticket = gpu.read_back(kept);
    float last = 0;
    std::memcpy(&last, ticket.data().last(sizeof last).data(), sizeof last);
    EXPECT_EQ(last, 5.0f);
  }
  EXPECT_EQ(faults::living_objects(), "");
}

TEST(faults_device, a_buffer_whose_copy_is_refused_to_its_end_takes_the_device_along) {
  {
    const mn::device gpu = open_device_of_little_staging();
    const mn::vulkan::buffer kept = gpu.allocate(64);
    {
      const faults::vulkan_fault refused("vkQueueSubmit", VK_ERROR_OUT_OF_HOST_MEMORY, 0, true);
      const mn::vulkan::buffer dropped = gpu.allocate(large.size() * sizeof(float));
      EXPECT_EQ(category_of([&] { gpu.upload(dropped, 0, large); }), mn::error_category::out_of_memory);
    }
    EXPECT_EQ(category_of([&] { gpu.upload(kept, 0, std::vector<float>(4)); }), mn::error_category::device_lost);
  }
  EXPECT_EQ(faults::living_objects(), "");
}
