// SPDX-License-Identifier: MIT
// Definitions for runtime/parameter_groups.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/runtime/parameter_groups.hpp>

#include <fmt/ranges.h>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

inline void expect_matches(std::string_view option, const name_patterns& patterns,
                           const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const std::string& name) { return matched(pattern, name).has_value(); }))
      continue;
    std::string text = pattern;
    std::erase(text, '*');
    const std::string near = nearest(text, names);
    const std::vector<std::string> first(names.begin(), names.begin() + std::min<std::ptrdiff_t>(std::ssize(names), 4));
    fail(error_category::invalid_argument, "{}: no parameter is called {}; {}", option, quote(pattern),
         near.empty() ? fmt::format("there is \"{}\"{}", fmt::join(first, "\", \""), names.size() > 4 ? ", ..." : "")
                      : "the nearest is " + quote(near));
  }
}

}  // namespace detail

MEGANEURA_INLINE parameter_groups::parameter_groups(const graph& g, const name_patterns& frozen,
                                                    const name_patterns& no_decay,
                                                    std::span<const parameter_group> groups) try {
  std::vector<std::string> names;
  for (const node_id id : g.leaves(op::parameter)) names.push_back(g.get<leaf_attribute>(id).name);
  detail::expect_matches("frozen", frozen, names);
  detail::expect_matches("no_decay", no_decay, names);
  for (const parameter_group& group : groups) detail::expect_matches("groups", group.names, names);
  for (const std::string& name : names) {
    if (frozen.match(name)) continue;
    rates wanted;
    const auto group =
        std::ranges::find_if(groups, [&](const parameter_group& each) { return each.names.match(name); });
    if (group != groups.end()) wanted = {group->rate, group->weight_decay};
    if (no_decay.match(name)) wanted.weight_decay = 0.0f;
    auto known = std::ranges::find(groups_, wanted);
    if (known == groups_.end()) known = groups_.insert(known, wanted);
    group_of_.emplace(name, static_cast<std::uint32_t>(known - groups_.begin()));
  }
} catch (...) {
  rethrow_as_error("grouping parameters");
}

MEGANEURA_INLINE std::vector<optimizer> parameter_groups::optimizers(const optimizer& chosen) const try {
  float rate = 0;
  chosen.each_rate([&](std::string_view name, float value) { rate = name == "learning_rate" ? value : rate; });
  std::vector<optimizer> all;
  for (const rates& each : groups_) {
    optimizer own = each.factor == 1 ? chosen : chosen.with_rate("learning_rate", each.factor * rate);
    if (each.weight_decay) own = own.with_rate("weight_decay", *each.weight_decay);
    all.push_back(std::move(own));
  }
  return all;
} catch (...) {
  rethrow_as_error("grouping parameters");
}

}  // namespace meganeura::inline MEGANEURA_ABI
