// SPDX-License-Identifier: MIT
// The trace that programs write: parts of their builds, submissions, waits and every dispatch, on one clock.
#include <meganeura/frontend.hpp>
#include <meganeura/io/trace_file.hpp>
#include <meganeura/runtime/measured_rates.hpp>
#include <meganeura/runtime/program.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "vulkan_support.hpp"

namespace {

using namespace meganeura;
using net = support::mlp<8>;

// As far as they are written: the process ends its traces when it ends.
std::vector<nlohmann::json> events_of(const std::string& path, std::string_view category = {}) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::string all = text.str();
  if (!all.ends_with("]\n")) all += "]";
  std::vector<nlohmann::json> found;
  for (nlohmann::json& each : nlohmann::json::parse(all)) {
    if (category.empty() || each.value("cat", "") == category) found.push_back(std::move(each));
  }
  return found;
}

struct span_of_time {
  double begin = 0, end = 0;  // microseconds
};
span_of_time time_of(const nlohmann::json& slice) {
  const double begin = slice["ts"];
  return {begin, begin + slice["dur"].get<double>()};
}

// Of steps, by their number.
std::map<int, span_of_time> host_slices(const std::string& path, const std::string& name) {
  std::map<int, span_of_time> found;
  for (const nlohmann::json& each : events_of(path, "step")) {
    if (each["ph"] == "X" && each["name"] == name) found[each["args"]["step"]] = time_of(each);
  }
  return found;
}

// A trainer with a batch for it.
struct small_training {
  trainer<net, cross_entropy<"label">> run;
  std::vector<float> x = support::uniform(16 * 8, 1);
  std::vector<std::int32_t> labels = support::classes(16, 2);

  explicit small_training(const device& gpu) : run(gpu, adam{}, {{"batch", 16}}) { run.parameters().init(); }
  auto step() { return run.step(bind<"x">(x), bind<"label">(labels)); }
};

void train(const device& gpu, int steps) {
  small_training training(gpu);
  for (int i = 0; i < steps; ++i) training.step().wait();
}

vulkan::device_options traced(const std::string& path) {
  vulkan::device_options options = support::shared_options();
  options.trace = path;
  return options;
}

// Both ways to place a device's times on the host's clock, where the device has both.
std::vector<vulkan::device_options> both_clocks(const std::string& path) {
  vulkan::device_options options = traced(path), estimated = traced(path);
  device_facts facts = support::shared_device().facts();
  facts.has_calibrated_timestamps = false;
  estimated.at_most = facts;
  return {options, estimated};
}

TEST(runtime_trace, every_dispatch_of_every_step_lies_between_submission_and_the_end_of_the_wait) {
  const support::temporary_folder folder;
  std::size_t number = 0;
  for (const vulkan::device_options& options : both_clocks({})) {
    const std::string path = folder / std::to_string(number++);
    vulkan::device_options opened = options;
    opened.trace = path;
    const support::checked_device gpu(opened);
    train(gpu, 4);
    const std::map<int, span_of_time> submits = host_slices(path, "submit"), waits = host_slices(path, "wait");
    EXPECT_EQ(submits.size(), 4u);
    EXPECT_EQ(waits.size(), 4u);
    trainer<net, cross_entropy<"label">> same(gpu, adam{}, {{"batch", 16}});
    std::vector<profiled_dispatch> planned = detail::dispatches_of(same.program().plan(), profile_of(gpu));
    double last = 0;
    std::size_t dispatches = 0;
    int step = 0;
    const double tolerance = 20;  // microseconds, by which a device's clock may be off
    for (const nlohmann::json& each : events_of(path)) {
      if (each["ph"] != "X" || each["tid"] != gpu.trace_track()) continue;
      const span_of_time when = time_of(each);
      EXPECT_GE(when.begin, last) << each;
      last = when.begin;
      if (each["cat"] == "step") {
        ++step;
        EXPECT_EQ(each["name"], "step " + std::to_string(step));
      }
      ASSERT_TRUE(submits.contains(step) && waits.contains(step)) << step;
      EXPECT_GE(when.begin, submits.at(step).begin - tolerance) << each;
      EXPECT_LE(when.end, waits.at(step).end + tolerance) << each;
      if (each["cat"] != "dispatch") continue;
      const profiled_dispatch& one = planned[dispatches++ % planned.size()];
      EXPECT_EQ(each["name"], one.text);
      const nlohmann::json& arguments = each["args"];
      EXPECT_EQ(arguments["module"], one.module);
      EXPECT_EQ(arguments["schedule"], "");
      EXPECT_NE(arguments["kernel"], "");
      EXPECT_EQ(arguments["bytes"], one.bytes);
      EXPECT_EQ(arguments["flops"], one.flops);
      EXPECT_NEAR(arguments["floor_us"], one.floor / 1e3, 1e-3);
      EXPECT_NEAR(arguments["percent_of_floor"], 100 * arguments["floor_us"].get<double>() / (when.end - when.begin),
                  1);
    }
    EXPECT_EQ(step, 4);
    EXPECT_EQ(dispatches, 4 * planned.size());
  }
}

