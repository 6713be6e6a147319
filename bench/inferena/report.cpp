// SPDX-License-Identifier: MIT
// Figures as JSON, and as tables beside those of the other side.
#include "report.hpp"

#include <meganeura/core/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iostream>

namespace inferena {

namespace {

nlohmann::json to_json(const series& of) {
  return {{"median", of.median}, {"min", of.least}, {"max", of.most}, {"rounds", of.rounds}};
}

std::string row(const std::vector<std::string>& cells) { return fmt::format("| {} |\n", fmt::join(cells, " | ")); }
std::string head(const std::vector<std::string>& names) {
  return row(names) + row(std::vector<std::string>(names.size(), "---"));
}

// Three digits.
std::string shown(double ms) {
  return ms >= 100 ? fmt::format("{:.0f}", ms) : ms >= 10 ? fmt::format("{:.1f}", ms) : fmt::format("{:.2f}", ms);
}

std::string times_table(const nlohmann::json& report, const nlohmann::json& rows) {
  std::vector<std::string> names{"workload", "precision",    "task",   "ms",        "min to max",
                                 "device",   "back to back", "groups", "dispatches"};
  const std::vector<std::string> precisions = {"f32", "tf32", "bf16"};
  if (!rows.empty()) {
    for (const auto& each : precisions) names.insert(names.end(), {"PyTorch " + each, "ratio"});
  }
  std::string text = head(names);
  for (const auto& workload : report["workloads"]) {
    for (task which : every_task) {
      const auto found = workload["tasks"].find(to_string(which));
      if (found == workload["tasks"].end() || !found->contains("wall_ms")) continue;
      const nlohmann::json &wall = (*found)["wall_ms"], &device = (*found)["device_ms"];
      const double ours = wall["median"];
      std::vector<std::string> cells{workload["name"],
                                     workload["precision"],
                                     to_string(which),
                                     shown(ours),
                                     shown(wall["min"]) + " to " + shown(wall["max"]),
                                     shown(device["median"]),
                                     shown((*found)["back_to_back_ms"]),
                                     std::to_string((*found)["groups"].get<int>()),
                                     std::to_string((*found)["dispatches"].get<int>())};
      for (std::size_t i = 0; !rows.empty() && i < precisions.size(); ++i) {
        const double theirs = best_of_pytorch(rows, workload["name"], which, precisions[i]);
        cells.push_back(theirs > 0 ? shown(theirs) : "");
        const std::string ratio = theirs > 0 ? fmt::format("{:.2f}", ours / theirs) : "";
        cells.push_back(theirs > 0 && ours < theirs ? "**" + ratio + "**" : ratio);
      }
      text += row(cells);
    }
  }
  return text;
}

std::string preparation_table(const nlohmann::json& report) {
  std::vector<std::string> names{"workload", "precision", "task", "pipelines from", "total ms"};
  for (const auto& each : meganeura::build_phases) names.emplace_back(each.name);
  std::string text = head(names);
  for (const auto& workload : report["workloads"]) {
    for (task which : every_task) {
      const auto found = workload["tasks"].find(to_string(which));
      if (found == workload["tasks"].end()) continue;
      for (const char* kind : {"cold", "warm"}) {
        const auto times = found->find(std::string("preparation_") + kind);
        if (times == found->end()) continue;
        std::vector<std::string> cells{workload["name"], workload["precision"], to_string(which),
                                       std::string(kind) == "cold" ? "the compiler" : "the cache",
                                       shown((*times)["total"])};
        for (const auto& each : meganeura::build_phases) cells.push_back(shown((*times)[each.name]));
        text += row(cells);
      }
    }
  }
  return text;
}

std::string memory_table(const nlohmann::json& report, const nlohmann::json& rows) {
  std::string text = head({"workload", "precision", "task", "planned MB", "allocated MB", "PyTorch f32 MB"});
  for (const auto& workload : report["workloads"]) {
    for (task which : every_task) {
      const auto found = workload["tasks"].find(to_string(which));
      if (found == workload["tasks"].end()) continue;
      std::string theirs;
      for (const auto& each : rows) {
        if (each["workload"] != workload["name"] || each["mode"] != "f32") continue;
        const char* key = which == task::inference ? "infer_peak_mb" : "train_peak_mb";
        const bool has_one = which == task::inference || which == task::forward_backward;
        if (has_one && each.contains(key) && each[key].is_number())
          theirs = fmt::format("{:.0f}", each[key].get<double>() * 1.048576);
      }
      text += row({workload["name"], workload["precision"], to_string(which),
                   fmt::format("{:.1f}", (*found)["predicted_bytes"].get<double>() / 1e6),
                   fmt::format("{:.1f}", (*found)["allocated_bytes"].get<double>() / 1e6), theirs});
    }
  }
  return text;
}

std::string check_table(const nlohmann::json& report) {
  std::string text =
      head({"workload", "precision", "verdict", "outputs off by", "in inference", "loss", "worst gradient norm", "of"});
  for (const auto& workload : report["workloads"]) {
    const auto found = workload.find("check");
    if (found == workload.end()) {
      text += row({workload["name"], workload["precision"], "not checked: no float64 figures of this size", "", "", "",
                   "", ""});
      continue;
    }
    const bool passed = (*found)["passed"];
    text += row(
        {workload["name"], workload["precision"], passed ? "PASS" : "FAIL: " + (*found)["problem"].get<std::string>(),
         fmt::format("{:.1e}", (*found)["output"].get<double>()),
         found->contains("inference_output") ? fmt::format("{:.1e}", (*found)["inference_output"].get<double>()) : "",
         fmt::format("{:.1e}", (*found)["loss"].get<double>()),
         fmt::format("{:.1e}", (*found)["gradient_norm"].get<double>()), (*found)["worst_parameter"]});
  }
  return text;
}

std::string kernel_tables(const nlohmann::json& report) {
  std::string text;
  for (const auto& workload : report["workloads"]) {
    for (task which : every_task) {
      const auto found = workload["tasks"].find(to_string(which));
      if (found == workload["tasks"].end() || !found->contains("slowest")) continue;
      text += fmt::format("\n{}, {}, {}\n\n", workload["name"].get<std::string>(),
                          workload["precision"].get<std::string>(), to_string(which)) +
              head({"kernel", "count", "us", "MB", "GFLOP", "times the floor"});
      for (const auto& each : (*found)["slowest"]) {
        text += row({each["kernel"], std::to_string(each["count"].get<int>()), shown(each["us"]),
                     fmt::format("{:.1f}", each["bytes"].get<double>() / 1e6),
                     fmt::format("{:.2f}", each["flops"].get<double>() / 1e9),
                     fmt::format("{:.1f}", each["us"].get<double>() / std::max(each["floor_us"].get<double>(), 1e-3))});
      }
    }
  }
  return text;
}

}  // namespace

nlohmann::json to_json(const meganeura::build_times& of) {
  nlohmann::json result{{"total", of.total()}};
  for (const auto& each : meganeura::build_phases) result[each.name] = of.*each.milliseconds;
  return result;
}

nlohmann::json to_json(const measurement& of) {
  nlohmann::json result{{"dispatches", of.dispatches},
                        {"groups", of.groups},
                        {"predicted_bytes", of.predicted_bytes},
                        {"allocated_bytes", of.allocated_bytes}};
  if (of.wall.rounds > 0) {
    result["wall_ms"] = to_json(of.wall);
    result["device_ms"] = to_json(of.device);
    result["processor_ms"] = to_json(of.processor);
    result["back_to_back_ms"] = of.back_to_back;
  }
  const auto add_rows = [&](const char* to, const std::vector<meganeura::profile_row>& rows) {
    for (const meganeura::profile_row& each : rows) {
      result[to].push_back({{"kernel", each.text},
                            {"count", each.count},
                            {"us", each.nanoseconds / 1e3},
                            {"floor_us", each.floor / 1e3},
                            {"bytes", each.bytes},
                            {"flops", each.flops}});
    }
  };
  add_rows("slowest", of.slowest);
  add_rows("slowest_groups", of.slowest_groups);
  return result;
}

double best_of_pytorch(const nlohmann::json& rows, const std::string& workload, task which,
                       const std::string& precision) {
  constexpr const char* keys[] = {"infer", "latency", "train", "train_sgd", "train_adam"};
  double best = 0;
  for (const auto& each : rows) {
    const std::string mode = each.value("mode", "");
    const bool is_it = mode == precision || mode == precision + "+graph" || mode == precision + "w" ||
                       mode == precision + "w+graph" || mode.starts_with("compile-" + precision);
    const auto found = each.find(keys[static_cast<int>(which)]);
    if (each.value("workload", "") != workload || !is_it || found == each.end() || !found->is_object()) continue;
    const double ms = found->value("ms", 0.0);
    if (ms > 0 && (best == 0 || ms < best)) best = ms;
  }
  return best;
}

std::string to_markdown(const nlohmann::json& report, const nlohmann::json& pytorch) {
  const nlohmann::json rows = pytorch.is_object() ? pytorch["rows"] : nlohmann::json::array();
  std::string text =
      fmt::format("{}, {}, {}; precision {}", report["device"].get<std::string>(), report["driver"].get<std::string>(),
                  report["date"].get<std::string>(), report["precision"].get<std::string>());
  if (pytorch.is_object()) text += ", PyTorch " + pytorch["info"].value("torch", "");
  text += "\n";
  const auto section = [&](const char* title, const std::string& table) {
    if (!table.empty()) text += fmt::format("\n### {}\n\n{}", title, table);
  };
  section("Times", times_table(report, rows));
  section("Checks", check_table(report));
  section("Preparation", preparation_table(report));
  section("Memory", memory_table(report, rows));
  section("The slowest kernels, each alone", kernel_tables(report));
  for (const auto& note : report["notes"]) text += "\n" + note.get<std::string>() + "\n";
  return text;
}

void write(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  if (path == "-") {
    std::cout << text << std::endl;
    return;
  }
  std::ofstream file(path);
  if (!(file << text << '\n' << std::flush))
    meganeura::fail(meganeura::error_category::io, "{} cannot be written", path);
}

}  // namespace inferena
