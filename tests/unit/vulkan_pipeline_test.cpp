// SPDX-License-Identifier: MIT
// Limits checked before a pipeline is made, creation in parallel, and a cache on disk that is never believed blindly.
#include "vulkan_support.hpp"

#include <meganeura/vulkan/pipeline_state.hpp>

#include <fstream>
#include <iterator>
#include <utility>

namespace meganeura::test {
namespace {

class vulkan_pipeline : public vulkan_fixture {
 protected:
  /// Runs y = kernel(x) on 64 values of x = 2 and returns y[5].
  [[nodiscard]] float run(const vulkan::pipeline& kernel) const {
    const vulkan::buffer memory = gpu->allocate(512);
    gpu->upload(memory, 0, std::vector<float>(64, 2.0F));
    vulkan::recorder commands(*gpu);
    commands.dispatch(kernel, {{memory, 0, 256}, {memory, 256, 256}}, {1, 1, 1});
    gpu->submit(commands.finish());
    return read<float>(memory, 256 + 5 * 4, 1)[0];
  }
  void expect_refused(const spirv::module& kernel, const char* reason) const {
    std::string text;
    EXPECT_EQ(thrown_by([&] { (void)gpu->create_pipeline(kernel); }, &text), error_category::unsupported);
    EXPECT_NE(text.find(reason), std::string::npos) << text;
    EXPECT_NE(text.find("kernel \"" + kernel.name + "\" cannot run on "), std::string::npos) << text;
    EXPECT_NE(text.find("generate it for this device's facts"), std::string::npos) << text;
    EXPECT_EQ(gpu->counters().pipelines, 0U);
  }
};

TEST_F(vulkan_pipeline, many_are_created_in_order) {
  open({.threads = 4});
  std::vector<spirv::module> kernels;
  for (int i = 0; i < 12; ++i) kernels.push_back(scale_kernel(static_cast<float>(i), 1.0F));
  const std::vector<vulkan::pipeline> made = gpu->create_pipelines(kernels);
  ASSERT_EQ(made.size(), 12U);
  EXPECT_EQ(gpu->counters().pipelines, 12U);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(run(made[i]), 2.0F * static_cast<float>(i) + 1.0F);
}

TEST_F(vulkan_pipeline, a_kernel_past_a_limit_is_refused_before_it_is_made) {
  const vulkan::device_facts& facts = gpu->facts();
  const spirv::module good = scale_kernel(1.0F, 0.0F);
  EXPECT_EQ(vulkan::reason_to_refuse(facts, good), "");

  spirv::module bad = good;
  bad.shared_bytes = facts.max_shared_bytes + 1;
  expect_refused(bad, "shared memory");
  bad = good;
  bad.local_size = {facts.max_workgroup_size[0] + 1, 1, 1};
  expect_refused(bad, "workgroup size");
  bad = good;
  bad.local_size = {facts.max_workgroup_size[0], facts.max_workgroup_size[1], 1};
  expect_refused(bad, "invocations");
  bad = good;
  bad.local_size = {0, 1, 1};
  expect_refused(bad, "workgroup size");
  bad = good;
  bad.subgroup_size = 3;
  expect_refused(bad, "subgroups of 3");
  bad = good;
  bad.bindings.resize(facts.max_storage_buffers + 1, spirv::binding_kind::storage_buffer);
  expect_refused(bad, "storage");
  bad = good;
  bad.words.resize(3);
  expect_refused(bad, "SPIR-V");
  bad = good;
  bad.words[1] = 0x10700;
  expect_refused(bad, "1.7");
}

TEST_F(vulkan_pipeline, a_kernel_that_needs_what_the_device_lacks_is_refused) {
  vulkan::device_facts poor = gpu->facts();
  poor.has_f16 = false;
  poor.has_cooperative_matrix = false;
  poor.subgroup_operations = spirv::subgroup_basic | spirv::subgroup_arithmetic;
  spirv::module kernel = scale_kernel(1.0F, 0.0F);
  EXPECT_EQ(vulkan::reason_to_refuse(poor, kernel), "");
  kernel.needs_f16 = true;
  EXPECT_NE(vulkan::reason_to_refuse(poor, kernel), "");
  kernel.needs_f16 = false;
  poor.has_16bit_storage = false;
  kernel.needs_16bit_storage = true;
  EXPECT_NE(vulkan::reason_to_refuse(poor, kernel), "");
  kernel.needs_16bit_storage = false;
  poor.has_8bit_storage = false;
  kernel.needs_8bit_storage = true;
  EXPECT_EQ(vulkan::reason_to_refuse(poor, kernel), "it needs 8-bit loads and stores");
  kernel.needs_8bit_storage = false;
  poor.has_int8 = poor.has_int16 = poor.has_bf16 = false;
  for (const auto need : {&spirv::module::needs_int8, &spirv::module::needs_int16, &spirv::module::needs_bf16}) {
    kernel.*need = true;
    EXPECT_NE(vulkan::reason_to_refuse(poor, kernel), "");
    kernel.*need = false;
  }
  poor.has_workgroup_layout = false;
  kernel.needs_workgroup_layout = true;
  EXPECT_NE(vulkan::reason_to_refuse(poor, kernel), "");
  kernel.needs_workgroup_layout = false;
  poor.has_device_scope = false;
  kernel.needs_device_scope = true;
  EXPECT_EQ(vulkan::reason_to_refuse(poor, kernel), "it needs atomics of device scope");
  kernel.needs_device_scope = false;
  kernel.needs_cooperative_matrix = true;
  EXPECT_NE(vulkan::reason_to_refuse(poor, kernel), "");
  poor.has_cooperative_matrix = true;
  poor.has_memory_model = true;
  EXPECT_EQ(vulkan::reason_to_refuse(poor, kernel), "");
  kernel.subgroup_operations = spirv::subgroup_arithmetic;
  EXPECT_EQ(vulkan::reason_to_refuse(poor, kernel), "");
  kernel.subgroup_operations = spirv::subgroup_arithmetic | spirv::subgroup_shuffle;
  EXPECT_NE(vulkan::reason_to_refuse(poor, kernel), "");
  kernel.subgroup_operations = spirv::subgroup_ballot;
  EXPECT_EQ(vulkan::reason_to_refuse(poor, kernel), "it needs ballots among the operations of subgroups");
  kernel.subgroup_operations = 0;
  poor.has_subgroup_extended_types = false;
  kernel.needs_subgroup_extended_types = true;
  EXPECT_NE(vulkan::reason_to_refuse(poor, kernel), "");
}

TEST_F(vulkan_pipeline, a_subgroup_size_is_granted_only_within_the_devices_range) {
  vulkan::device_facts facts = gpu->facts();
  facts.subgroup_size = 32;
  facts.min_subgroup_size = 16;
  facts.max_subgroup_size = 64;
  spirv::module kernel = scale_kernel(1.0F, 0.0F);
  facts.has_subgroup_size_control = true;
  for (const std::uint32_t size : {16U, 32U, 64U}) {
    kernel.subgroup_size = size;
    EXPECT_EQ(vulkan::reason_to_refuse(facts, kernel), "") << size;
  }
  for (const std::uint32_t size : {8U, 24U, 128U}) {
    kernel.subgroup_size = size;
    EXPECT_NE(vulkan::reason_to_refuse(facts, kernel), "") << size;
  }
  facts.has_subgroup_size_control = false;
  kernel.subgroup_size = 32;
  EXPECT_NE(vulkan::reason_to_refuse(facts, kernel), "") << "the default may vary and there is no way to ask for 32";
}

TEST_F(vulkan_pipeline, runs_with_the_required_subgroup_size) {
  spirv::module kernel = scale_kernel(4.0F, 1.0F);
  kernel.subgroup_size = gpu->facts().max_subgroup_size;
  EXPECT_EQ(run(gpu->create_pipeline(kernel)), 9.0F);
}

// A device that tells what pipelines ask of it, and a driver of Vulkan 1.2 that does not tell its subgroups' sizes.
namespace subgroups {

PFN_vkGetPhysicalDeviceProperties2 properties;
PFN_vkCreateComputePipelines create;
VkPipelineShaderStageCreateFlags asked = 0;

VKAPI_ATTR void VKAPI_CALL silent_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* answer) {
  properties(device, answer);
  for (auto* next = static_cast<VkBaseOutStructure*>(answer->pNext); next != nullptr; next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
      auto* sizes = reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlProperties*>(next);
      sizes->minSubgroupSize = sizes->maxSubgroupSize = 0;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES) {
      auto* sizes = reinterpret_cast<VkPhysicalDeviceVulkan13Properties*>(next);
      sizes->minSubgroupSize = sizes->maxSubgroupSize = 0;
    }
  }
}
VKAPI_ATTR VkResult VKAPI_CALL noted_create(VkDevice device, VkPipelineCache cache, std::uint32_t count,
                                            const VkComputePipelineCreateInfo* infos,
                                            const VkAllocationCallbacks* callbacks, VkPipeline* made) {
  asked = infos->stage.flags;
  return create(device, cache, count, infos, callbacks, made);
}

}  // namespace subgroups

