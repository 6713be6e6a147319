// SPDX-License-Identifier: MIT
// "Did you mean": the known name nearest to one that is not.
#pragma once
#include <meganeura/config.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

// Levenshtein distance.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

// The nearest of `names`, or "" when none shares anything with `wanted`.
inline std::string nearest(std::string_view wanted, const std::vector<std::string>& names) {
  std::string best;
  std::size_t distance = wanted.size();
  for (const std::string& candidate : names) {
    const std::size_t d = edit_distance(wanted, candidate);
    if (d < distance) distance = d, best = candidate;
  }
  return best;
}

// The same over the member `name` of each element.
template <class Named>
std::string nearest_of(std::string_view wanted, const Named& all) {
  std::vector<std::string> names;
  for (const auto& each : all) names.push_back(each.name);
  return nearest(wanted, names);
}

// "; did you mean "x"?", or nothing.
inline std::string did_you_mean(const std::string& near) { return near.empty() ? "" : "; did you mean \"" + near + "\"?"; }

}  // namespace meganeura::inline MEGANEURA_ABI::detail
