// SPDX-License-Identifier: MIT
// Recorded once, replayed often: order, barriers, timestamps, and arguments checked while recording.
#include "vulkan_support.hpp"

#include <meganeura/spirv/by_address.hpp>
#include <meganeura/vulkan/device_state.hpp>

#include <algorithm>
#include <functional>
#include <tuple>

namespace meganeura::test {
namespace {

class vulkan_recording : public vulkan_fixture {};

std::vector<std::uint32_t> advanced(std::vector<std::uint32_t> state, int times) {
  for (int t = 0; t < times; ++t) {
    for (std::uint32_t i = 0; i < state.size(); ++i) state[i] = state[i] * 3 + i;
  }
  return state;
}

TEST_F(vulkan_recording, dispatches_see_each_others_results_across_a_barrier) {
  const std::vector<vulkan::pipeline> made =
      gpu->create_pipelines(std::vector{scale_kernel(2.0F, 1.0F), scale_kernel(10.0F, 0.0F)});
  const vulkan::buffer memory = gpu->allocate(3 * 4096);
  std::vector<float> input(1024);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i);
  gpu->upload(memory, 0, input);
  vulkan::recorder commands(*gpu);
  commands.dispatch(made[0], {{memory, 0, 4096}, {memory, 4096, 4096}}, {16, 1, 1});
  commands.barrier();
  commands.dispatch(made[1], {{memory, 4096, 4096}, {memory, 8192, 4096}}, {16, 1, 1});
  gpu->submit(commands.finish());
  const std::vector<float> result = read<float>(memory, 8192, 1024);
  for (std::size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], (2.0F * input[i] + 1.0F) * 10.0F) << i;
}

TEST_F(vulkan_recording, a_hundred_replays_run_in_order_and_make_nothing_new) {
  const vulkan::pipeline advance = gpu->create_pipeline(advance_kernel());
  const vulkan::buffer memory = gpu->allocate(4096);
  const std::vector<std::uint32_t> start(1024, 1);
  gpu->upload(memory, 0, start);
  vulkan::recorder commands(*gpu);
  commands.dispatch(advance, {{memory}}, {16, 1, 1});
  const vulkan::recording step = commands.finish();
  EXPECT_EQ(step.dispatch_count(), 1U);
  vulkan::device_counters expected = gpu->counters();
  std::uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t value = gpu->submit(step);
    EXPECT_GT(value, last);
    last = value;
  }
  gpu->wait(last);
  expected.submissions += 100;
  EXPECT_EQ(gpu->counters(), expected);
  EXPECT_EQ(read<std::uint32_t>(memory, 0, 1024), advanced(start, 100));
}

TEST_F(vulkan_recording, what_a_copy_wrote_is_seen_two_barriers_later) {
  const vulkan::pipeline scale = gpu->create_pipeline(scale_kernel(3.0F, 1.0F));
  const vulkan::buffer memory = gpu->allocate(4 * 256);
  gpu->upload(memory, 0, std::vector<float>(64, 2.0F));
  vulkan::recorder commands(*gpu);
  commands.copy({memory, 0, 256}, {memory, 256, 256});
  commands.barrier();
  commands.dispatch(scale, {{memory, 0, 256}, {memory, 512, 256}}, {1, 1, 1});
  commands.barrier();
  commands.dispatch(scale, {{memory, 256, 256}, {memory, 768, 256}}, {1, 1, 1});
  commands.barrier();
  commands.copy({memory, 512, 256}, {memory, 256, 256});
  commands.barrier();  // nothing follows
  gpu->submit(commands.finish());
  EXPECT_EQ(read<float>(memory, 256, 64), std::vector<float>(64, 7.0F));
  EXPECT_EQ(read<float>(memory, 768, 64), std::vector<float>(64, 7.0F));
}

