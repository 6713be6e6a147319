// SPDX-License-Identifier: MIT
// Time of attention and of its gradients on a device, by kernels that store weights and as it is chosen; checked first.
//
// What --json writes: {"device", "driver", "date", "shapes": [{"name", "queries", "keys", "heads", "kv_heads", "width",
// "causal", "window", "rows": [{"pass": "forward" or "forward + backward", "precision", "way": "stored", "chosen" or a
// schedule, "us": {"median", "min", "max"}, "error": {"y", "dq", ..} beside float64, of the first heads, "kernels":
// [{"name", "us"}], each alone}]}]}.
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/measured_rates.hpp>

#include "side_by_side.hpp"
#include "step_timer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace mn = meganeura;

namespace {

struct options {
  std::string device, json, against;
  std::vector<std::string> shapes, precisions{"exact", "fast"};
  int rounds = 30;
  std::size_t schedules = 0;
};

struct attention_shape {
  std::string name;
  std::int64_t queries = 0, keys = 0, heads = 0, kv_heads = 0, width = 0;
  bool causal = false;
  int window = 0;  // gqa_options::sliding_window
};

// Those of the transformers of bench/inferena and of Stable Diffusion 1.5; wide heads, long rows, a window of these,
// and few queries with many keys.
const std::vector<attention_shape> known{{"smollm2", 128, 128, 9, 3, 64, true},
                                         {"smolvla", 50, 50, 15, 5, 64},
                                         {"whisper", 1500, 1500, 6, 6, 64},
                                         {"sd15", 4096, 4096, 8, 8, 40},
                                         {"sd15 cross", 4096, 77, 8, 8, 40},
                                         {"sd15 inner", 1024, 1024, 8, 8, 80},
                                         {"sd15 deep", 256, 256, 8, 8, 160},
                                         {"wide", 512, 512, 16, 16, 128, true},
                                         {"wider", 512, 512, 8, 4, 256, true},
                                         {"long", 2048, 2048, 16, 4, 64, true},
                                         {"window", 2048, 2048, 16, 4, 64, true, 256},
                                         {"decode", 1, 4096, 32, 8, 128, true},
                                         {"decode small", 1, 1024, 9, 3, 64, true},
                                         {"chunk", 16, 4096, 32, 8, 128, true},
                                         {"small", 33, 40, 4, 2, 16, false}};

using tensors = std::map<std::string, std::vector<float>>;

struct pass {
  mn::graph graph;
  std::vector<std::string> outputs;
};
pass make_pass(const attention_shape& of, bool backward) {
  pass made;
  mn::graph& g = made.graph;
  const auto leaf = [&](const char* name, std::int64_t rows, std::int64_t heads) {
    return mn::node_value(g, g.parameter(name, mn::dtype::f32, {rows, heads, of.width}));
  };
  const mn::node_value q = leaf("q", of.queries, of.heads), k = leaf("k", of.keys, of.kv_heads),
                       v = leaf("v", of.keys, of.kv_heads);
  const mn::node_id y = attend(q, k, v, mn::gqa_options{.causal = of.causal, .sliding_window = of.window});
  g.add_output("y", y);
  made.outputs = {"y"};
  if (!backward) return made;
  const mn::node_id dy = leaf("dy", of.queries, of.heads);
  const mn::node_id loss = g.reduce(mn::reduce_kind::sum, g.multiply(y, dy), 7);
  const mn::node_id wrt[] = {q, k, v};
  const auto found = mn::gradients(g, loss, wrt);
  for (std::size_t i = 0; i < found.size(); ++i) {
    made.outputs.push_back(std::string("d") + "qkv"[i]);
    g.add_output(made.outputs.back(), found[i]);
  }
  return made;
}

tensors random_operands(const attention_shape& of) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  tensors made;
  for (const char* name : {"q", "k", "v", "dy"}) {
    const bool of_keys = *name == 'k' || *name == 'v';
    const std::int64_t rows = of_keys ? of.keys * of.kv_heads : of.queries * of.heads;
    for (std::int64_t i = 0; i < rows * of.width; ++i) made[name].push_back(normal(generator));
  }
  return made;
}

