// SPDX-License-Identifier: MIT
// The workloads of the Inferena benchmark: checked against float64 references, timed, beside PyTorch's figures of
// the same machine where they are given.
//
// What --json writes: {"device", "driver", "date", "size", "precision", "notes": [..], "workloads": [{"name",
// "precision", "parameters", "yardstick_ms": {"hashing", "kernel"}, "weights": {"generate_ms", "upload_ms"}, "check":
// {"passed", "problem", "output", "inference_output", "loss", "gradient_norm", "worst_parameter", "allowed"}, "tasks":
// {"inference" and so on:
// {"wall_ms", "device_ms": {"median", "min", "max", "rounds"}, "back_to_back_ms", "dispatches", "groups",
// "predicted_bytes", "allocated_bytes", "preparation_cold", "preparation_warm": ms by part, "slowest": kernels}}}]}.
#include <meganeura/core/error.hpp>
#include <meganeura/io/file.hpp>
#include <meganeura/runtime/device.hpp>
#include <meganeura/runtime/fold_batch_norms.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/tune.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <support/temporary_folder.hpp>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>

#include "check.hpp"
#include "report.hpp"
#include "weights.hpp"
#include "yardstick.hpp"

namespace mn = meganeura;

namespace {

using namespace inferena;

struct options {
  std::string device, json, markdown, against, reference;
  std::vector<std::string> models, tasks, precisions{"exact"}, without;
  bool is_small = false, is_timed = true, is_cold = true, matrix_units = true, tune = false, is_greedy = false;
  int slowest = 0;
  double memory_budget = 0;  // MB, of steps
  measure_options measure;
};

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) mn::fail(mn::error_category::io, "{} cannot be read", path);
  return nlohmann::json::parse(file);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

// Opens devices that share a folder of compiled pipelines of this run alone.
class bench {
 public:
  explicit bench(const options& asked) : options_(asked) {
    const std::string file = asked.reference.empty() ? fmt::format("{}/tests/reference/inferena{}.json",
                                                                   MEGANEURA_SOURCE_DIR, asked.is_small ? "_small" : "")
                                                     : asked.reference;
    references_ = read_json(file);
  }

  nlohmann::json run() {
    nlohmann::json report{{"date", today()},
                          {"size", options_.is_small ? "small" : "full"},
                          {"precision", fmt::format("{}", fmt::join(options_.precisions, ", "))}};
    report["notes"] = nlohmann::json::array();
    report["workloads"] = nlohmann::json::array();
    if (!options_.matrix_units) report["notes"].push_back("without matrix units");
    if (options_.is_greedy) report["notes"].push_back("kernels chosen value by value, without a search");
    if (!options_.without.empty())
      report["notes"].push_back(fmt::format("without the rules {}", fmt::join(options_.without, ", ")));
    {
      const mn::device gpu = open();
      report["device"] = gpu.facts().name;
      report["driver"] = gpu.facts().driver;
    }
    for (const workload& each : every_workload(options_.is_small ? size::small : size::full)) {
      if (!options_.models.empty() && std::ranges::find(options_.models, each.name) == options_.models.end()) continue;
      exact_.clear();
      for (const std::string& precision : options_.precisions) {
        std::cerr << each.name << ", " << precision << std::endl;
        precision_ = precision == "fast" ? mn::precision::fast : mn::precision::exact;
        report["workloads"].push_back(measured(each));
        report["workloads"].back()["precision"] = precision;
      }
    }
    return report;
  }

 private:
  [[nodiscard]] mn::device open() const {
    return mn::device({.device = options_.device, .cache_directory = folder_->path().string()});
  }

  [[nodiscard]] mn::program_options program_options() const {
    mn::program_options made;
    made.precision = precision_;
    made.optimize.matrix_units = options_.matrix_units;
    made.optimize.disabled = options_.without;
    if (options_.is_greedy) made.optimize.search_passes = 0;
    made.plan.memory_budget = static_cast<std::uint64_t>(1e6 * options_.memory_budget);
    return made;
  }

  nlohmann::json measured(const workload& of) {
    folder_.emplace();  // nothing is compiled yet
    nlohmann::json result{{"name", of.name}, {"tasks", nlohmann::json::object()}};
    const auto reference = references_.find(of.reference.empty() ? of.name : of.reference);
    if (options_.is_cold)
      run_tasks(of, {.rounds = 0}, [&](task which, measurement& found, const mn::program&) {
        result["tasks"][to_string(which)]["preparation_cold"] = to_json(found.built);
      });
    nlohmann::json inference;
    const auto weights = run_tasks(of, options_.measure, [&](task which, measurement& found, const mn::program& run) {
      if (reference != references_.end() && !of.unfolded) {
        if (which == task::inference) inference = checked(*reference, run, compared::output);
        if (which == task::forward_backward) result["check"] = checked(*reference, run, compared::gradients);
      }
      nlohmann::json& entry = result["tasks"][to_string(which)];
      entry.update(to_json(found));
      entry[options_.is_cold ? "preparation_warm" : "preparation_cold"] = to_json(found.built);
    });
    if (of.unfolded && reference != references_.end()) result["check"] = checked_folded(of, *reference);
    if (!inference.is_null()) add_inference(result["check"], inference);
    if (options_.is_timed) {
      const yardsticks now = measure_yardsticks(open());
      result["yardstick_ms"] = {{"hashing", now.hashing_ms}, {"kernel", now.kernel_ms}};
    }
    result["parameters"] = weights.parameters;
    result["weights"] = {{"generate_ms", weights.times.generate_ms}, {"upload_ms", weights.times.upload_ms}};
    if (reference != references_.end() && !of.unfolded &&
        weights.parameters != (*reference)["parameters"].get<std::size_t>()) {
      result["check"]["passed"] = false;
      result["check"]["problem"] =
          fmt::format("{} parameters and not {}", weights.parameters, (*reference)["parameters"].get<std::size_t>());
    }
    return result;
  }