TEST_F(vulkan_recording, uploads_between_replays_land_between_them) {
  const vulkan::pipeline scale = gpu->create_pipeline(scale_kernel(2.0F, 0.0F));
  const vulkan::buffer memory = gpu->allocate(512);
  vulkan::recorder commands(*gpu);
  commands.dispatch(scale, {{memory, 0, 256}, {memory, 256, 256}}, {1, 1, 1});
  const vulkan::recording step = commands.finish();
  std::vector<vulkan::read_back_ticket> tickets;
  for (int i = 0; i < 20; ++i) {
    gpu->upload(memory, 0, std::vector<float>(64, static_cast<float>(i)));
    gpu->submit(step);
    tickets.push_back(gpu->read_back(memory, 256, 4));
  }
  for (int i = 0; i < 20; ++i) {
    float value = 0;
    std::memcpy(&value, tickets[static_cast<std::size_t>(i)].data().data(), sizeof value);
    EXPECT_EQ(value, 2.0F * static_cast<float>(i));
  }
}

TEST_F(vulkan_recording, fills_and_copies_reach_exactly_their_ranges) {
  const vulkan::buffer memory = gpu->allocate(256);
  vulkan::recorder commands(*gpu);
  commands.fill({memory}, 1);
  commands.barrier();
  commands.fill({memory, 16, 32}, 7);
  commands.barrier();
  commands.copy({memory, 16, 32}, {memory, 128, 32});
  gpu->submit(commands.finish());
  std::vector<std::uint32_t> expected(64, 1);
  std::fill_n(expected.begin() + 4, 8, 7);
  std::fill_n(expected.begin() + 32, 8, 7);
  EXPECT_EQ(read<std::uint32_t>(memory, 0, 64), expected);
}

TEST_F(vulkan_recording, texel_buffers_read_the_range_they_are_bound_to) {
  const vulkan::pipeline sum = gpu->create_pipeline(texel_sum_kernel());
  const vulkan::buffer memory = gpu->allocate(8192);
  std::vector<float> values(512);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  gpu->upload(memory, 0, values);
  vulkan::recorder commands(*gpu);
  commands.dispatch(sum, {{memory, 0, 1024}, {memory, 4096, 256}}, {1, 1, 1});
  commands.dispatch(sum, {{memory, 1024, 1024}, {memory, 4352, 256}}, {1, 1, 1});
  gpu->submit(commands.finish());
  const std::vector<float> result = read<float>(memory, 4096, 128);
  for (std::size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], static_cast<float>(16 * i + 6)) << i;
}

TEST_F(vulkan_recording, timestamps_name_each_dispatch_and_grow_with_its_work) {
  if (gpu->facts().timestamp_bits == 0) GTEST_SKIP() << "this queue has no timestamps";
  const vulkan::pipeline advance = gpu->create_pipeline(advance_kernel());
  const vulkan::buffer memory = gpu->allocate(64 << 20);
  vulkan::recorder commands(*gpu, {.timestamps = true});
  commands.dispatch(advance, {{memory, 0, 256}}, {1, 1, 1}, "small");
  commands.dispatch(advance, {{memory}}, {65535, 1, 1}, "large");
  commands.dispatch(advance, {{memory, 0, 256}}, {1, 1, 1});
  const vulkan::recording step = commands.finish();
  EXPECT_EQ(thrown_by([&] { (void)step.timings(); }), error_category::invalid_argument) << "not submitted yet";
  for (int i = 0; i < 3; ++i) gpu->submit(step);
  const std::vector<vulkan::timing> timings = step.timings();
  ASSERT_EQ(timings.size(), 3U);
  EXPECT_EQ(timings[0].label, "small");
  EXPECT_EQ(timings[1].label, "large");
  EXPECT_EQ(timings[2].label, "advance");
  EXPECT_EQ(timings[1].kernel, "advance");
  EXPECT_GT(timings[1].nanoseconds, 0.0);
  EXPECT_GT(timings[1].nanoseconds, timings[2].nanoseconds);
  vulkan::recorder plain(*gpu);
  EXPECT_EQ(thrown_by([r = plain.finish()] { (void)r.timings(); }), error_category::invalid_argument);
}