TEST_F(vulkan_pipeline, whole_subgroups_are_asked_for_where_a_kernel_needs_them) {
  auto owner = std::make_shared<vulkan::detail::instance>(false, log_sink{});
  const std::uint32_t index = gpu->facts().index;
  auto state = std::make_shared<vulkan::detail::device_state>();
  state->open(owner, owner->physical_devices().at(index), gpu->facts(), 4096);
  subgroups::create = std::exchange(state->call.CreateComputePipelines, &subgroups::noted_create);
  spirv::module kernel = scale_kernel(4.0F, 1.0F);
  (void)vulkan::detail::create_pipeline(state, kernel);
  EXPECT_EQ(subgroups::asked & VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT, 0U);
  kernel.subgroup_size = gpu->facts().max_subgroup_size;
  (void)vulkan::detail::create_pipeline(state, kernel);
  EXPECT_NE(subgroups::asked & VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT, 0U);
}

TEST_F(vulkan_pipeline, subgroups_of_a_driver_that_tells_no_sizes_may_have_any) {
  vulkan::detail::instance owner(false, log_sink{});
  subgroups::properties = std::exchange(owner.call.GetPhysicalDeviceProperties2, &subgroups::silent_properties);
  const std::uint32_t index = gpu->facts().index;
  const auto facts = vulkan::detail::query_facts(owner, owner.physical_devices().at(index), index);
  EXPECT_EQ(facts.min_subgroup_size, 1U);
  EXPECT_EQ(facts.max_subgroup_size, facts.subgroup_size);
}