TEST(runtime_trace, the_parts_of_a_build_follow_each_other_within_it) {
  const support::temporary_folder folder;
  const std::string path = folder / "t.json";
  const support::checked_device gpu(traced(path));
  train(gpu, 1);
  const std::vector<nlohmann::json> slices = events_of(path, "build");
  ASSERT_EQ(slices.size(), std::size(build_phases)) << "the build instead of the first step";
  const span_of_time whole = time_of(slices[0]);
  EXPECT_EQ(slices[0]["name"], "build");
  double end = whole.begin;
  for (std::size_t i = 1; i < slices.size(); ++i) {
    EXPECT_EQ(slices[i]["name"], build_phases[i - 1].name);
    EXPECT_NEAR(time_of(slices[i]).begin, end, 0.01);
    end = time_of(slices[i]).end;
  }
  EXPECT_NEAR(end, whole.end, 0.01);
  EXPECT_LE(whole.end, host_slices(path, "submit").at(1).begin);
}

TEST(runtime_trace, a_step_that_nobody_waits_for_is_written_when_its_program_goes) {
  const support::temporary_folder folder;
  const std::string path = folder / "t.json";
  const support::checked_device gpu(traced(path));
  {
    small_training training(gpu);
    for (int i = 0; i < 3; ++i) training.step();
    trainer<net, cross_entropy<"label">> moved = std::move(training.run);
  }
  const auto steps = events_of(path, "step");
  EXPECT_EQ(std::ranges::count_if(steps, [](const auto& each) { return each["name"] == "step 3"; }), 1);
  EXPECT_EQ(std::ranges::count_if(steps, [](const auto& each) { return each["ph"] == "f"; }), 3);
}

TEST(runtime_trace, a_wait_writes_the_steps_before_it_as_well) {
  const support::temporary_folder folder;
  const std::string path = folder / "t.json";
  const support::checked_device gpu(traced(path));
  small_training training(gpu);
  for (int i = 0; i < 4; ++i) training.step();
  training.step().wait();
  std::vector<std::string> steps;
  for (const nlohmann::json& each : events_of(path, "step")) {
    if (each["ph"] == "X" && each["tid"] == gpu.trace_track()) steps.push_back(each["name"]);
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"step 1", "step 2", "step 3", "step 4", "step 5"}));
}

TEST(runtime_trace, reading_a_result_is_a_wait) {
  const support::temporary_folder folder;
  const std::string path = folder / "t.json";
  const support::checked_device gpu(traced(path));
  session<net> run(gpu, {{"batch", 2}});
  run.parameters().init();
  for (int i = 0; i < 3; ++i) (void)run.run(bind<"x">(support::uniform(2 * 8, 1)));
  EXPECT_EQ(host_slices(path, "wait").size(), 3u);
  EXPECT_EQ(run.program().profile().size(), run.program().plan().steps.size()) << "programs are profiled as well";
}

