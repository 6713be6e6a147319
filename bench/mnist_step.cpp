// SPDX-License-Identifier: MIT
// Time of one MNIST MLP training step (784-128-10, Adam); mnist_step_pytorch.py is the other side.
#include <meganeura/meganeura.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <random>

namespace mn = meganeura;

namespace {

struct mlp {
  static constexpr auto forward(mn::value auto image) {
    return mn::linear<"fc2", 10>(mn::relu(mn::linear<"fc1", 128>(image)));
  }
};
using model = mn::model<mlp, mn::input<"image", mn::dtype::f32, mn::dims<mn::sym<"batch">, 784>>>;

struct options {
  std::string device, json;
  std::int64_t batch = 32;
  int rounds = 30, calls = 100;
};

template <class Step>
nlohmann::json timed(const options& o, const Step& round) {
  round(20);
  std::vector<double> microseconds;
  for (int i = 0; i < o.rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    round(o.calls);
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
    microseconds.push_back(elapsed.count() / o.calls);
  }
  std::ranges::sort(microseconds);
  return {{"median_us", microseconds[microseconds.size() / 2]},
          {"min_us", microseconds.front()},
          {"max_us", microseconds.back()}};
}

nlohmann::json measure(const options& o) {
  mn::device gpu({.device = o.device});
  std::mt19937 random(1);
  std::vector<float> images(static_cast<std::size_t>(o.batch) * 784);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(o.batch));
  for (float& pixel : images) pixel = static_cast<float>(random() & 0xffff) / 65536.0f;
  for (std::int32_t& label : labels) label = static_cast<std::int32_t>(random() % 10);

  std::vector<double> builds;  // the second build finds the pipeline cache warm
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    mn::trainer<model, mn::cross_entropy<"label">> fresh(gpu, mn::adam{}, {{"batch", o.batch}});
    builds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  mn::trainer<model, mn::cross_entropy<"label">> run(gpu, mn::adam{}, {{"batch", o.batch}});
  run.parameters().init({.seed = 1});
  const auto step = [&] { return run.step(mn::bind<"image">(images), mn::bind<"label">(labels)); };
  const auto before = gpu.counters();
  nlohmann::json rows;
  rows["back to back with upload"] = timed(o, [&](int calls) {
    for (int i = 1; i < calls; ++i) step();
    step().wait();
  });
  rows["loss read every step"] = timed(o, [&](int calls) {
    for (int i = 0; i < calls; ++i) (void)step().loss();
  });
  const auto after = gpu.counters();
  const bool replayed = after.allocations == before.allocations && after.pipelines == before.pipelines &&
                        after.recordings == before.recordings;

  mn::trainer<model, mn::cross_entropy<"label">> profiled(
      gpu, mn::adam{}, {{"batch", o.batch}}, {.program = {.profile = mn::profiling::dispatches}}, run.parameters());
  profiled.step(mn::bind<"image">(images), mn::bind<"label">(labels)).wait();
  profiled.step(mn::bind<"image">(images), mn::bind<"label">(labels)).wait();
  nlohmann::json kernels = nlohmann::json::array();
  for (const mn::profiled_dispatch& each : profiled.program().profile())
    kernels.push_back({{"kernel", each.text}, {"module", each.module}, {"us", each.nanoseconds / 1000}});

  const auto& plan = run.program().plan();
  nlohmann::json parts;
  for (const mn::build_phase& each : mn::build_phases) parts[each.name] = run.program().times().*each.milliseconds;
  return {{"framework", "meganeura"},
          {"device", gpu.facts().name},
          {"driver", gpu.facts().driver},
          {"batch", o.batch},
          {"steps", rows},
          {"kernels", kernels},
          {"dispatches", plan.steps.size()},
          {"groups", plan.groups},
          {"peak_bytes", plan.peak_bytes()},
          {"replay_only", replayed},
          {"build_ms", builds},
          {"build_parts_ms", parts}};
}

}  // namespace

int main(int argc, char** argv) try {
  options o;
  CLI::App app("Time of one MNIST MLP training step.");
  app.add_option("--device", o.device);
  app.add_option("--batch", o.batch)->check(CLI::PositiveNumber);
  app.add_option("--rounds", o.rounds)->check(CLI::PositiveNumber);
  app.add_option("--calls", o.calls)->check(CLI::PositiveNumber);
  app.add_option("--json", o.json, "file, or - for standard output")->expected(0, 1)->default_str("-");
  CLI11_PARSE(app, argc, argv);
  const std::string report = measure(o).dump(1);
  if (o.json.empty() || o.json == "-")
    std::cout << report << '\n';
  else
    std::ofstream(o.json) << report << '\n';
} catch (const std::exception& e) {
  std::cerr << "mnist_step: " << e.what() << '\n';
  return 1;
}