// In float64, of the first key head and of the heads that share it; all else stays 0.
std::map<std::string, std::vector<double>> reference_of(const attention_shape& of, const tensors& in) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::map<std::string, std::vector<double>> out;
  for (const auto& [name, values] : in) out[name == "dy" ? "y" : "d" + name].assign(values.size(), 0);
  const double scale = 1 / std::sqrt(static_cast<double>(of.width));
  const std::int64_t w = of.width, group = of.heads / of.kv_heads;
  const auto row = [&](const char* name, std::int64_t position, std::int64_t head) {
    return at((position * (*name == 'q' || *name == 'd' || *name == 'y' ? of.heads : of.kv_heads) + head) * w);
  };
  std::vector<double> p(at(of.keys)), dp(at(of.keys));
  for (std::int64_t h = 0; h < group; ++h) {
    for (std::int64_t t = 0; t < of.queries; ++t) {
      const float* query = &in.at("q")[row("q", t, h)];
      const float* change = &in.at("dy")[row("dy", t, h)];
      const std::int64_t seen = of.causal ? std::min(of.keys, t + 1 + of.keys - of.queries) : of.keys;
      const std::int64_t first = of.window == 0 ? 0 : std::max<std::int64_t>(0, seen - of.window);
      double largest = -1e300, total = 0, mean = 0;
      for (std::int64_t s = first; s < seen; ++s) {
        const float *key = &in.at("k")[row("k", s, 0)], *value = &in.at("v")[row("v", s, 0)];
        p[at(s)] = dp[at(s)] = 0;
        for (std::int64_t i = 0; i < w; ++i) {
          p[at(s)] += double{query[i]} * double{key[i]};
          dp[at(s)] += double{change[i]} * double{value[i]};
        }
        p[at(s)] *= scale;
        largest = std::max(largest, p[at(s)]);
      }
      for (std::int64_t s = first; s < seen; ++s) total += p[at(s)] = std::exp(p[at(s)] - largest);
      for (std::int64_t s = first; s < seen; ++s) p[at(s)] /= total, mean += p[at(s)] * dp[at(s)];
      double *y = &out["y"][row("y", t, h)], *dq = &out["dq"][row("q", t, h)];
      for (std::int64_t s = first; s < seen; ++s) {
        const double ds = p[at(s)] * (dp[at(s)] - mean) * scale;
        const float *key = &in.at("k")[row("k", s, 0)], *value = &in.at("v")[row("v", s, 0)];
        double *dk = &out["dk"][row("k", s, 0)], *dv = &out["dv"][row("v", s, 0)];
        for (std::int64_t i = 0; i < w; ++i) {
          y[i] += p[at(s)] * double{value[i]};
          dq[i] += ds * double{key[i]};
          dk[i] += ds * double{query[i]};
          dv[i] += p[at(s)] * double{change[i]};
        }
      }
    }
  }
  return out;
}

double error_of(const std::vector<float>& found, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 0) continue;  // another head's, or hidden
    const double each = double{found[i]} - expected[i];
    difference += each * each, norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

class bench {
 public:
  explicit bench(const options& asked) : asked_(asked), gpu_({.device = asked.device}), timer_(gpu_, asked.rounds) {}

  nlohmann::json run() {
    nlohmann::json report{{"device", gpu_.facts().name}, {"driver", gpu_.facts().driver}};
    for (const attention_shape& each : known) {
      const bool is_asked = asked_.shapes.empty() ? each.name != "small"
                                                  : std::ranges::find(asked_.shapes, each.name) != asked_.shapes.end();
      if (is_asked) report["shapes"].push_back(measured(each));
    }
    return report;
  }

 private:
  nlohmann::json measured(const attention_shape& of) {
    nlohmann::json result{{"name", of.name},   {"queries", of.queries},   {"keys", of.keys},     {"heads", of.heads},
                          {"width", of.width}, {"kv_heads", of.kv_heads}, {"causal", of.causal}, {"window", of.window}};
    const tensors in = random_operands(of);
    const auto expected = reference_of(of, in);
    for (const bool backward : {false, true}) {
      const pass made = make_pass(of, backward);
      mn::parameters weights(gpu_, made.graph);
      for (const auto& [name, values] : in) {
        if (backward || name != "dy") weights.set(name, values);
      }
      for (const std::string& precision : asked_.precisions) {
        mn::program_options usual;
        usual.plan.fold = false;  // what depends on parameters alone would not be a step's
        usual.precision = precision == "fast" ? mn::precision::fast : mn::precision::exact;
        const auto add = [&](const std::string& way, const mn::program_options& how) {
          nlohmann::json row = measured(made, weights, how, expected);
          row["pass"] = backward ? "forward + backward" : "forward";
          row["precision"] = precision, row["way"] = way;
          print(of, row);
          result["rows"].push_back(row);
        };
        mn::program_options stored = usual;
        stored.optimize.disabled = {"fuse_attention"};
        add("stored", stored);
        add("chosen", usual);
        const std::size_t count = asked_.schedules == 0 ? 0 : schedules_of(made.graph, usual.precision);
        for (std::size_t i = 0; i < std::min(asked_.schedules, count); ++i) {
          mn::program_options forced = usual;
          forced.device_costs = false;
          forced.optimize.device = mn::profile_of(gpu_);
          forced.optimize.device.launch = {1, 1};
          forced.optimize.schedule = i;
          add(fmt::format("schedule {}", i), forced);
        }
      }
    }
    return result;
  }

