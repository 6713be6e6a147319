// SPDX-License-Identifier: MIT
// Definitions for runtime/taps.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/runtime/taps.hpp>

#include <fmt/ranges.h>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::detail {

inline std::vector<std::string> named(const std::vector<graph_output>& taps) {
  std::vector<std::string> names;
  for (const graph_output& tap : taps) names.push_back(tap.name);
  return names;
}

inline bool any_matches(std::string_view pattern, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& each) { return matched(pattern, each).has_value(); });
}

[[noreturn]] inline void refuse_tap(std::string_view pattern, const std::vector<std::string>& names) {
  fail(error_category::invalid_argument, "taps: no value is tapped as {}; {}{}", quote(pattern),
       names.empty() ? "the graph has no tap" : fmt::format("there is \"{}\"", fmt::join(names, "\", \"")),
       did_you_mean(nearest(pattern, names)));
}

MEGANEURA_INLINE graph with_taps(graph g, const name_patterns& asked,
                                 const std::function<std::vector<graph_output>()>& elsewhere) {
  const std::vector<graph_output> taps = g.taps();
  const std::vector<std::string> names = named(taps);
  for (const std::string& pattern : asked) {
    if (!any_matches(pattern, names) && !(elsewhere && any_matches(pattern, named(elsewhere()))))
      refuse_tap(pattern, names);
  }
  for (const graph_output& tap : taps) {
    const node_id output = g.find_output(tap.name);
    if (!asked.match(tap.name) || output == tap.node) continue;
    if (output != no_id) {
      fail(error_category::invalid_argument,
           "taps: {} names a tap and a result, which are two values; give one of them another name", quote(tap.name));
    }
    g.add_output(tap.name, tap.node);
  }
  return g;
}

inline std::string full_path(const std::string& path, const std::string& name) {
  return path.empty() || name.empty() ? path + name : path + '.' + name;
}

// With the path of the modules around each, the turns of a repeat one by one.
inline std::vector<std::string> tap_names(const module_body& body, const std::string& path) {
  std::vector<std::string> names;
  for (int i = 0; i < body.size; ++i) {
    const typed_node& n = body.nodes[i];
    if (n.kind == primitive::tap) names.push_back(full_path(path, n.name->text));
    if (!n.body) continue;
    const std::string inner = full_path(path, n.name->text);
    const bool repeats = n.kind == primitive::repeat;
    for (int turn = 0; turn < (repeats ? n.count : 1); ++turn) {
      const auto found = tap_names(*n.body, repeats ? full_path(inner, std::to_string(turn)) : inner);
      names.insert(names.end(), found.begin(), found.end());
    }
  }
  return names;
}

MEGANEURA_INLINE void check_taps(const name_patterns& asked, std::span<const scoped_body> bodies) try {
  if (asked.begin() == asked.end()) return;
  std::vector<std::string> names;
  for (const scoped_body& each : bodies) {
    const std::vector<std::string> found = tap_names(*each.body, each.scope);
    names.insert(names.end(), found.begin(), found.end());
  }
  for (const std::string& pattern : asked) {
    if (!any_matches(pattern, names)) refuse_tap(pattern, names);
  }
} catch (...) {
  rethrow_as_error("looking for taps");
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
