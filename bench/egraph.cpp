// SPDX-License-Identifier: MIT
// What the optimiser makes of each workload, without a device: nodes, time, memory, groups, the hits of every rule, and
// what becomes of it without one family of rules.
//
// What --json writes: {"workloads": [{"name", "task", "precision", "nodes", "e_nodes", "classes", "ms": {"saturate",
// "implement", "extract", "total"}, "most_bytes": live on the heap beside the graph, "limits", "groups", "dispatches",
// "predicted_ms", "planned_bytes", "rules": {NAME: {"matches", "applied", "kernels"}}, "without": {FAMILY: {"groups",
// "dispatches", "predicted_ms", "planned_bytes", "optimize_ms"}}}], "unused": [rules that have a part in no kernel]}.
//
// --gym FILE... shows extraction alone, of e-graphs of others (egraph-serialize's JSON), whose costs are sums over what
// is chosen: of ours, of the cheapest trees, and the least there is, where a search of --visits choices proves it. Its
// --json: {"gym": [{"file", "classes", "nodes", "ours", "trees", "least": or null, "ms": of ours}]}.
#include <meganeura/core/error.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/plan/plan.hpp>

#include <fmt/format.h>
#include <malloc.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <new>
#include <string>
#include <vector>

#include <support/exact_choice.hpp>
#include <support/extraction_gym.hpp>

#include "inferena/measure.hpp"
#include "inferena/report.hpp"

namespace mn = meganeura;

namespace {

std::atomic<std::size_t> live_bytes = 0, most_bytes = 0;

void* counted(void* made) {
  if (made == nullptr) throw std::bad_alloc();
  const std::size_t live = live_bytes += malloc_usable_size(made);
  if (live > most_bytes) most_bytes = live;
  return made;
}
void release(void* made) {
  live_bytes -= malloc_usable_size(made);
  std::free(made);
}

}  // namespace

// The C++ standard library's other forms call these.
void* operator new(std::size_t size) { return counted(std::malloc(size)); }
void operator delete(void* made) noexcept { release(made); }
void operator delete(void* made, std::size_t) noexcept { release(made); }