TEST_F(vulkan_recording, its_duration_is_no_less_than_the_longest_of_its_dispatches) {
  if (gpu->facts().timestamp_bits == 0) GTEST_SKIP() << "this queue has no timestamps";
  const vulkan::pipeline advance = gpu->create_pipeline(advance_kernel());
  const vulkan::buffer memory = gpu->allocate(1 << 20);
  const auto record = [&](vulkan::recording_options options, int times) {
    vulkan::recorder commands(*gpu, options);
    for (int i = 0; i < times; ++i) {
      commands.dispatch(advance, {{memory}}, {4096, 1, 1});
      commands.barrier();
    }
    return commands.finish();
  };
  const vulkan::recording both = record({.timestamps = true, .duration = true}, 3);
  gpu->submit(both);
  double longest = 0;
  for (const vulkan::timing& each : both.timings()) longest = std::max(longest, each.nanoseconds);
  EXPECT_GT(longest, 0);
  EXPECT_GE(both.duration(), longest);
  const vulkan::recording whole = record({.duration = true}, 20), untimed = record({}, 1);
  EXPECT_EQ(thrown_by([&] { (void)whole.duration(); }), error_category::invalid_argument) << "not submitted yet";
  gpu->submit(whole);
  EXPECT_GT(whole.duration(), 0);
  EXPECT_EQ(thrown_by([&] { (void)whole.timings(); }), error_category::invalid_argument);
  gpu->submit(untimed);
  EXPECT_EQ(thrown_by([&] { (void)untimed.duration(); }), error_category::invalid_argument);
}

TEST_F(vulkan_recording, each_group_has_a_time_as_it_follows_the_one_before) {
  if (gpu->facts().timestamp_bits == 0) GTEST_SKIP() << "this queue has no timestamps";
  const vulkan::pipeline advance = gpu->create_pipeline(advance_kernel());
  const vulkan::buffer memory = gpu->allocate(64 << 20);
  vulkan::recorder commands(*gpu, {.timestamps = true, .group_timestamps = true, .duration = true});
  commands.dispatch(advance, {{memory, 0, 256}}, {1, 1, 1});
  commands.barrier();
  commands.dispatch(advance, {{memory}}, {65535, 1, 1});
  commands.dispatch(advance, {{memory}}, {65535, 1, 1});
  commands.barrier();
  commands.barrier();
  const vulkan::recording step = commands.finish();
  EXPECT_EQ(thrown_by([&] { (void)step.group_times(); }), error_category::invalid_argument) << "not submitted yet";
  gpu->submit(step);
  const std::vector<double> times = step.group_times();
  ASSERT_EQ(times.size(), 3U) << "two barriers in a row are one";
  const std::vector<vulkan::timing> dispatches = step.timings();
  EXPECT_GT(times[1], dispatches[1].nanoseconds + dispatches[2].nanoseconds);
  EXPECT_LT(times[2], times[1]);
  EXPECT_LE(times[0] + times[1] + times[2], step.duration());
  vulkan::recorder plain(*gpu, {.timestamps = true});
  plain.dispatch(advance, {{memory, 0, 256}}, {1, 1, 1});
  const vulkan::recording without = plain.finish();
  gpu->submit(without);
  EXPECT_EQ(thrown_by([&] { (void)without.group_times(); }), error_category::invalid_argument);
}

TEST_F(vulkan_recording, it_keeps_what_it_uses_alive) {
  vulkan::recording step;
  vulkan::read_back_ticket ticket;
  {
    const vulkan::buffer memory = gpu->allocate(256);
    gpu->upload(memory, 0, std::vector<std::uint32_t>(64, 1));
    vulkan::recorder commands(*gpu);
    commands.dispatch(gpu->create_pipeline(advance_kernel()), {{memory}}, {1, 1, 1});
    step = commands.finish();
    gpu->submit(step);
    ticket = gpu->read_back(memory);
  }
  gpu->submit(step);
  std::uint32_t second = 0;
  std::memcpy(&second, ticket.data().data() + 4, sizeof second);
  EXPECT_EQ(second, 4U);
  step = {};  // while it may still run
}

