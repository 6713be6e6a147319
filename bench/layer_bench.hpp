// SPDX-License-Identifier: MIT
// What bench/conv and bench/norm have in common: a layer or its gradients as a step, checked against float64, timed,
// and printed beside PyTorch's.
//
// What --json writes: {"device", "driver", "shapes": [{"name", "rows": [{"pass", "precision", "us": {"median", "min",
// "max"}, "error" beside float64, "kernels": [{"name", "us"}], each alone}]}]}.
#pragma once
#include <meganeura/meganeura.hpp>

#include "side_by_side.hpp"
#include "step_timer.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace layer_bench {

namespace mn = meganeura;

using tensors = std::map<std::string, std::vector<float>>;

/// What a step does: of the parameters that `values` has by name, the output "y". expected: one element of it in
/// float64.
struct pass {
  std::string name;
  mn::graph graph;
  tensors values;
  std::function<double(std::size_t)> expected;
};

/// `passes` makes what is measured when it is its turn.
struct shape {
  std::string name;
  std::function<std::vector<pass>()> passes;
};

/// Of a normal distribution, the same for the same seed.
inline std::vector<float> normal(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& each : made) each = distribution(generator);
  return made;
}

class bench {
 public:
  struct options {
    std::string device, json, against;
    std::vector<std::string> shapes, precisions{"exact", "fast"};
    int rounds = 30;
  };

  explicit bench(const options& asked) : asked_(asked), gpu_({.device = asked.device}), timer_(gpu_, asked.rounds) {}

  [[nodiscard]] nlohmann::json run(const std::vector<shape>& known) {
    nlohmann::json report{{"device", gpu_.facts().name}, {"driver", gpu_.facts().driver}};
    for (const shape& each : known) {
      const bool is_asked = asked_.shapes.empty() ? each.name != "small"
                                                  : std::ranges::find(asked_.shapes, each.name) != asked_.shapes.end();
      if (!is_asked) continue;
      nlohmann::json result{{"name", each.name}};
      for (const pass& one : each.passes()) {
        for (const std::string& precision : asked_.precisions) {
          result["rows"].push_back(measured(one, precision));
          print(each.name, result["rows"].back());
        }
      }
      report["shapes"].push_back(result);
    }
    return report;
  }

 private:
  [[nodiscard]] nlohmann::json measured(const pass& of, const std::string& precision) {
    mn::program_options how;
    how.precision = precision == "fast" ? mn::precision::fast : mn::precision::exact;
    how.plan.fold = false;  // what depends on parameters alone would not be a step's
    timer_.prepare(how);
    mn::parameters weights(gpu_, of.graph);
    for (const mn::node_id each : of.graph.leaves(mn::op::parameter)) {
      const std::string& name = of.graph.get<mn::leaf_attribute>(each).name;
      weights.set(name, of.values.at(name));
    }
    mn::program run(gpu_, of.graph, weights, how);
    run.wait(run.submit({}));
    nlohmann::json row{{"pass", of.name}, {"precision", precision}};
    row["error"] = error_of(run.output_as<float>("y"), of.expected);
    row["us"] = timer_.time(run);
    how.duration = false, how.profile = mn::profiling::dispatches;
    mn::program profiled(gpu_, of.graph, weights, how);
    row["kernels"] = timer_.kernels(profiled);
    return row;
  }

  // Of some elements, relative to their norm; infinity where any is NaN.
  [[nodiscard]] static double error_of(const std::vector<float>& found, const std::function<double(std::size_t)>& of) {
    if (std::ranges::any_of(found, [](float x) { return std::isnan(x); }))
      return std::numeric_limits<double>::infinity();
    std::mt19937 generator(11);
    double difference = 0, norm = 0;
    for (int i = 0; i < 300; ++i) {
      const std::size_t at = i == 0 ? found.size() - 1 : generator() % found.size();
      const double expected = of(at), each = double{found[at]} - expected;
      difference += each * each, norm += expected * expected;
    }
    return std::sqrt(difference / norm);
  }

  static void print(const std::string& shape, const nlohmann::json& row) {
    fmt::print(stderr, "{:<26} {:<9} {:<5} {:>9.1f} us  {:.1e}  [{}]\n", shape, row["pass"].get<std::string>(),
               row["precision"].get<std::string>(), row["us"]["median"].get<double>(), row["error"].get<double>(),
               side_by_side::text_of_kernels(row["kernels"]));
  }

  options asked_;
  mn::device gpu_;
  step_timer timer_;
};

inline void print_table(const nlohmann::json& report, const std::string& against) {
  const side_by_side::table table({"exact", "fast"}, against);
  for (const auto& shape : report["shapes"]) {
    std::string last;  // a pass has a row for each precision
    for (const auto& row : shape["rows"]) {
      const auto pass = row["pass"].get<std::string>();
      if (pass == last) continue;
      table.line(shape["name"], last = pass, shape["rows"], {{{"precision", "exact"}}, {{"precision", "fast"}}});
    }
  }
}

/// What main returns; `title`: what is measured.
inline int run(int argc, char** argv, const std::string& title, const std::vector<shape>& known) try {
  bench::options asked;
  CLI::App app(title + ": checked against float64 and timed.");
  app.add_option("--shapes", asked.shapes, "names, as the table has them; default all but \"small\"")->delimiter(',');
  app.add_option("--precision", asked.precisions)->delimiter(',')->check(CLI::IsMember({"exact", "fast"}));
  app.add_option("--rounds", asked.rounds)->check(CLI::PositiveNumber);
  app.add_option("--device", asked.device, "an index, a part of a name, or cpu");
  app.add_option("--against", asked.against, "what layer_bench_pytorch.py wrote")->check(CLI::ExistingFile);
  app.add_option("--json", asked.json, "file to write");
  CLI11_PARSE(app, argc, argv);
  std::vector<std::string> names;
  for (const shape& one : known) names.push_back(one.name);
  side_by_side::expect_known(asked.shapes, names);
  const nlohmann::json report = bench(asked).run(known);
  side_by_side::write(asked.json, report);
  print_table(report, asked.against);
  return 0;
} catch (const std::exception& e) {
  std::cerr << "bench: " << e.what() << '\n';
  return 1;
}

}  // namespace layer_bench