TEST(runtime_trace, programs_of_two_threads_write_one_file) {
  const support::temporary_folder folder;
  const std::string path = folder / "t.json";
  const support::checked_device gpu(traced(path));
  std::thread other([&] { train(gpu, 10); });
  train(gpu, 10);
  other.join();
  std::map<int, int> steps;  // by program
  std::map<std::uint32_t, int> submits;
  for (const nlohmann::json& each : events_of(path, "step")) {
    if (each["ph"] != "X") continue;
    if (each["tid"] == gpu.trace_track()) ++steps[each["args"]["program"]];
    if (each["name"] == "submit") ++submits[each["tid"]];
  }
  ASSERT_EQ(steps.size(), 2u);
  for (const auto& [program, count] : steps) EXPECT_EQ(count, 10) << program;
  EXPECT_EQ(submits.size(), 2u);
  const auto dispatches = events_of(path, "dispatch");
  std::vector<span_of_time> ran;
  for (const nlohmann::json& each : dispatches) ran.push_back(time_of(each));
  std::ranges::sort(ran, {}, &span_of_time::begin);
  for (std::size_t i = 1; i < ran.size(); ++i) EXPECT_GE(ran[i].begin, ran[i - 1].end - 20) << "microseconds";
}

TEST(runtime_trace, a_trace_ends_after_so_many_events_and_programs_go_on) {
  const support::temporary_folder folder;
  const std::string path = folder / "t.json";
  vulkan::device_options options = traced(path);
  options.trace_events = 40;
  const support::checked_device gpu(options);
  train(gpu, 10);
  const auto all = events_of(path);
  EXPECT_EQ(all.size(), 42u) << "the process's name, 40 events and the last one";
  EXPECT_EQ(all.back()["name"], "the trace was cut after 40 events: see device_options::trace_events");
  session<net> later(gpu, {{"batch", 2}});
  later.parameters().init();
  (void)later.run(bind<"x">(support::uniform(2 * 8, 1)));
  EXPECT_NE(support::sentence_of([&] { (void)later.program().profile(); }), "") << "measures nothing any more";
}

TEST(runtime_trace, a_file_that_cannot_be_written_is_one_warning) {
  std::vector<std::string> warnings;
  vulkan::device_options options = traced("/nowhere/t.json");
  options.log = [&](log_level level, std::string_view text) {
    if (level == log_level::warning) warnings.emplace_back(text);
  };
  const support::checked_device gpu(options);
  EXPECT_EQ(gpu.trace(), nullptr);
  train(gpu, 3);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "there is no trace: /nowhere/t.json cannot be written: No such file or directory; set MEGANEURA_TRACE or "
            "device_options::trace to a file that can be written");
}

TEST(runtime_trace, the_environment_names_the_file_of_devices_that_name_none) {
  const support::temporary_folder folder;
  const test::scoped_environment set("MEGANEURA_TRACE", (folder / "environment.json").c_str());
  const support::checked_device gpu(support::shared_options()), own(traced(folder / "own.json"));
  EXPECT_EQ(gpu.trace()->path(), folder / "environment.json");
  EXPECT_EQ(own.trace()->path(), folder / "own.json");
  train(gpu, 1);
  EXPECT_FALSE(events_of(folder / "environment.json", "dispatch").empty());
}

TEST(runtime_trace, without_one_nothing_is_measured) {
  const test::scoped_environment unset("MEGANEURA_TRACE", nullptr);
  const support::checked_device gpu(support::shared_options());
  EXPECT_EQ(gpu.trace(), nullptr);
  session<net> run(gpu, {{"batch", 2}});
  run.parameters().init();
  (void)run.run(bind<"x">(support::uniform(2 * 8, 1)));
  EXPECT_EQ(support::sentence_of([&] { (void)run.program().profile(); }),
            "profile was asked of a program without timestamps; build it with program_options{.profile = "
            "profiling::dispatches}");
}

}  // namespace