TEST_F(vulkan_recording, the_recorder_starts_over_after_finish) {
  const vulkan::pipeline advance = gpu->create_pipeline(advance_kernel());
  const vulkan::buffer memory = gpu->allocate(256);
  vulkan::recorder commands(*gpu);
  commands.dispatch(advance, {{memory}}, {1, 1, 1});
  EXPECT_EQ(commands.finish().dispatch_count(), 1U);
  EXPECT_EQ(commands.finish().dispatch_count(), 0U);
}

TEST_F(vulkan_recording, arguments_are_checked_as_they_come) {
  const vulkan::pipeline advance = gpu->create_pipeline(advance_kernel());
  const vulkan::pipeline sum = gpu->create_pipeline(texel_sum_kernel());
  const vulkan::buffer memory = gpu->allocate(1024);
  const vulkan::device other({.disk_cache = false});
  const vulkan::buffer foreign = other.allocate(256);
  vulkan::recorder commands(*gpu);
  const auto refused = error_category::invalid_argument;
  struct mistake {
    const char* sentence;  // a part of it
    std::function<void()> make;
  };
  const mistake mistakes[] = {
      {"\"advance\" was given 0 bindings and kernel \"advance\" has 1",
       [&] {
         commands.dispatch(advance, {}, {1, 1, 1});
       }},
      {"\"advance\" was given 2 bindings and kernel \"advance\" has 1",
       [&] {
         commands.dispatch(advance, {{memory}, {memory}}, {1, 1, 1});
       }},
      {"an empty pipeline handle was dispatched",
       [&] {
         commands.dispatch({}, {{memory}}, {1, 1, 1});
       }},
      {"an empty pipeline handle was asked for its name", [&] { (void)vulkan::pipeline().name(); }},
      {"\"advance\" is launched with no workgroup on axis 1; leave it out",
       [&] {
         commands.dispatch(advance, {{memory}}, {1, 0, 1});
       }},
      {"a binding of \"advance\" was given an empty buffer handle",
       [&] {
         commands.dispatch(advance, {{vulkan::buffer()}}, {1, 1, 1});
       }},
      {"a binding of \"advance\" starts at byte 1 and ",
       [&] {
         commands.dispatch(advance, {{memory, 1, 256}}, {1, 1, 1});
       }},
      {"a binding of \"advance\" asks for 2048 bytes at offset 0 of a buffer of 1024 bytes; stay inside it",
       [&] {
         commands.dispatch(advance, {{memory, 0, 2048}}, {1, 1, 1});
       }},
      {"a binding of \"advance\" belongs to device ",
       [&] {
         commands.dispatch(advance, {{foreign}}, {1, 1, 1});
       }},
      {"a binding of \"texel_sum\" is a texel buffer of 24 bytes; its size has to be a multiple of 16",
       [&] {
         commands.dispatch(sum, {{memory, 0, 24}, {memory, 256, 256}}, {1, 1, 1});
       }},
      {"a binding of \"texel_sum\" starts at byte 4 and ",
       [&] {
         commands.dispatch(sum, {{memory, 4, 16}, {memory, 256, 256}}, {1, 1, 1});
       }},
      {"a copy of 64 bytes from 0 to 32 of one buffer overlaps itself",
       [&] {
         commands.copy({memory, 0, 64}, {memory, 32, 64});
       }},
      {"use objects of one device together", [&] { commands.copy({foreign}, {memory}); }},
      {"a fill covers 8 bytes at offset 2; both have to be multiples of 4",
       [&] {
         commands.fill({memory, 2, 8}, 0);
       }},
      {"a fill covers 6 bytes at offset 0; both have to be multiples of 4",
       [&] {
         commands.fill({memory, 0, 6}, 0);
       }},
      {"an empty recording handle was submitted", [&] { gpu->submit(vulkan::recording()); }},
      {"a recording was submitted to another device", [&] { other.submit(vulkan::recorder(*gpu).finish()); }},
      {"an empty read-back ticket was asked whether it is ready", [] { (void)vulkan::read_back_ticket().ready(); }},
      {"an empty read-back ticket was waited for", [] { (void)vulkan::read_back_ticket().data(); }},
      {"timings were asked of a recording that has none; record with recording_options::timestamps",
       [] { (void)vulkan::recording().timings(); }},
      {" was waited for and the last submitted is ", [&] { gpu->wait(1U << 30); }},
      {"a buffer of 0 bytes was asked of ", [&] { (void)gpu->allocate(0); }},
  };
  for (const mistake& tried : mistakes) {
    std::string text = "no error";
    EXPECT_EQ(thrown_by(tried.make, &text), refused) << tried.sentence;
    EXPECT_NE(text.find(tried.sentence), std::string::npos) << text;
  }
  const std::uint32_t most = gpu->facts().max_workgroup_count[0];
  if (most < 0xFFFFFFFFU) {
    std::string text;
    EXPECT_EQ(thrown_by(
                  [&] {
                    commands.dispatch(advance, {{memory}}, {most + 1, 1, 1});
                  },
                  &text),
              error_category::unsupported);
    EXPECT_NE(text.find("fold the grid"), std::string::npos) << text;
  }
  EXPECT_EQ(commands.finish().dispatch_count(), 0U) << "a refused command leaves no trace";
}