namespace {

struct options {
  std::vector<std::string> models, precisions{"exact", "fast"}, without, gym;
  std::vector<double> budgets;  // shares of the memory of a step's values
  std::string json, explain;
  int rounds = 3;
  std::size_t visits = 20000;
  bool is_small = false, matrix_units = true, ablations = true;
};

// What is left out, by a name: rules, or what `without` says.
struct ablation {
  std::string name;
  std::vector<std::string> disabled;
  void (*without)(mn::fusion::optimize_options&) = nullptr;
};
const std::vector<ablation> ablations{
    {"search", {}, [](auto& o) { o.search_passes = 0; }},
    {"search and merging", {"merge_regions"}, [](auto& o) { o.search_passes = 0; }},
    {"one form a value", {}, [](auto& o) { o.region_forms = 1; }},
    {"algebra", {"algebra"}},
    {"fusion", {"fusion", "products"}},
    {"rows", {"fuse_rows"}},
    {"recomputation", {"recompute"}},
    {"epilogues", {"epilogues"}},
    {"views in products", {"matmul_view"}},
    {"prologues", {"matmul_prologue"}},
    {"pairs", {"matmul_pair"}},
    {"products of several results", {"matmul_results"}},
    {"rotary embeddings in products", {"matmul_rotary"}},
    {"regions of several results", {"merge_regions"}},
    {"attention", {"attention"}},
    {"weights told by attention", {"attention_weights"}},
    {"gradients of attention", {"attention_gradients"}},
    {"prepared rows", {"prepare_rows"}},
    {"parts of sums", {"splits"}},
    {"matrix units", {}, [](auto& o) { o.matrix_units = false; }},
};

// A device like an H100, of whose times a profile without a device is.
mn::fusion::optimize_options on_device(const options& asked, const std::string& precision) {
  mn::fusion::optimize_options made;
  made.precision = precision == "fast" ? mn::precision::fast : mn::precision::exact;
  made.disabled = asked.without;
  if (asked.matrix_units) {
    made.device.matrix_units = mn::matrix_units::cooperative, made.device.fragments_by_rows = true;
    made.device.max_shared_bytes = 49152, made.device.max_invocations = 1024, made.device.f16 = true;
  }
  return made;
}

nlohmann::json planned(const mn::graph& g, mn::graph chosen, const mn::fusion::optimize_report& report,
                       const mn::fusion::optimize_options& how) {
  const auto plan = mn::plan::make_plan(std::move(chosen), mn::plan::make_layout(g),
                                        {.fold = how.fold, .times = report.times, .launch = how.device.launch});
  return {{"groups", plan.groups},
          {"dispatches", plan.steps.size()},
          {"folded", plan.folded.size()},
          {"predicted_ms", 1e3 * report.predicted_seconds},
          {"balanced_ms", 1e3 * plan.predicted_seconds},
          {"planned_bytes", plan.peak_bytes()}};
}

// What a step takes in a part of the memory that its values have.
nlohmann::json within_budgets(const mn::graph& g, const mn::graph& chosen, mn::plan::plan_options how,
                              const std::vector<double>& shares) {
  const mn::plan::layout parameters = mn::plan::make_layout(g);
  const auto whole = mn::plan::make_plan(chosen, parameters, how);
  const auto values = static_cast<double>(whole.area_bytes[mn::plan::index_of(mn::plan::area::arena)]);
  nlohmann::json result = nlohmann::json::array();
  for (const double share : shares) {
    how.memory_budget = whole.peak_bytes() - static_cast<std::uint64_t>((1 - share) * values);
    nlohmann::json each{{"share", share}, {"bytes", how.memory_budget}, {"of", whole.peak_bytes()}};
    try {
      const auto [plan, milliseconds] =
          mn::detail::take_time([&] { return mn::plan::make_plan(chosen, parameters, how); });
      each["again"] = plan.computed_again(), each["groups"] = plan.groups, each["planning_ms"] = milliseconds;
      each["times_as_long"] = plan.predicted_seconds / whole.predicted_seconds;
    } catch (const mn::error& refused) {
      each["refused"] = refused.what();
    }
    result.push_back(std::move(each));
  }
  return result;
}

nlohmann::json measured(const mn::graph& g, const mn::fusion::optimize_options& how, int rounds, bool ablates,
                        const std::vector<double>& budgets, std::string* explain) {
  std::vector<mn::fusion::optimize_report> reports(static_cast<std::size_t>(rounds));
  nlohmann::json result;
  std::size_t most = 0;
  for (mn::fusion::optimize_report& report : reports) {
    const std::size_t before = most_bytes = live_bytes.load();
    mn::graph chosen = mn::fusion::optimize(g, how, &report);
    most = std::max(most, most_bytes - before);
    if (!result.is_null()) continue;
    const auto within = within_budgets(g, chosen, {.times = report.times, .launch = how.device.launch}, budgets);
    result = planned(g, std::move(chosen), report, how);
    result["budgets"] = within;
  }
  std::ranges::sort(reports, {}, &mn::fusion::optimize_report::total_ms);
  const mn::fusion::optimize_report& report = reports[reports.size() / 2];
  result["nodes"] = g.size(), result["e_nodes"] = report.enodes, result["classes"] = report.classes;
  result["ms"] = {{"saturate", report.saturate_ms},
                  {"implement", report.implement_ms},
                  {"extract", report.extract_ms},
                  {"total", report.total_ms}};
  result["most_bytes"] = most, result["limits"] = report.limits;
  for (const auto& rule : report.rules)
    result["rules"][rule.name] = {{"matches", rule.matches}, {"applied", rule.applied}, {"kernels", rule.kernels}};
  for (const ablation& each : ablations) {
    if (!ablates) break;
    mn::fusion::optimize_options without = how;
    without.disabled.insert(without.disabled.end(), each.disabled.begin(), each.disabled.end());
    if (each.without != nullptr) each.without(without);
    mn::fusion::optimize_report made;
    mn::graph chosen = mn::fusion::optimize(g, without, &made);
    result["without"][each.name] = planned(g, std::move(chosen), made, without);
    result["without"][each.name]["optimize_ms"] = made.total_ms;
  }
  if (explain != nullptr) {
    mn::fusion::optimize_options explained = how;
    explained.explain = true;
    mn::fusion::optimize_report made;
    (void)mn::fusion::optimize(g, explained, &made);
    *explain += made.explain;
  }
  return result;
}

std::string to_markdown(const nlohmann::json& report) {
  std::string text =
      "| workload | task | precision | nodes | e-nodes | optimise ms | heap MB | groups | dispatches | predicted ms |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  const auto end = std::back_inserter(text);
  for (const auto& w : report["workloads"]) {
    fmt::format_to(end, "| {} | {} | {} | {} | {} | {:.1f} | {:.1f} | {} | {} | {:.3f} |\n",
                   w["name"].get<std::string>(), w["task"].get<std::string>(), w["precision"].get<std::string>(),
                   w["nodes"].get<std::size_t>(), w["e_nodes"].get<std::size_t>(), w["ms"]["total"].get<double>(),
                   1e-6 * w["most_bytes"].get<double>(), w["groups"].get<std::size_t>(),
                   w["dispatches"].get<std::size_t>(), w["predicted_ms"].get<double>());
  }
  const auto column = [&](const auto& cell) {
    for (const auto& w : report["workloads"]) text += cell(w);
    text += '\n';
  };
  const auto begin_table = [&](const char* title, const char* first) {
    fmt::format_to(end, "\n{}:\n\n| {} |", title, first);
    column([](const auto& w) {
      return fmt::format(" {}, {}, {} |", w["name"].template get<std::string>(), w["task"].template get<std::string>(),
                         w["precision"].template get<std::string>());
    });
    text += "|---|";
    column([](const auto&) { return "---|"; });
  };
  if (!report["workloads"][0]["budgets"].empty()) {
    begin_table("Times as long in a part of the memory of a step's values (dispatches again)", "part");
    for (std::size_t i = 0; i < report["workloads"][0]["budgets"].size(); ++i) {
      fmt::format_to(end, "| {} |", report["workloads"][0]["budgets"][i]["share"].get<double>());
      column([&](const auto& w) {
        const auto& each = w["budgets"][i];
        if (each.contains("refused")) return std::string(" - |");
        return fmt::format(" {:.3f} ({}) |", each["times_as_long"].template get<double>(),
                           each["again"].template get<std::size_t>());
      });
    }
  }
  begin_table("Times as long without (predicted; groups)", "without");
  for (const ablation& each : ablations) {
    if (!report["workloads"][0].contains("without")) break;
    fmt::format_to(end, "| {} |", each.name);
    column([&](const auto& w) {
      const auto& without = w["without"][each.name];
      return fmt::format(" {:.3f}; {} |",
                         without["predicted_ms"].template get<double>() / w["predicted_ms"].template get<double>(),
                         without["groups"].template get<std::size_t>());
    });
  }
  begin_table("Kernels of the plan that a rule had a part in (times that it was applied)", "rule");
  for (const auto& rule : report["workloads"][0]["rules"].items()) {
    fmt::format_to(end, "| {} |", rule.key());
    column([&](const auto& w) {
      const auto& hits = w["rules"][rule.key()];
      return fmt::format(" {} ({}) |", hits["kernels"].template get<std::size_t>(),
                         hits["applied"].template get<std::size_t>());
    });
  }
  return text;
}

nlohmann::json extracted(const std::string& path, const options& asked) {
  const auto g = mn::support::read_gym(path);
  std::vector<double> times;
  double ours = 0;
  for (int round = 0; round < asked.rounds; ++round) {
    const auto [taken, milliseconds] = mn::detail::take_time([&] { return mn::support::extract_gym(g); });
    ours = taken.seconds;
    times.push_back(milliseconds);
  }
  std::ranges::sort(times);
  mn::support::exact_choice choices(g.graph, g.roots, mn::support::gym_time(g), {});
  nlohmann::json least;
  if (choices.is_small()) {
    const auto found = choices.quickest(ours, asked.visits);
    if (found.is_proven) least = found.seconds;
  }
  return {{"file", path},
          {"classes", g.classes},
          {"nodes", g.nodes},
          {"ours", ours},
          {"trees", mn::support::tree_choice_cost(g)},
          {"least", least},
          {"ms", times[times.size() / 2]}};
}

std::string gym_table(const nlohmann::json& report) {
  std::string text = "| file | classes | nodes | ours | cheapest trees | least | ms |\n|---|---|---|---|---|---|---|\n";
  for (const auto& each : report["gym"]) {
    fmt::format_to(std::back_inserter(text), "| {} | {} | {} | {:.10g} | {:.10g} | {} | {:.2f} |\n",
                   each["file"].get<std::string>(), each["classes"].get<std::size_t>(),
                   each["nodes"].get<std::size_t>(), each["ours"].get<double>(), each["trees"].get<double>(),
                   each["least"].is_null() ? "-" : fmt::format("{:.10g}", each["least"].get<double>()),
                   each["ms"].get<double>());
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  options asked;
  CLI::App app("What the optimiser makes of each workload of bench/inferena, without a device.");
  app.add_option("--models", asked.models, "smollm2,resnet50,..; default all")->delimiter(',');
  app.add_option("--precision", asked.precisions)->delimiter(',')->check(CLI::IsMember({"exact", "fast"}));
  app.add_flag("--small", asked.is_small, "tiny shapes");
  app.add_flag("!--no-matrix-units", asked.matrix_units, "as for a device that has none");
  app.add_flag("!--no-ablations", asked.ablations, "the full set of rules alone");
  app.add_option("--without", asked.without, "rules that are left out everywhere")->delimiter(',');
  app.add_option("--budgets", asked.budgets, "parts of the memory of values to plan steps with AdamW for, such as 0.5")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--rounds", asked.rounds, "the median round is reported")->check(CLI::PositiveNumber);
  app.add_option("--explain", asked.explain, "write which rules made each kernel");
  app.add_option("--json", asked.json, "file, or - for standard output instead of tables");
  app.add_option("--gym", asked.gym, "extraction alone, of e-graphs in files of egraph-serialize")
      ->check(CLI::ExistingFile);
  app.add_option("--visits", asked.visits, "partial choices to look at for the least there is")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (!asked.gym.empty()) {
    nlohmann::json report{{"gym", nlohmann::json::array()}};
    for (const std::string& path : asked.gym) report["gym"].push_back(extracted(path, asked));
    inferena::write(asked.json.empty() ? "-" : asked.json, asked.json.empty() ? gym_table(report) : report.dump(1));
    return 0;
  }
  using namespace inferena;
  nlohmann::json report{{"workloads", nlohmann::json::array()}};
  std::string explain;
  for (const workload& each : every_workload(asked.is_small ? size::small : size::full)) {
    if (!asked.models.empty() && std::ranges::find(asked.models, each.name) == asked.models.end()) continue;
    for (const task which : {task::inference, task::forward_backward, task::adamw}) {
      if ((which == task::adamw) != !asked.budgets.empty() || !has(each, which)) continue;
      const prepared made = prepare(each, which);
      for (const std::string& precision : asked.precisions) {
        if (!asked.explain.empty()) explain += fmt::format("== {}, {}, {}\n", each.name, to_string(which), precision);
        mn::fusion::optimize_options how = on_device(asked, precision);
        how.fold = which == task::inference;
        report["workloads"].push_back(measured(made.made.graph, how, asked.rounds, asked.ablations, asked.budgets,
                                               asked.explain.empty() ? nullptr : &explain));
        report["workloads"].back().update({{"name", each.name}, {"task", to_string(which)}, {"precision", precision}});
      }
    }
  }
  if (report["workloads"].empty()) {
    mn::fail(mn::error_category::invalid_argument, "none of these is a workload; bench/inferena --help names them");
  }
  report["unused"] = nlohmann::json::array();
  for (const auto& rule : report["workloads"][0]["rules"].items()) {
    const bool is_used =
        std::ranges::any_of(report["workloads"], [&](const auto& w) { return w["rules"][rule.key()]["kernels"] > 0; });
    if (!is_used) report["unused"].push_back(rule.key());
  }
  write(asked.explain, explain);
  write(asked.json.empty() ? "-" : asked.json,
        asked.json.empty() ? ::to_markdown(report) + "\nwithout a kernel: " + report["unused"].dump() : report.dump(1));
} catch (const std::exception& e) {
  std::cerr << "egraph: " << e.what() << '\n';
  return 1;
}