class vulkan_cache : public vulkan_pipeline {
 protected:
  [[nodiscard]] static vulkan::device_facts gpu_facts() {
    const std::vector<vulkan::device_facts> found = vulkan::enumerate_devices();
    const char* wish = std::getenv("MEGANEURA_DEVICE");
    return found[vulkan::choose_device(found, wish == nullptr ? "" : wish)];
  }
  void open_cached() { open({.cache_directory = folder.path().string()}); }
  [[nodiscard]] std::vector<char> file_bytes() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void write_file(const std::vector<char>& bytes) const {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  /// Fills the cache once and closes the device.
  void fill_cache() {
    open_cached();
    path = gpu->cache_file();
    EXPECT_EQ(gpu->cache_origin(), vulkan::pipeline_cache_origin::absent);
    EXPECT_EQ(run(gpu->create_pipeline(scale_kernel(3.0F, 0.0F))), 6.0F);
    EXPECT_EQ(gpu->validation_messages(), 0U);
    gpu.reset();
  }
  void expect_rejected_and_rebuilt(const std::vector<char>& damaged, const std::vector<char>& good) {
    write_file(damaged);
    open_cached();
    EXPECT_EQ(gpu->cache_origin(), vulkan::pipeline_cache_origin::rejected);
    EXPECT_EQ(run(gpu->create_pipeline(scale_kernel(3.0F, 0.0F))), 6.0F);
    gpu->save_pipeline_cache();
    EXPECT_NE(file_bytes(), damaged);
    open_cached();
    EXPECT_EQ(gpu->cache_origin(), vulkan::pipeline_cache_origin::loaded);
    write_file(good);
  }

  temporary_folder folder;
  std::string path;
};

TEST_F(vulkan_cache, is_written_when_the_device_closes_and_read_the_next_time) {
  fill_cache();
  EXPECT_FALSE(file_bytes().empty());
  open_cached();
  EXPECT_EQ(gpu->cache_origin(), vulkan::pipeline_cache_origin::loaded);
  EXPECT_EQ(run(gpu->create_pipeline(scale_kernel(3.0F, 0.0F))), 6.0F);
}

TEST_F(vulkan_cache, no_temporary_file_is_left) {
  fill_cache();
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(vulkan_cache, a_flipped_bit_anywhere_is_noticed) {
  fill_cache();
  const std::vector<char> good = file_bytes();
  const std::size_t step = std::max<std::size_t>(3, good.size() / 4000);  // drivers write up to megabytes
  for (std::size_t at = 0; at < good.size(); at += at < 300 ? 3 : step) {
    std::vector<char> damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_TRUE(vulkan::detail::unpack_cache(std::as_bytes(std::span(damaged)), gpu_facts()).empty()) << at;
  }
  EXPECT_FALSE(vulkan::detail::unpack_cache(std::as_bytes(std::span(good)), gpu_facts()).empty());
}

TEST_F(vulkan_cache, a_damaged_file_is_ignored_and_rebuilt) {
  fill_cache();
  const std::vector<char> good = file_bytes();
  std::vector<char> flipped = good;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  expect_rejected_and_rebuilt(flipped, good);
  expect_rejected_and_rebuilt({good.begin(), good.end() - 1}, good);
  expect_rejected_and_rebuilt({good.begin(), good.begin() + 20}, good);
  expect_rejected_and_rebuilt({}, good);
  std::vector<char> longer = good;
  longer.push_back('x');
  expect_rejected_and_rebuilt(longer, good);
}

TEST_F(vulkan_cache, a_foreign_file_is_ignored) {
  fill_cache();
  const std::vector<char> good = file_bytes();
  vulkan::device_facts other = gpu_facts();
  other.driver_uuid[3] ^= 1;
  EXPECT_TRUE(vulkan::detail::unpack_cache(std::as_bytes(std::span(good)), other).empty());
  EXPECT_NE(vulkan::detail::cache_path(other, "x"), vulkan::detail::cache_path(gpu_facts(), "x"));
  other = gpu_facts();
  ++other.driver_version;
  EXPECT_TRUE(vulkan::detail::unpack_cache(std::as_bytes(std::span(good)), other).empty());
}

TEST_F(vulkan_cache, lives_where_the_environment_says) {
  const vulkan::device_facts facts = gpu_facts();
  const scoped_environment home("HOME", "/somewhere");
  {
    const scoped_environment cache("XDG_CACHE_HOME", "/elsewhere");
    EXPECT_EQ(vulkan::detail::cache_path(facts, "").parent_path(), "/elsewhere/meganeura");
    EXPECT_EQ(vulkan::detail::cache_path(facts, "/chosen").parent_path(), "/chosen");
  }
  const scoped_environment cache("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(vulkan::detail::cache_path(facts, "").parent_path(), "/somewhere/.cache/meganeura");
  const scoped_environment homeless("HOME", nullptr);
  EXPECT_TRUE(vulkan::detail::cache_path(facts, "").empty());
}

TEST_F(vulkan_cache, a_place_that_cannot_be_written_is_an_error_and_no_harm) {
  const std::filesystem::path file = folder.path() / "a file, not a folder";
  std::ofstream(file) << "x";
  open({.cache_directory = (file / "below").string()});
  EXPECT_EQ(run(gpu->create_pipeline(scale_kernel(3.0F, 0.0F))), 6.0F);
  EXPECT_EQ(thrown_by([&] { gpu->save_pipeline_cache(); }), error_category::io);
}

TEST_F(vulkan_cache, can_be_switched_off) {
  open({});
  EXPECT_EQ(gpu->cache_origin(), vulkan::pipeline_cache_origin::off);
  EXPECT_EQ(gpu->cache_file(), "");
}

}  // namespace
}  // namespace meganeura::test