TEST_F(vulkan_recording, a_binding_past_the_storage_limit_is_refused) {
  const vulkan::pipeline advance = gpu->create_pipeline(advance_kernel());
  gpu->state()->facts.max_storage_range = 512;  // the real limit may be all of memory
  const vulkan::buffer memory = gpu->allocate(1024);
  vulkan::recorder commands(*gpu);
  EXPECT_EQ(thrown_by([&] { commands.dispatch(advance, {{memory}}, {1, 1, 1}); }), error_category::unsupported);
  commands.dispatch(advance, {{memory, 0, 512}}, {1, 1, 1});
  EXPECT_EQ(commands.finish().dispatch_count(), 1U);
}

// Some bindings by address, in any place; what is bound changes from dispatch to dispatch of one pipeline.
TEST_F(vulkan_recording, what_a_descriptor_does_not_cover_is_reached_by_address) {
  vulkan::device_facts less = gpu->facts();
  less.max_storage_range = 512;
  const spirv::module scale = scale_kernel(2.0F, 1.0F);
  for (const auto& [first, second, sets] : {std::tuple{true, true, false},
                                            {true, false, false},
                                            {false, true, false},
                                            {true, true, true},
                                            {true, false, true}}) {
    if (sets) less.max_push_descriptors = 0;
    open({.at_most = less});
    const vulkan::pipeline made = gpu->create_pipeline(spirv::reach_by_address(scale, {first, second}));
    const vulkan::buffer memory = gpu->allocate(3072);
    std::vector<float> input(768, -1.0F);
    for (std::size_t i = 0; i < 256; ++i) input[i] = static_cast<float>(i);
    gpu->upload(memory, 0, input);
    const auto range = [&](std::uint64_t offset) { return vulkan::buffer_range{memory, offset, 512}; };
    vulkan::recorder commands(*gpu);
    commands.dispatch(made, {range(0), range(1024)}, {2, 1, 1});
    commands.dispatch(made, {range(512), range(1536)}, {2, 1, 1});
    gpu->submit(commands.finish());
    const std::vector<float> found = read<float>(memory, 0, 768);
    for (std::size_t i = 0; i < 256; ++i) ASSERT_EQ(found[256 + i], 2.0F * input[i] + 1.0F) << i;
    for (std::size_t i = 512; i < 768; ++i) ASSERT_EQ(found[i], -1.0F) << i;
  }
}

