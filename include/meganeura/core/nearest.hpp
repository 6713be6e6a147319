// SPDX-License-Identifier: MIT
// "Did you mean": the known name nearest to one that is not.
#pragma once
#include <meganeura/core/quote.hpp>

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

// The names come from files too: only those that could be nearer are compared, long ones never, and not for ever.
inline constexpr std::size_t longest_compared = 200, most_comparisons = std::size_t{1} << 24;  // of characters

// The nearest of the members `name` of `all`, or "" when none shares more than a quarter with `wanted`.
template <class Named, class Name>
std::string nearest_by(std::string_view wanted, const Named& all, Name name_of) {
  std::string_view best;
  std::size_t distance = wanted.size() > longest_compared ? 0 : (3 * wanted.size() + 3) / 4, work = 0;
  for (const auto& each : all) {
    const std::string_view candidate = name_of(each);
    const std::size_t longer = std::max(candidate.size(), wanted.size());
    if (longer - std::min(candidate.size(), wanted.size()) >= distance || candidate.size() > longest_compared) continue;
    work += wanted.size() * candidate.size();
    if (work > most_comparisons) break;
    const std::size_t d = edit_distance(wanted, candidate);
    if (d < distance) distance = d, best = candidate;
  }
  // The beginning of a name: a layer's instead of one of its parameters', before what only begins alike.
  for (const char* next : {".", ""}) {
    if (*next == 0 && wanted.size() < 3) break;
    for (const auto& each : all) {
      const std::string_view candidate = name_of(each);
      const bool inside = candidate.starts_with(wanted) && candidate.substr(wanted.size()).starts_with(next);
      if (best.empty() && !wanted.empty() && inside && candidate.size() <= longest_compared) best = candidate;
    }
  }
  return std::string(best);
}

inline std::string nearest(std::string_view wanted, const std::vector<std::string>& names) {
  return nearest_by(wanted, names, [](const std::string& name) -> std::string_view { return name; });
}

// The same over the member `name` of each element.
template <class Named>
std::string nearest_of(std::string_view wanted, const Named& all) {
  return nearest_by(wanted, all, [](const auto& each) -> std::string_view { return each.name; });
}

// "; did you mean "x"?", or nothing.
inline std::string did_you_mean(std::string_view near) {
  return near.empty() ? "" : "; did you mean " + quote(near) + "?";
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
