// SPDX-License-Identifier: MIT
// What benchmarks that PyTorch has another side of share: shapes by name, files, and tables with its columns.
#pragma once
#include <meganeura/meganeura.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace side_by_side {

/// Throws invalid_argument for a name that is not among the known.
inline void expect_known(const std::vector<std::string>& asked, const std::vector<std::string>& known) {
  for (const std::string& each : asked) {
    if (std::ranges::find(known, each) == known.end())
      meganeura::fail(meganeura::error_category::invalid_argument, "there is no shape \"{}\"; there are {}", each,
                      fmt::join(known, ", "));
  }
}

/// To a file, or nowhere if it has no name. errors: io.
inline void write(const std::string& path, const nlohmann::json& report) {
  if (!path.empty() && !(std::ofstream(path) << report.dump(1) << '\n'))
    meganeura::fail(meganeura::error_category::io, "{} cannot be written", path);
}

/// "matmul .. 12.3; region .. 4.5": what step_timer::kernels found.
inline std::string text_of_kernels(const nlohmann::json& kernels) {
  std::vector<std::string> all;
  for (const auto& each : kernels)
    all.push_back(fmt::format("{} {:.1f}", each["name"].get<std::string>(), each["us"].get<double>()));
  return fmt::format("{}", fmt::join(all, "; "));
}

/// A line for each shape and pass: our columns, then PyTorch's from the file that its side wrote, if there is one.
class table {
 public:
  table(const std::vector<std::string>& ours, const std::string& against) {
    if (!against.empty()) std::ifstream(against) >> others_;
    if (others_.contains("columns")) columns_ = others_["columns"].get<std::vector<std::string>>();
    fmt::print("| shape | pass | {} |", fmt::join(ours, " | "));
    for (const std::string& each : columns_) fmt::print(" PyTorch {} |", each);
    fmt::print("\n|");
    for (std::size_t i = 0; i < 2 + ours.size() + columns_.size(); ++i) fmt::print("---|");
    fmt::print("\n");
  }

  /// Times are the medians of `rows`, the first that has what is asked of each column by key, if any has.
  void line(const std::string& shape, const std::string& pass, const nlohmann::json& rows,
            const std::vector<nlohmann::json>& asked) const {
    fmt::print("| {} | {} |", shape, pass);
    for (nlohmann::json each : asked) {
      each["pass"] = pass;
      const auto found = std::ranges::find_if(rows, [&](const nlohmann::json& row) {
        return std::ranges::all_of(each.items(), [&](const auto& item) { return row[item.key()] == item.value(); });
      });
      fmt::print(" {} |", found == rows.end() ? "" : fmt::format("{:.1f}", (*found)["us"]["median"].get<double>()));
    }
    for (const std::string& column : columns_) {
      const nlohmann::json* at = others_.contains("shapes") ? &others_["shapes"] : nullptr;
      for (const std::string& key : {shape, pass, column})
        at = at != nullptr && at->contains(key) ? &(*at)[key] : nullptr;
      fmt::print(" {} |", at != nullptr ? fmt::format("{:.1f}", at->get<double>()) : "");
    }
    fmt::print("\n");
  }

 private:
  nlohmann::json others_ = nlohmann::json::object();
  std::vector<std::string> columns_;
};

}  // namespace side_by_side