TEST_F(vulkan_recording, a_binding_by_address_has_one_and_is_aligned) {
  vulkan::device_facts less = gpu->facts();
  less.max_storage_range = 512;
  open({.at_most = less});
  const vulkan::pipeline advance = gpu->create_pipeline(spirv::reach_by_address(advance_kernel(), {true}));
  const vulkan::buffer small = gpu->allocate(512), large = gpu->allocate(1024);
  vulkan::recorder commands(*gpu);
  std::string text;
  EXPECT_EQ(thrown_by(
                [&] {
                  commands.dispatch(advance, {{small}}, {1, 1, 1});
                },
                &text),
            error_category::invalid_argument);
  EXPECT_NE(text.find("its buffer of 512 bytes has none"), std::string::npos) << text;
  EXPECT_EQ(thrown_by(
                [&] {
                  commands.dispatch(advance, {{large, 8, 256}}, {1, 1, 1});
                },
                &text),
            error_category::invalid_argument);
  EXPECT_NE(text.find("needs multiples of 16"), std::string::npos) << text;
  commands.dispatch(advance, {{large, 16, 256}}, {1, 1, 1});
  EXPECT_EQ(commands.finish().dispatch_count(), 1U);
}

TEST_F(vulkan_recording, specialization_constants_reach_the_kernel) {
  // clang-format off
  // From: layout(local_size_x = 1) in; layout(constant_id = 0) const uint a = 0;
  //       layout(constant_id = 1) const uint b = 0;
  //       layout(std430, set = 0, binding = 0) buffer y_buffer { uint y[]; }; void main() { y[0] = a; y[1] = b; }
  spirv::module kernel;
  kernel.name = "constants";
  kernel.bindings = {spirv::binding_kind::storage_buffer};
  kernel.specialization = {1234, 5678};
  kernel.words = {
      0x07230203, 0x00010300, 0, 32, 0,
      0x00020011, 1,                                         // OpCapability Shader
      0x0003000E, 0, 1,                                      // OpMemoryModel Logical GLSL450
      0x0005000F, 5, 1, 0x6E69616D, 0,                       // OpEntryPoint GLCompute %1 "main"
      0x00060010, 1, 17, 1, 1, 1,                            // OpExecutionMode %1 LocalSize 1 1 1
      0x00040047, 4, 1, 0, 0x00040047, 5, 1, 1,              // SpecId 0, SpecId 1
      0x00040047, 6, 6, 4,                                   // ArrayStride 4
      0x00030047, 7, 2, 0x00050048, 7, 0, 35, 0,             // Block, Offset 0
      0x00040047, 9, 34, 0, 0x00040047, 9, 33, 0,            // DescriptorSet 0, Binding 0
      0x00020013, 2, 0x00030021, 10, 2,                      // void, void()
      0x00040015, 3, 32, 0,                                  // %3 = uint
      0x00040032, 3, 4, 0, 0x00040032, 3, 5, 0,              // OpSpecConstant %4, %5
      0x0004002B, 3, 11, 0, 0x0004002B, 3, 12, 1,            // %11 = 0, %12 = 1
      0x0003001D, 6, 3, 0x0003001E, 7, 6,                    // runtime array, struct
      0x00040020, 8, 12, 7, 0x0004003B, 8, 9, 12,            // pointer, variable in StorageBuffer
      0x00040020, 13, 12, 3,                                 // pointer to uint
      0x00050036, 2, 1, 0, 10, 0x000200F8, 14,               // OpFunction, OpLabel
      0x00060041, 13, 15, 9, 11, 11, 0x0003003E, 15, 4,      // y[0] = a
      0x00060041, 13, 16, 9, 11, 12, 0x0003003E, 16, 5,      // y[1] = b
      0x000100FD, 0x00010038};
  // clang-format on
  const vulkan::buffer memory = gpu->allocate(16);
  vulkan::recorder commands(*gpu);
  commands.dispatch(gpu->create_pipeline(kernel), {{memory}}, {1, 1, 1});
  gpu->submit(commands.finish());
  EXPECT_EQ(read<std::uint32_t>(memory, 0, 2), (std::vector<std::uint32_t>{1234, 5678}));
}

}  // namespace
}  // namespace meganeura::test
