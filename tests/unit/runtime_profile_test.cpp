// SPDX-License-Identifier: MIT
// What a program tells about its time.
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/program.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace meganeura;

TEST(runtime_profile, a_profile_has_the_labels_of_the_plan) {
  const device& gpu = support::shared_device();
  const symbol_extent symbols[] = {{"batch", 16}};
  const graph g = make_training_graph<support::mlp<8>, cross_entropy<"label">>(adam{}, symbols);
  parameters weights(gpu, g);
  weights.init();
  program run(gpu, g, weights, {.profile = true});
  const std::vector<float> x = support::uniform(16 * 8, 1);
  const std::vector<std::int32_t> labels = support::classes(16, 2);
  run.set_input("x", dtype::f32, std::as_bytes(std::span(x)));
  run.set_input("label", dtype::i32, std::as_bytes(std::span(labels)));
  run.wait(run.submit({.step = 1}));
  std::vector<std::string> planned, timed;
  for (const plan::step& s : run.plan().steps) {
    if (s.kind != plan::step::copy) planned.push_back(plan::label(run.plan(), s));
  }
  for (const vulkan::timing& each : run.profile()) {
    timed.push_back(each.label);
    EXPECT_NE(each.kernel, "");
    EXPECT_NE(each.kernel, each.label);
  }
  EXPECT_EQ(timed, planned);
  EXPECT_NE(std::ranges::find(timed, "fc1: matmul 16x17x8"), timed.end());
}

// Before what may take long, and why; the next process reads what the first one compiled.
TEST(runtime_profile, a_line_says_why_compiling_takes_time_and_where_kernels_are_kept) {
  const support::temporary_folder folder;
  const auto said = [&](vulkan::device_options options) {
    std::string line;
    options.log = [&](log_level, std::string_view text) {
      if (text.starts_with("compiling ")) line = text;
    };
    const device gpu(options);
    const bool software = gpu.facts().type == vulkan::device_type::cpu;
    const symbol_extents sizes{{"batch", 16}};
    const trainer<support::mlp<8>, cross_entropy<"label">> run(gpu, adam{}, sizes);
    EXPECT_NE(line.find(" kernels for " + gpu.facts().name), std::string::npos) << line;
    EXPECT_EQ(line.find("a software device, which does that on the processor") != std::string::npos, software) << line;
    return line;
  };
  const std::string path = folder.path().string();
  EXPECT_NE(said({.cache_directory = path}).find("; the next process reads them from " + path), std::string::npos);
  EXPECT_NE(said({.cache_directory = path}).find("; those that were compiled before come from " + path),
            std::string::npos);
  EXPECT_NE(said({.disk_cache = false}).find("; they are kept nowhere, as the cache on disk is off"),
            std::string::npos);
}

TEST(runtime_profile, the_parts_of_a_build_are_timed_and_logged) {
  std::string said;
  const device gpu({.disk_cache = false, .log = [&](log_level level, std::string_view text) {
                      if (level == log_level::info) said += std::string(text) + '\n';
                    }});
  const symbol_extent symbols[] = {{"batch", 16}};
  const graph g = make_training_graph<support::mlp<8>, cross_entropy<"label">>(adam{}, symbols);
  parameters weights(gpu, g);
  weights.init();
  detail::stopwatch watch;
  optimizer_moments moments;
  program run = detail::make_program(gpu, g, weights, moments, {}, {.trace = 1000, .differentiate = 500});
  const double passed = watch.lap();
  const build_times& times = run.times();
  EXPECT_EQ(times.trace, 1000);
  EXPECT_EQ(times.differentiate, 500);
  EXPECT_LE(times.total() - 1500, passed);
  EXPECT_EQ(times.first_step, 0);
  EXPECT_NE(said.find("dispatches are ready after " + to_line(times)), std::string::npos) << said;
  const std::vector<float> x = support::uniform(16 * 8, 1);
  const std::vector<std::int32_t> label = support::classes(16, 1);
  const auto step = [&] {
    run.submit(kernels::step_values{}, std::array{input_values("x", x), input_values("label", label)});
  };
  watch.lap();
  step();
  EXPECT_LE(times.first_step, watch.lap());
  double sum = 0;
  for (const build_phase& each : build_phases) {
    EXPECT_GT(times.*each.milliseconds, 0) << each.name;
    EXPECT_NE(to_text(times).find(std::string(each.name) + ' '), std::string::npos) << to_text(times);
    EXPECT_NE(said.find(std::string(each.name) + ' '), std::string::npos) << said;
    sum += times.*each.milliseconds;
  }
  EXPECT_EQ(times.total(), sum);
  const double first = times.first_step;
  step();
  EXPECT_EQ(times.first_step, first);
}

TEST(runtime_profile, trainers_and_sessions_count_the_way_to_the_graph) {
  const device& gpu = support::shared_device();
  const trainer<support::mlp<8>, cross_entropy<"label">> run(gpu, adam{}, {{"batch", 16}});
  const session<support::mlp<8>> forward(gpu, run.parameters(), {{"batch", 16}});
  EXPECT_GT(run.program().times().trace, 0);
  EXPECT_GT(run.program().times().differentiate, 0);
  EXPECT_GT(forward.program().times().trace, 0);
  EXPECT_EQ(forward.program().times().differentiate, 0);
}

TEST(runtime_profile, times_are_a_table) {
  const build_times times{.trace = 25, .pipelines = 75};
  EXPECT_EQ(to_text(times).rfind("trace             25.00 ms  25.0 %\ndifferentiate      0.00 ms   0.0 %\n", 0), 0u)
      << to_text(times);
  EXPECT_TRUE(to_text(times).ends_with("total            100.00 ms 100.0 %\n")) << to_text(times);
  EXPECT_EQ(to_line(times).rfind("100.0 ms: trace 25.0, differentiate 0.0, ", 0), 0u) << to_line(times);
}

}  // namespace
