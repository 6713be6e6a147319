// SPDX-License-Identifier: MIT
// SmolLM2-135M, 128 tokens, f32: forward and forward + backward on a device, checked against float64 reference values.
#include <meganeura/meganeura.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <support/smollm2_reference.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <numeric>

namespace mn = meganeura;

namespace {

// The Inferena workload's RoPE base; the published checkpoint has 100000.
constexpr mn::models::llama::config config = [] {
  mn::models::llama::config c = mn::models::smollm2_135m;
  c.rope_theta = 1e4f;
  return c;
}();
using model = mn::model<mn::models::smollm2<config>, mn::input<"tokens", mn::dtype::i32, mn::dims<mn::sym<"seq">>>>;
constexpr std::int64_t sequence = 128;

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct inputs {
  std::vector<std::int32_t> tokens, labels;
  void set(mn::program& run) const {
    run.set_input("tokens", mn::dtype::i32, std::as_bytes(std::span(tokens)));
    if (run.plan().inputs.find("label")) run.set_input("label", mn::dtype::i32, std::as_bytes(std::span(labels)));
  }
};

// Medians over steps with a wait after each, as the PyTorch side times its calls.
nlohmann::json timed(mn::program& run, const inputs& data, int rounds) {
  std::vector<double> milliseconds;
  for (int i = -5; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    data.set(run);
    run.wait(run.submit());
    if (i >= 0)
      milliseconds.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(milliseconds);
  return {{"median_ms", milliseconds[milliseconds.size() / 2]},
          {"min_ms", milliseconds.front()},
          {"max_ms", milliseconds.back()},
          {"dispatches", run.plan().steps.size()},
          {"groups", run.plan().groups},
          {"peak_bytes", run.plan().peak_bytes()},
          {"build_ms", run.times().total()}};
}

// Time by kind of kernel, from a build with timestamps.
nlohmann::json profile(const mn::device& gpu, const mn::graph& g, const mn::parameters& weights, const inputs& data) {
  mn::program run(gpu, g, weights, {.profile = true});
  for (int i = 0; i < 3; ++i) {
    data.set(run);
    run.wait(run.submit());
  }
  std::map<std::string, std::pair<int, double>> kinds;
  for (const auto& timing : run.profile()) {
    auto& [count, us] = kinds[timing.kernel];
    ++count, us += timing.nanoseconds / 1000;
  }
  std::vector<nlohmann::json> rows;
  for (const auto& [label, total] : kinds)
    rows.push_back({{"kernel", label}, {"count", total.first}, {"us", total.second}});
  std::ranges::sort(rows, std::greater<>(), [](const nlohmann::json& row) { return row["us"].get<double>(); });
  rows.resize(std::min<std::size_t>(rows.size(), 25));
  return rows;
}

nlohmann::json deviations(const mn::program& run, const mn::parameters& weights, const nlohmann::json& reference) {
  const double loss = floats(run.output("loss"))[0], expected = reference["loss"];
  double worst = 0, square = 0;
  std::string worst_name;
  for (const auto& tensor : weights.layout().tensors) {
    double sum = 0;
    for (float value : floats(run.output("grad:" + tensor.name)))
      sum += static_cast<double>(value) * static_cast<double>(value);
    const double norm = reference["grad_norms"].at(tensor.name), error = std::fabs(std::sqrt(sum) - norm) / norm;
    square += sum;
    if (error <= worst) continue;
    worst = error, worst_name = tensor.name;
  }
  return {{"loss", loss},
          {"loss_relative", std::fabs(loss - expected) / expected},
          {"gradient_norm", std::sqrt(square)},
          {"gradient_norm_reference", reference["grad_norm"]},
          {"worst_norm_relative", worst},
          {"worst", worst_name}};
}

nlohmann::json measure(const std::string& device_name, const std::string& reference_file, int rounds) {
  const mn::symbol_extent symbols[] = {{"seq", sequence}};
  mn::graph forward = mn::lower<model>(symbols), g;
  const auto logits = mn::lower_into<model>(g, symbols);
  const mn::node_id loss = mn::lower_loss<model, mn::cross_entropy<"label">>(g, logits, symbols)[0];
  g.add_output("loss", loss);
  const auto leaves = g.leaves(mn::op::parameter);
  const auto slopes = mn::gradients(g, loss, leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    g.add_output("grad:" + g.get<mn::leaf_attribute>(leaves[i]).name, slopes[i]);

  const mn::device gpu({.device = device_name});
  mn::parameters weights(gpu, g);
  for (const auto& tensor : weights.layout().tensors)
    weights.set(tensor.name, mn::support::smollm2_weights(tensor.name, tensor.extents));
  inputs data{std::vector<std::int32_t>(sequence), std::vector<std::int32_t>(sequence)};
  std::iota(data.tokens.begin(), data.tokens.end(), 0);
  std::iota(data.labels.begin(), data.labels.end(), 1);

  nlohmann::json report{{"workload", "smollm2"}, {"device", gpu.facts().name}, {"driver", gpu.facts().driver}};
  {
    mn::program run(gpu, forward, weights);
    report["forward"] = timed(run, data, rounds);
  }
  mn::program run(gpu, g, weights);
  report["forward_backward"] = timed(run, data, rounds);
  if (!reference_file.empty()) {
    std::ifstream file(reference_file);
    report["deviation"] = deviations(run, weights, nlohmann::json::parse(file)["smollm2"]);
  }
  report["profile"] = profile(gpu, g, weights, data);
  return report;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string device, reference, json;
  int rounds = 30;
  CLI::App app("SmolLM2-135M on 128 tokens: forward, and forward + backward, in f32.");
  app.add_option("--device", device);
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  app.add_option("--reference", reference, "JSON with float64 loss and gradient norms of every parameter")
      ->check(CLI::ExistingFile);
  app.add_option("--json", json, "file, or - for standard output")->expected(0, 1)->default_str("-");
  CLI11_PARSE(app, argc, argv);
  const std::string report = measure(device, reference, rounds).dump(1);
  if (json.empty() || json == "-")
    std::cout << report << '\n';
  else
    std::ofstream(json) << report << '\n';
} catch (const std::exception& e) {
  std::cerr << "smollm2: " << e.what() << '\n';
  return 1;
}
