// SPDX-License-Identifier: MIT
// What a program tells about its time.
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/measured_rates.hpp>
#include <meganeura/runtime/program.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace meganeura;

// A training step of 16 rows of 8 numbers, two layers of 17 and 5, run once.
program profiled_step(const device& gpu, const program_options& options) {
  const symbol_extent symbols[] = {{"batch", 16}};
  const graph g = make_training_graph<support::mlp<8>, cross_entropy<"label">>(adam{}, symbols);
  parameters weights(gpu, g);
  weights.init();
  program run(gpu, g, weights, options);
  const std::vector<float> x = support::uniform(16 * 8, 1);
  const std::vector<std::int32_t> labels = support::classes(16, 2);
  run.set_input("x", dtype::f32, std::as_bytes(std::span(x)));
  run.set_input("label", dtype::i32, std::as_bytes(std::span(labels)));
  run.wait(run.submit({.step = 1}));
  return run;
}

TEST(runtime_profile, a_profile_has_the_dispatches_of_the_plan) {
  const program run = profiled_step(support::shared_device(), {.profile = profiling::dispatches});
  std::vector<std::string> planned, timed;
  for (const plan::step& s : run.plan().steps) {
    if (s.kind != plan::step::copy) planned.push_back(plan::label(run.plan(), s));
  }
  double end = 0;
  for (const profiled_dispatch& each : run.profile()) {
    timed.push_back(each.module.empty() ? each.text : each.module + ": " + each.text);
    EXPECT_NE(each.kernel, "");
    EXPECT_NE(each.kernel, each.text);
    EXPECT_EQ(each.schedule, "");
    EXPECT_GE(each.begin, end);
    EXPECT_GT(each.nanoseconds, 0);
    EXPECT_GT(each.bytes, 0u);
    EXPECT_GT(each.floor, 0);
    end = each.begin + each.nanoseconds;
  }
  EXPECT_EQ(run.profile()[0].begin, 0);
  EXPECT_EQ(timed, planned);
  EXPECT_NE(std::ranges::find(timed, "fc1: matmul 16x17x8"), timed.end());
}

TEST(runtime_profile, groups_have_what_their_dispatches_have) {
  const program run = profiled_step(support::shared_device(), {.profile = profiling::groups, .duration = true});
  const step_profile groups = run.profile();
  ASSERT_EQ(groups.size(), run.plan().groups);
  const auto dispatches = detail::dispatches_of(run.plan(), profile_of(support::shared_device()));
  std::vector<std::string> texts(groups.size());
  double flops = 0, begin = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    const std::size_t group = run.plan().steps[i].group;
    texts[group] += dispatches[i].text + "\n", flops += dispatches[i].flops, bytes += dispatches[i].bytes;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i].text.find('\n'), std::string::npos);
    if (texts[i].find('\n') + 1 == texts[i].size()) {
      EXPECT_EQ(groups[i].text + "\n", texts[i]);
    }
    EXPECT_GT(groups[i].nanoseconds, 0);
    EXPECT_EQ(groups[i].begin, begin);
    EXPECT_GT(groups[i].floor, 0);
    begin += groups[i].nanoseconds;
  }
  EXPECT_EQ(groups.total().flops, flops);
  EXPECT_EQ(groups.total().bytes, bytes);
  EXPECT_LE(groups.total().nanoseconds, run.duration()) << "of the whole step, with the copies of inputs";
}

TEST(runtime_profile, kernels_that_a_group_has_twice_are_counted) {
  const device& gpu = support::shared_device();
  graph g;
  const node_id x = g.input("x", dtype::f32, {16, 8}), w = g.parameter("w", dtype::f32, {8, 17});
  const node_id v = g.parameter("v", dtype::f32, {8, 17}), u = g.parameter("u", dtype::f32, {8, 5});
  for (const auto& [name, weight] : {std::pair("y", w), {"z", u}, {"t", v}})
    g.add_output(name, g.contract(x, weight, "mk", "kn", "mn"));
  parameters weights(gpu, g);
  weights.init();
  program run(gpu, g, weights, {.profile = profiling::groups});
  run.wait(run.submit(kernels::step_values{}, std::array{input_values("x", support::uniform(16 * 8, 2))}));
  const step_profile found = run.profile();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text, "2 x matmul 16x17x8 + matmul 16x5x8");
}

// Operands and results as they lie in memory, two operations for each of the 16 x 17 x 8 terms; the floor by the rates
// that kernels are chosen by.
TEST(runtime_profile, a_product_has_its_bytes_its_flops_and_its_floor) {
  const device& gpu = support::shared_device();
  graph g;
  const node_id x = g.input("x", dtype::f32, {16, 8}), w = g.parameter("w", dtype::f32, {8, 17});
  {
    const graph::scope in(g, "layers.3.mlp");
    g.add_output("y", g.contract(x, w, "mk", "kn", "mn"));
  }
  parameters weights(gpu, g);
  weights.set("w", support::uniform(8 * 17, 1));
  program run(gpu, g, weights, {.profile = profiling::dispatches});
  EXPECT_EQ(support::sentence_of([&] { (void)run.profile(); }),
            "profile was read before the first run; run the model first");
  run.wait(run.submit(kernels::step_values{}, std::array{input_values("x", support::uniform(16 * 8, 2))}));
  const step_profile found = run.profile();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].module, "layers.3.mlp");
  EXPECT_EQ(found[0].text, "matmul 16x17x8");
  EXPECT_EQ(found[0].bytes, 4u * (16 * 8 + 8 * 17 + 16 * 17));
  EXPECT_EQ(found[0].flops, 2 * 16 * 17 * 8);
  const device_profile rates = profile_of(gpu);
  EXPECT_DOUBLE_EQ(found[0].floor, 1e9 * std::max(static_cast<double>(found[0].bytes) / rates.bandwidth,
                                                  found[0].flops / rates.matmul_flops));
  EXPECT_DOUBLE_EQ(found[0].percent_of_floor(), 100 * found[0].floor / found[0].nanoseconds);
}

