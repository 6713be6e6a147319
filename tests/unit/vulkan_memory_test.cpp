// SPDX-License-Identifier: MIT
// Copies between host and device: what goes up comes back, in order, without new memory in a steady loop.
#include "vulkan_support.hpp"

#include <meganeura/vulkan/buffer_state.hpp>

#include <numeric>
#include <thread>
#include <utility>

namespace meganeura::test {
namespace {

class vulkan_memory : public vulkan_fixture {};

std::vector<std::uint32_t> counting(std::size_t count, std::uint32_t first) {
  std::vector<std::uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST_F(vulkan_memory, an_upload_comes_back_at_its_offset) {
  const vulkan::buffer memory = gpu->allocate(4096);
  gpu->upload(memory, 0, std::vector<std::uint32_t>(1024, 0));
  gpu->upload(memory, 40, counting(100, 7));
  EXPECT_EQ(read<std::uint32_t>(memory, 40, 100), counting(100, 7));
  EXPECT_EQ(read<std::uint32_t>(memory, 36, 1), std::vector<std::uint32_t>{0});
  EXPECT_EQ(read<std::uint32_t>(memory, 440, 1), std::vector<std::uint32_t>{0});
}

TEST_F(vulkan_memory, single_bytes_at_odd_offsets_come_back) {
  const vulkan::buffer memory = gpu->allocate(64);
  gpu->upload(memory, 0, std::vector<std::uint8_t>(64, 1));
  gpu->upload(memory, 13, std::vector<std::uint8_t>{42});
  EXPECT_EQ(read<std::uint8_t>(memory, 12, 3), (std::vector<std::uint8_t>{1, 42, 1}));
}

TEST_F(vulkan_memory, uploads_larger_than_the_staging_ring_come_back_whole) {
  open({.staging_bytes = 4096});
  const std::size_t count = 50'000;  // 200 kB through 4 kB
  const vulkan::buffer memory = gpu->allocate(count * 4);
  for (const std::uint32_t first : {0U, 1000U, 77U}) {
    gpu->upload(memory, 0, counting(count, first));
    ASSERT_EQ(read<std::uint32_t>(memory, 0, count), counting(count, first));
  }
}

TEST_F(vulkan_memory, many_odd_sized_uploads_wrap_the_ring_correctly) {
  open({.staging_bytes = 4096});
  const vulkan::buffer memory = gpu->allocate(1 << 16);
  std::vector<std::uint8_t> expected(1 << 16, 0);
  gpu->upload(memory, 0, expected);
  for (std::size_t i = 0; i < 400; ++i) {
    const std::size_t size = 1 + i * 37 % 1500;
    const std::size_t offset = i * 977 % (expected.size() - size);
    const std::vector<std::uint8_t> piece(size, static_cast<std::uint8_t>(i));
    gpu->upload(memory, offset, piece);
    std::copy(piece.begin(), piece.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  EXPECT_EQ(read<std::uint8_t>(memory, 0, expected.size()), expected);
}

TEST_F(vulkan_memory, a_later_upload_to_the_same_bytes_wins) {
  const vulkan::buffer memory = gpu->allocate(64);
  for (std::uint32_t i = 0; i < 20; ++i) gpu->upload(memory, 0, std::vector<std::uint32_t>(16, i));
  EXPECT_EQ(read<std::uint32_t>(memory, 0, 16), std::vector<std::uint32_t>(16, 19));
}

TEST_F(vulkan_memory, a_read_back_keeps_the_moment_it_was_asked_for) {
  const vulkan::buffer memory = gpu->allocate(64);
  gpu->upload(memory, 0, std::vector<std::uint32_t>(16, 1));
  const vulkan::read_back_ticket before = gpu->read_back(memory);
  gpu->upload(memory, 0, std::vector<std::uint32_t>(16, 2));
  const vulkan::read_back_ticket after = gpu->read_back(memory);
  gpu->wait_idle();
  EXPECT_TRUE(before.ready());
  EXPECT_TRUE(after.ready());
  std::uint32_t first = 0;
  std::memcpy(&first, before.data().data(), 4);
  EXPECT_EQ(first, 1U);
  std::memcpy(&first, after.data().data(), 4);
  EXPECT_EQ(first, 2U);
}

TEST_F(vulkan_memory, a_steady_loop_of_copies_allocates_nothing) {
  const vulkan::buffer memory = gpu->allocate(4096);
  for (int i = 0; i < 3; ++i) {
    gpu->upload(memory, 0, counting(1024, 1));
    (void)read<std::uint32_t>(memory, 0, 1024);
  }
  const std::uint64_t before = gpu->counters().allocations;
  for (std::uint32_t i = 0; i < 50; ++i) {
    gpu->upload(memory, 0, counting(1024, i));
    EXPECT_EQ(read<std::uint32_t>(memory, 0, 1024), counting(1024, i));
  }
  EXPECT_EQ(gpu->counters().allocations, before);
}

TEST_F(vulkan_memory, what_read_backs_keep_is_what_was_in_use_at_one_time) {
  const vulkan::buffer memory = gpu->allocate(std::uint64_t{1} << 20);
  gpu->upload(memory, 0, counting(1 << 18, 1));
  const auto live = [&] { return gpu->state()->live_allocations.load(); };
  const std::uint32_t before = live();
  for (std::size_t count = 1 << 10; count <= 1 << 18; count *= 4)
    EXPECT_EQ(read<std::uint32_t>(memory, 0, count), counting(static_cast<std::uint32_t>(count), 1));
  EXPECT_EQ(live(), before + 1);
}

TEST_F(vulkan_memory, an_upload_travels_with_the_next_submission) {
  const vulkan::buffer memory = gpu->allocate(64);
  const vulkan::recording nothing = vulkan::recorder(*gpu).finish();
  const std::uint64_t before = gpu->counters().submissions;
  gpu->upload(memory, 0, std::vector<std::uint32_t>(16, 3));
  gpu->submit(nothing);
  EXPECT_EQ(gpu->counters().submissions, before + 1);
  EXPECT_EQ(read<std::uint32_t>(memory, 0, 16), std::vector<std::uint32_t>(16, 3));
}

TEST_F(vulkan_memory, mapped_memory_is_seen_by_both_sides) {
  const vulkan::buffer control = gpu->allocate(256, vulkan::memory_kind::mapped);
  ASSERT_EQ(control.mapped().size(), 256U);
  EXPECT_TRUE(gpu->allocate(256).mapped().empty());
  const std::vector<std::uint32_t> values = counting(64, 11);
  std::memcpy(control.mapped().data(), values.data(), 256);
  const vulkan::pipeline advance = gpu->create_pipeline(advance_kernel());
  vulkan::recorder commands(*gpu);
  commands.dispatch(advance, {{control}}, {1, 1, 1});
  gpu->wait(gpu->submit(commands.finish()));
  std::vector<std::uint32_t> seen(64);
  std::memcpy(seen.data(), control.mapped().data(), 256);
  for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(seen[i], (11 + i) * 3 + i);
}

TEST_F(vulkan_memory, a_buffer_may_go_while_its_upload_is_pending) {
  const vulkan::buffer kept = gpu->allocate(4096);
  gpu->upload(kept, 0, counting(1024, 7));
  for (int i = 0; i < 10; ++i) {
    const vulkan::buffer memory = gpu->allocate(4096);
    gpu->upload(memory, 0, counting(1024, 0));
  }
  const auto read = gpu->read_back(kept);
  EXPECT_EQ(std::memcmp(read.data().data(), counting(1024, 7).data(), 4096), 0);
}

TEST_F(vulkan_memory, copies_from_several_threads_do_not_mix) {
  std::vector<vulkan::buffer> memory;
  for (int i = 0; i < 4; ++i) memory.push_back(gpu->allocate(4096));
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 25; ++i) {
        const std::vector<std::uint32_t> values = counting(1024, i * 4 + static_cast<std::uint32_t>(t));
        gpu->upload(memory[t], 0, values);
        if (read<std::uint32_t>(memory[t], 0, 1024) == values) ++right[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 25));
}

TEST_F(vulkan_memory, allocated_bytes_are_those_of_buffers_that_live) {
  const std::uint64_t before = gpu->allocated_bytes();
  {
    const vulkan::buffer a = gpu->allocate(1 << 20), b = gpu->allocate(1000, vulkan::memory_kind::mapped);
    EXPECT_GE(gpu->allocated_bytes(), before + (1 << 20) + 1000);
    EXPECT_LE(gpu->allocated_bytes(), before + (1 << 20) + 1000 + (1 << 17)) << "rounded to pages";
  }
  EXPECT_EQ(gpu->allocated_bytes(), before);
}

TEST_F(vulkan_memory, leaving_a_buffer_is_refused) {
  const vulkan::buffer memory = gpu->allocate(64);
  const auto refused = error_category::invalid_argument;
  EXPECT_EQ(thrown_by([&] { gpu->upload(memory, 60, std::vector<std::uint32_t>(2, 0)); }), refused);
  EXPECT_EQ(thrown_by([&] { gpu->upload(memory, ~std::uint64_t{0}, std::vector<std::uint32_t>(2, 0)); }), refused);
  EXPECT_EQ(thrown_by([&] { (void)gpu->read_back(memory, 0, 65); }), refused);
  EXPECT_EQ(thrown_by([&] { (void)gpu->read_back(memory, 64); }), refused);
  EXPECT_EQ(thrown_by([&] { (void)gpu->read_back(vulkan::buffer()); }), refused);
  EXPECT_EQ(thrown_by([&] { (void)gpu->allocate(0); }), refused);
}

TEST(vulkan_last_use, keeps_the_latest_of_what_threads_report_in_any_order) {
  vulkan::detail::last_use used;
  used.raise(6);
  used.raise(5);  // an earlier copy, by a thread that was slower to say so
  EXPECT_EQ(used, 6U);
  used.raise(7);
  EXPECT_EQ(used, 7U);
}

// A graphics card made of the software device: the host sees 256 MiB of its memory, and those are full.
namespace full_window {

VkResult reported = VK_SUCCESS;  // of an allocation there; success: the budget shows it before
std::vector<std::uint32_t> tried;
PFN_vkGetPhysicalDeviceMemoryProperties2 memory_properties;
PFN_vkGetDeviceProcAddr device_function;
PFN_vkGetBufferMemoryRequirements requirements;
PFN_vkAllocateMemory allocate;

VKAPI_ATTR void VKAPI_CALL fake_memory_properties(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2* answer) {
  memory_properties(device, answer);
  VkPhysicalDeviceMemoryProperties& memory = answer->memoryProperties;
  memory.memoryHeaps[1] = memory.memoryHeaps[0];
  memory.memoryHeaps[0] = {256U << 20, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  memory.memoryHeapCount = 2;
  constexpr VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  memory.memoryTypes[0] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | host, 0};
  memory.memoryTypes[1] = {host, 1};
  memory.memoryTypeCount = 2;
  if (auto* budget = static_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(answer->pNext)) {
    budget->heapBudget[0] = budget->heapUsage[0] = 256U << 20;
    budget->heapBudget[1] = memory.memoryHeaps[1].size;
    budget->heapUsage[1] = 0;
  }
}
VKAPI_ATTR void VKAPI_CALL fake_requirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements* needs) {
  requirements(device, buffer, needs);
  needs->memoryTypeBits = 3;
}
VKAPI_ATTR VkResult VKAPI_CALL fake_allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
  tried.push_back(info->memoryTypeIndex);
  if (info->memoryTypeIndex == 0 && reported != VK_SUCCESS) return reported;
  VkMemoryAllocateInfo real = *info;
  real.memoryTypeIndex = 0;
  return allocate(device, &real, callbacks, memory);
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_device_function(VkDevice device, const char* name) {
  const PFN_vkVoidFunction real = device_function(device, name);
  const std::string_view wanted = name;
  if (wanted == "vkGetBufferMemoryRequirements") {
    requirements = reinterpret_cast<PFN_vkGetBufferMemoryRequirements>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(&fake_requirements);
  }
  if (wanted != "vkAllocateMemory") return real;
  allocate = reinterpret_cast<PFN_vkAllocateMemory>(real);
  return reinterpret_cast<PFN_vkVoidFunction>(&fake_allocate);
}

std::shared_ptr<vulkan::detail::device_state> open(bool has_budget, VkResult result) {
  auto owner = std::make_shared<vulkan::detail::instance>(false, log_sink{});
  for (const VkPhysicalDevice physical : owner->physical_devices()) {
    vulkan::device_facts facts = vulkan::detail::query_facts(*owner, physical, 0);
    if (facts.driver_id != 13) continue;  // Mesa's llvmpipe: one memory type, host-visible
    facts.has_memory_budget = has_budget;
    memory_properties = std::exchange(owner->call.GetPhysicalDeviceMemoryProperties2, &fake_memory_properties);
    device_function = std::exchange(owner->call.GetDeviceProcAddr, &fake_device_function);
    reported = result;
    auto state = std::make_shared<vulkan::detail::device_state>();
    state->open(owner, physical, facts, 4096);
    tried.clear();
    return state;
  }
  return nullptr;
}

}  // namespace full_window

TEST(vulkan_full_window, mapped_memory_falls_back_to_plain_host_memory) {
  using vulkan::detail::memory_use;
  const auto expect_mapped = [](bool has_budget, VkResult result, const std::vector<std::uint32_t>& tried) {
    const auto state = full_window::open(has_budget, result);
    if (state == nullptr) GTEST_SKIP() << "made of the software device, which is not here";
    vulkan::detail::raw_buffer made =
        state->create_buffer(4096, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, memory_use::mapped);
    EXPECT_NE(made.mapped, nullptr);
    EXPECT_EQ(full_window::tried, tried);
    state->destroy_buffer(made);
    std::string text;
    const auto beyond = [&] {
      (void)state->create_buffer(4096, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, memory_use::device_local);
    };
    EXPECT_EQ(thrown_by(beyond, &text), error_category::out_of_memory) << "only the window is device-local";
    EXPECT_NE(text.find("heap 0"), std::string::npos) << text;
  };
  expect_mapped(true, VK_SUCCESS, {1});                         // the budget says it is full
  expect_mapped(false, VK_ERROR_OUT_OF_DEVICE_MEMORY, {0, 1});  // the driver says so
}

TEST_F(vulkan_memory, allocations_beyond_the_devices_number_are_refused_and_given_back) {
  vulkan::device_facts most = gpu->facts();
  most.max_allocations = 4;  // one of them is the staging ring
  open({.at_most = most});
  std::vector<vulkan::buffer> held;
  for (int i = 0; i < 3; ++i) held.push_back(gpu->allocate(64));
  std::string text;
  EXPECT_EQ(thrown_by([&] { (void)gpu->allocate(64); }, &text), error_category::out_of_memory);
  EXPECT_NE(text.find("4 allocations"), std::string::npos) << text;
  held.pop_back();
  EXPECT_TRUE(gpu->allocate(64));
}

}  // namespace
}  // namespace meganeura::test
