// SPDX-License-Identifier: MIT
// From type to plan without a device: SmolLM2-135M training, 30 layers; node counts, groups, peak memory, milliseconds.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>

namespace mn = meganeura;

namespace {

using model = mn::model<mn::models::smollm2::language_model<mn::models::smollm2::smollm2_135m>,
                        mn::input<"tokens", mn::dtype::i32, mn::dims<mn::sym<"seq">>>>;

double milliseconds(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

struct wanted {
  std::int64_t sequence = 128;
  bool matrix_units = false;
  mn::precision precision = mn::precision::exact;
};

nlohmann::json prepare(const wanted& asked, std::string* text, std::string* explain) {
  const mn::symbol_extent symbols[] = {{"seq", asked.sequence}};
  const auto start = std::chrono::steady_clock::now();
  const mn::graph g = mn::make_training_graph<model, mn::cross_entropy<"label">>(mn::adam{}, symbols);
  const auto traced = std::chrono::steady_clock::now();
  mn::fusion::optimize_report report;
  mn::fusion::optimize_options options{.precision = asked.precision, .explain = explain != nullptr};
  if (asked.matrix_units) {
    options.device.matrix_units = mn::matrix_units::cooperative;
    options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024;
  }
  mn::graph chosen = mn::fusion::optimize(g, options, &report);
  const auto optimised = std::chrono::steady_clock::now();
  const auto weights = mn::plan::make_layout(g);
  const auto plan =
      mn::plan::make_plan(std::move(chosen), weights, {.times = report.times, .launch = options.device.launch});
  const auto planned = std::chrono::steady_clock::now();
  if (text) *text = mn::plan::to_text(plan);
  if (explain) *explain = report.explain;
  nlohmann::json rules;
  for (const auto& rule : report.rules) rules[rule.name] = {{"matches", rule.matches}, {"applied", rule.applied}};
  return {{"workload", "SmolLM2-135M training"},
          {"tokens", asked.sequence},
          {"nodes", g.size()},
          {"e_nodes", report.enodes},
          {"classes", report.classes},
          {"iterations", report.iterations},
          {"limits", report.limits},
          {"rules", rules},
          {"implementation_nodes", report.nodes_out},
          {"dispatches", plan.steps.size()},
          {"groups", plan.groups},
          {"peak_bytes", plan.peak_bytes()},
          {"arena_bytes", plan.area_bytes[mn::plan::index_of(mn::plan::area::arena)]},
          {"unaliased_arena_bytes", plan.unaliased_arena_bytes},
          {"ms",
           {{"trace_and_differentiate", milliseconds(start, traced)},
            {"saturate", report.saturate_ms},
            {"implement", report.implement_ms},
            {"extract", report.extract_ms},
            {"optimize", milliseconds(traced, optimised)},
            {"plan", milliseconds(optimised, planned)},
            {"total", milliseconds(start, planned)}}}};
}

}  // namespace

int main(int argc, char** argv) try {
  wanted asked;
  int rounds = 5;
  std::string json, plan_file, explain_file;
  CLI::App app("Prepares the 30-layer SmolLM2 training plan without a device.");
  app.add_option("--tokens", asked.sequence)->check(CLI::PositiveNumber);
  app.add_flag("--matrix-units", asked.matrix_units, "as for a device that has them");
  const std::map<std::string, mn::precision> precisions{{"exact", mn::precision::exact}, {"fast", mn::precision::fast}};
  app.add_option("--precision", asked.precision)->transform(CLI::CheckedTransformer(precisions));
  app.add_option("--rounds", rounds, "the median round is reported")->check(CLI::PositiveNumber);
  app.add_option("--plan", plan_file, "write the plan as text");
  app.add_option("--explain", explain_file, "write which rules made each kernel");
  app.add_option("--json", json, "file, or - for standard output")->expected(0, 1)->default_str("-");
  CLI11_PARSE(app, argc, argv);
  std::string plan, explain;
  std::vector<nlohmann::json> reports;
  for (int i = 0; i < rounds; ++i) reports.push_back(prepare(asked, i ? nullptr : &plan, i ? nullptr : &explain));
  std::ranges::sort(reports, {}, [](const nlohmann::json& r) { return r["ms"]["total"].get<double>(); });
  const std::string report = reports[reports.size() / 2].dump(1);
  if (!plan_file.empty()) std::ofstream(plan_file) << plan;
  if (!explain_file.empty()) std::ofstream(explain_file) << explain;
  if (json.empty() || json == "-")
    std::cout << report << '\n';
  else
    std::ofstream(json) << report << '\n';
} catch (const std::exception& e) {
  std::cerr << "prepare: " << e.what() << '\n';
  return 1;
}