  // In `fast` all of the output beside that of `exact`, where that went before.
  [[nodiscard]] nlohmann::json checked(const nlohmann::json& reference, const mn::program& run, compared what) {
    const bool is_exact = precision_ == mn::precision::exact;
    const verdict found = compare(reference, run, precision_, what, is_exact ? std::vector<float>{} : exact_);
    if (is_exact && found.passed) exact_ = run.output_as<float>("output");
    return to_json(found);
  }

  // That plan has no gradients to keep values for.
  static void add_inference(nlohmann::json& check, const nlohmann::json& inference) {
    check["inference_output"] = inference["output"];
    if (inference["passed"]) return;
    if (check["passed"]) check["problem"] = "inference: " + inference["problem"].get<std::string>();
    check["passed"] = false;
  }

  [[nodiscard]] nlohmann::json checked_folded(const workload& of, const nlohmann::json& reference) {
    const mn::device gpu = open();
    mn::parameters from(gpu, of.unfolded().graph);
    fill(from);
    const prepared made = prepare(of, task::forward_backward);
    const mn::parameters into(gpu, made.made.graph);
    mn::fold_batch_norms(from, into);
    mn::program run(gpu, made.made.graph, into, program_options());
    bind(run, made.made);
    run.wait(run.submit(made.numbers));
    return checked(reference, run, compared::loss);
  }

  struct filled {
    std::size_t parameters = 0;
    fill_times times;
  };
  // On a device opened for it, each task's program alone beside the weights.
  // The check needs these.
  [[nodiscard]] static bool is_checked(task which) {
    return which == task::inference || which == task::forward_backward;
  }
  [[nodiscard]] bool is_asked(task which) const {
    return options_.tasks.empty() || is_checked(which) ||
           std::ranges::find(options_.tasks, to_string(which)) != options_.tasks.end();
  }

  filled run_tasks(const workload& of, measure_options how,
                   const std::function<void(task, measurement&, const mn::program&)>& done) {
    const mn::device gpu = open();
    const std::uint64_t before = gpu.allocated_bytes();
    how.has_timestamps = gpu.facts().timestamp_bits != 0;
    mn::parameters weights(gpu, of.training().graph);
    filled result{.times = fill(weights)};
    for (const auto& tensor : weights.layout().tensors) {
      if (tensor.kind == mn::op::parameter) result.parameters += static_cast<std::size_t>(tensor.extents.elements());
    }
    for (task which : every_task) {
      if (!has(of, which) || (!options_.is_timed && !is_checked(which)) || !is_asked(which)) continue;
      const prepared made = prepare(of, which);
      mn::program_options building = program_options();
      building.plan.fold = which != task::forward_backward;  // stands for a training, whose parameters change
      if (options_.tune) {
        const mn::tuning_result found = mn::tune(gpu, made.made.graph, building);
        std::cerr << fmt::format("  {}: tuned {} products, {:.3f} to {:.3f} ms\n", to_string(which),
                                 found.products->size(), found.before, found.after);
        found.products->each([](const mn::fusion::product_extents& p, mn::precision, const mn::product_schedule& s) {
          std::cerr << fmt::format("    {}x{}x{}x{}: {}\n", p.batch, p.m, p.n, p.k, to_string(s));
        });
        building.optimize.tuned = found.products;
      }
      const mn::program_options chosen = building;
      building.duration = how.has_timestamps;
      mn::program run(gpu, made.made.graph, weights, building);
      measurement found = measure(run, made, how);
      found.allocated_bytes = gpu.allocated_bytes() - before;
      if (options_.slowest > 0 && how.rounds > 0) {
        building = chosen;
        const auto slowest = [&](mn::profiling what) {
          building.profile = what;
          mn::program profiled(gpu, made.made.graph, weights, building);
          for (int i = 0; i < 3; ++i) {
            bind(profiled, made.made);
            profiled.wait(profiled.submit(made.numbers));
          }
          return slowest_rows(profiled, static_cast<std::size_t>(options_.slowest));
        };
        found.slowest = slowest(mn::profiling::dispatches);
        found.slowest_groups = slowest(mn::profiling::groups);
      }
      done(which, found, run);
    }
    return result;
  }