  // The most that any attention of the graph has on this device.
  [[nodiscard]] std::size_t schedules_of(const mn::graph& g, mn::precision precision) const {
    mn::fusion::optimize_options options;
    options.precision = precision;
    options.device = mn::profile_of(gpu_);
    options.device.launch = {1, 1};
    const mn::graph plan = mn::fusion::optimize(g, options);
    std::size_t most = 0;
    for (mn::node_id id{0}; id < plan.size(); ++id) {
      if (plan[id].kind != mn::op::attention) continue;
      const auto& node = plan.get<mn::attention_attribute>(id);
      const auto arithmetic =
          precision == mn::precision::fast ? mn::product_arithmetic::rounded : mn::product_arithmetic::split;
      most = std::max(most, 2 * mn::fusion::attention_schedules(arithmetic, node, options.device).size());
    }
    return most;
  }

  [[nodiscard]] nlohmann::json measured(const pass& of, const mn::parameters& weights, mn::program_options how,
                                        const std::map<std::string, std::vector<double>>& expected) {
    timer_.prepare(how);
    mn::program run(gpu_, of.graph, weights, how);
    run.wait(run.submit({}));
    nlohmann::json row;
    for (const std::string& name : of.outputs)
      row["error"][name] = error_of(run.output_as<float>(name), expected.at(name));
    row["us"] = timer_.time(run);
    how.duration = false, how.profile = mn::profiling::dispatches;
    mn::program profiled(gpu_, of.graph, weights, how);
    row["kernels"] = timer_.kernels(profiled);
    return row;
  }

  static void print(const attention_shape& of, const nlohmann::json& row) {
    std::vector<std::string> errors;
    for (const auto& [name, error] : row["error"].items())
      errors.push_back(fmt::format("{} {:.1e}", name, error.get<double>()));
    fmt::print(stderr, "{:<10} {:<18} {:<5} {:<12} {:>9.1f} us  {}  [{}]\n", of.name, row["pass"].get<std::string>(),
               row["precision"].get<std::string>(), row["way"].get<std::string>(), row["us"]["median"].get<double>(),
               fmt::join(errors, ", "), side_by_side::text_of_kernels(row["kernels"]));
  }

  options asked_;
  mn::device gpu_;
  step_timer timer_;
};

void print_table(const nlohmann::json& report, const std::string& against) {
  const side_by_side::table table({"stored exact", "exact", "stored fast", "fast"}, against);
  std::vector<nlohmann::json> columns;
  for (const char* const precision : {"exact", "fast"}) {
    for (const char* const way : {"stored", "chosen"}) columns.push_back({{"precision", precision}, {"way", way}});
  }
  for (const auto& shape : report["shapes"]) {
    for (const char* const pass : {"forward", "forward + backward"})
      table.line(shape["name"], pass, shape["rows"], columns);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  options asked;
  CLI::App app("Attention and its gradients: checked against float64 and timed.");
  app.add_option("--shapes", asked.shapes, "smollm2,whisper,..; default all but \"small\"")->delimiter(',');
  app.add_option("--precision", asked.precisions)->delimiter(',')->check(CLI::IsMember({"exact", "fast"}));
  app.add_option("--schedules", asked.schedules, "so many ways on matrix units besides what is chosen");
  app.add_option("--rounds", asked.rounds)->check(CLI::PositiveNumber);
  app.add_option("--device", asked.device, "an index, a part of a name, or cpu");
  app.add_option("--against", asked.against, "what attention_pytorch.py wrote")->check(CLI::ExistingFile);
  app.add_option("--json", asked.json, "file to write");
  CLI11_PARSE(app, argc, argv);
  std::vector<std::string> names;
  for (const attention_shape& one : known) names.push_back(one.name);
  side_by_side::expect_known(asked.shapes, names);
  const nlohmann::json report = bench(asked).run();
  side_by_side::write(asked.json, report);
  print_table(report, asked.against);
  return 0;
} catch (const std::exception& e) {
  std::cerr << "attention: " << e.what() << '\n';
  return 1;
}