TEST(runtime_profile, a_product_on_matrix_units_says_its_schedule) {
  program_options options{.profile = profiling::dispatches};
  options.optimize.schedule = 0;
  const program run = profiled_step(support::shared_unit_device(), options);
  std::size_t on_units = 0;
  for (const profiled_dispatch& each : run.profile()) {
    if (!each.text.starts_with("matmul")) continue;
    ++on_units;
    EXPECT_TRUE(each.schedule.starts_with("split ")) << each.schedule;
    EXPECT_TRUE(each.text.ends_with(" " + each.schedule)) << each.text;
  }
  EXPECT_EQ(on_units, 5u) << "two products, three gradients";
}

TEST(runtime_profile, a_program_without_dispatches_has_an_empty_profile) {
  const device& gpu = support::shared_device();
  graph g;
  g.add_output("y", g.input("x", dtype::f32, {4}));
  program run(gpu, g, parameters(gpu, g), {.profile = profiling::dispatches});
  run.wait(run.submit(kernels::step_values{}, std::array{input_values("x", support::uniform(4, 2))}));
  EXPECT_TRUE(run.profile().empty());
  EXPECT_EQ(run.profile().total().nanoseconds, 0);
}

TEST(runtime_profile, groups_are_sorted_and_sum_up) {
  const step_profile found = profiled_step(support::shared_device(), {.profile = profiling::dispatches}).profile();
  const profile_row total = found.total();
  EXPECT_EQ(total.count, found.size());
  for (const std::vector<profile_row>& rows :
       {found.by_kernel(), found.by_module(), found.by_module(1), found.by_module(0)}) {
    profile_row sum;
    double last = std::numeric_limits<double>::infinity();
    for (const profile_row& each : rows) {
      EXPECT_LE(each.nanoseconds, last);
      last = each.nanoseconds;
      sum.count += each.count, sum.bytes += each.bytes, sum.share += each.share;
      sum.nanoseconds += each.nanoseconds, sum.flops += each.flops, sum.floor += each.floor;
    }
    EXPECT_EQ(sum.count, total.count);
    EXPECT_EQ(sum.bytes, total.bytes);
    EXPECT_DOUBLE_EQ(sum.flops, total.flops);
    EXPECT_DOUBLE_EQ(sum.nanoseconds, total.nanoseconds);
    EXPECT_DOUBLE_EQ(sum.floor, total.floor);
    EXPECT_DOUBLE_EQ(sum.share, 1);
  }
}

// Two layers alike, their gradients, and what no module made.
step_profile four_layers() {
  const auto one = [](const char* module, const char* text, double nanoseconds) {
    return profiled_dispatch{.module = module,
                             .text = text,
                             .nanoseconds = nanoseconds,
                             .bytes = 1'500'000,
                             .flops = 2e9,
                             .floor = nanoseconds / 4};
  };
  return step_profile({one("layers.0.mlp", "matmul 8x8", 1000), one("layers.1.mlp.up", "matmul 8x8", 3000),
                       one("layers.1.mlp.up backward", "matmul 4x8", 2000), one("", "region 64", 500),
                       one("backward", "region 64", 1500)});
}

TEST(runtime_profile, kernels_of_one_text_in_other_layers_are_one_row) {
  const std::vector<profile_row> rows = four_layers().by_kernel();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].text, "matmul 8x8");
  EXPECT_EQ(rows[0].count, 2u);
  EXPECT_EQ(rows[0].nanoseconds, 4000);
  EXPECT_EQ(rows[0].bytes, 3'000'000u);
  EXPECT_EQ(rows[0].flops, 4e9);
  EXPECT_EQ(rows[0].share, 0.5);
  EXPECT_EQ(rows[0].percent_of_floor(), 25);
}

TEST(runtime_profile, modules_are_told_apart_as_deep_as_asked) {
  const auto names = [](std::size_t depth) {
    std::vector<std::string> found;
    for (const profile_row& each : four_layers().by_module(depth)) found.push_back(each.text);
    return found;
  };
  using list = std::vector<std::string>;
  EXPECT_EQ(names(0), (list{"(model)", "(model) backward"}));
  EXPECT_EQ(names(1), (list{"layers", "layers backward", "(model) backward", "(model)"}));
  EXPECT_EQ(names(2), (list{"layers.1", "layers.1 backward", "(model) backward", "layers.0", "(model)"}));
  EXPECT_EQ(names(9),
            (list{"layers.1.mlp.up", "layers.1.mlp.up backward", "(model) backward", "layers.0.mlp", "(model)"}));
}

TEST(runtime_profile, a_profile_is_a_table_with_a_total) {
  EXPECT_EQ(to_text(four_layers()),
            "            count  us  % of time   MB  GFLOP  % of floor\n"
            "matmul 8x8      2   4       50.0    3      4        25.0\n"
            "matmul 4x8      1   2       25.0  1.5      2        25.0\n"
            "region 64       2   2       25.0    3      4        25.0\n"
            "total           5   8      100.0  7.5     10        25.0\n");
  EXPECT_EQ(to_text(step_profile()),
            "       count  us  % of time  MB  GFLOP  % of floor\n"
            "total      0   0        0.0   0      0         0.0\n");
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