  options options_;
  nlohmann::json references_;
  mn::precision precision_ = mn::precision::exact;
  std::vector<float> exact_;  // a workload's output in `exact`, if that passed
  std::optional<mn::support::temporary_folder> folder_{std::in_place};
};

// Whatever cannot end well is said before hours of work.
nlohmann::json checked_before(const options& asked) {
  for (const std::string& each : asked.models) {
    std::vector<std::string> names;
    for (const workload& known : every_workload(size::small)) names.push_back(known.name);
    if (std::ranges::find(names, each) == names.end()) {
      mn::fail(mn::error_category::invalid_argument, "there is no workload \"{}\"; there are {}", each,
               fmt::join(names, ", "));
    }
  }
  for (const std::string& path : {asked.json, asked.markdown}) {
    if (!path.empty() && path != "-" && !std::filesystem::exists(path)) mn::io::check_writable(path);
  }
  if (asked.against.empty()) return {};
  nlohmann::json pytorch = read_json(asked.against);
  if (!pytorch.is_object() || !pytorch.contains("info") || !pytorch["info"].is_object() || !pytorch.contains("rows") ||
      !pytorch["rows"].is_array()) {
    mn::fail(mn::error_category::invalid_file, "{} has no \"info\" and \"rows\", as pytorch_inferena.py writes them",
             asked.against);
  }
  return pytorch;
}

// False if a check failed.
bool benchmark(const options& asked) {
  const nlohmann::json pytorch = checked_before(asked);
  const nlohmann::json report = bench(asked).run();
  write(asked.json, report.dump(1));
  write(asked.markdown, to_markdown(report, pytorch));
  bool passed = std::ranges::any_of(report["workloads"], [](const auto& each) { return each.contains("check"); });
  if (!passed) std::cerr << "inferena: nothing was checked: there are no float64 figures of what was run\n";
  for (const auto& each : report["workloads"]) {
    if (!each.contains("check")) std::cerr << each["name"].get<std::string>() << ": not checked at this size\n";
    if (!each.contains("check") || each["check"]["passed"]) continue;
    passed = false;
    std::cerr << each["name"].get<std::string>() << ", " << each["precision"].get<std::string>()
              << ": FAIL: " << each["check"]["problem"].get<std::string>() << '\n';
  }
  return passed;
}

}  // namespace

int main(int argc, char** argv) try {
  // NVIDIA's driver keeps compiled pipelines of its own, and cold would not be cold.
  setenv("__GL_SHADER_DISK_CACHE", "0", 1);
  options asked;
  CLI::App app("The Inferena workloads: checked against float64 references and timed.");
  app.add_option("--models", asked.models, "smollm2,resnet50,..; default all")->delimiter(',');
  app.add_option("--tasks", asked.tasks, "\"inference\",\"forward + backward\",..; default all")->delimiter(',');
  app.add_flag("--small", asked.is_small, "tiny shapes, for a software device");
  app.add_option("--device", asked.device, "an index, a part of a name, or cpu");
  app.add_option("--precision", asked.precisions, "exact, fast, or both: see meganeura::precision")
      ->delimiter(',')
      ->check(CLI::IsMember({"exact", "fast"}));
  app.add_flag("--tune", asked.tune, "measure schedules of products first, of each task");
  app.add_flag("!--no-matrix-units", asked.matrix_units, "products by f32 multiply-add alone");
  app.add_option("--without", asked.without, "rules that are left out, such as matmul_prologue")->delimiter(',');
  app.add_flag("--greedy", asked.is_greedy, "choose kernels value by value, without a search");
  app.add_option("--memory-budget", asked.memory_budget, "MB of the device that a program may take")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--rounds", asked.measure.rounds)->check(CLI::NonNegativeNumber);
  app.add_option("--warm-ups", asked.measure.warm_ups)->check(CLI::NonNegativeNumber);
  app.add_option("--busy", asked.measure.busy_seconds, "seconds of further steps before those that count")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("!--no-timing", asked.is_timed, "check alone");
  app.add_flag("!--no-cold", asked.is_cold, "do not build everything once without compiled pipelines");
  app.add_option("--profile", asked.slowest, "so many of the slowest kernels, and groups of them, of each task")
      ->check(CLI::PositiveNumber);
  app.add_option("--reference", asked.reference, "float64 figures")->check(CLI::ExistingFile);
  app.add_option("--against", asked.against, "pytorch_inferena.json")->check(CLI::ExistingFile);
  app.add_option("--json", asked.json, "file, or - for standard output");
  app.add_option("--markdown", asked.markdown, "file, or - for standard output");
  CLI11_PARSE(app, argc, argv);
  if (!asked.is_timed) asked.measure.rounds = 0;
  if (!asked.is_timed) asked.is_cold = false;
  return benchmark(asked) ? 0 : 1;
} catch (const std::exception& e) {
  std::cerr << "inferena: " << e.what() << '\n';
  return 1;
}
