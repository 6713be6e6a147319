// SPDX-License-Identifier: MIT
// Definitions for runtime/parameter_groups.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/runtime/parameter_groups.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

inline void expect_matches(std::string_view option, const name_patterns& patterns, std::span<const std::string> names) {
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const std::string& name) { return matched(pattern, name).has_value(); }))
      continue;
    std::string text = pattern;
    std::erase(text, '*');
    const std::string near = nearest(text, {names.begin(), names.end()});
    const std::span<const std::string> first = names.first(std::min<std::size_t>(names.size(), 4));
    fail(error_category::invalid_argument, "{}: no parameter is called {}; {}", option, quote(pattern),
         near.empty() ? fmt::format("there is \"{}\"{}", fmt::join(first, "\", \""), names.size() > 4 ? ", ..." : "")
                      : "the nearest is " + quote(near));
  }
}

inline std::string shown_names(const parameter_group& group) {
  std::string text;
  for (const std::string& name : group.names) text += (text.empty() ? "" : ", ") + quote(name);
  return text;
}

MEGANEURA_INLINE void check_groups(std::span<const parameter_group> groups) {
  const auto check = [](const parameter_group& group, std::string_view what, float value) {
    if (value >= 0 && std::isfinite(value)) return;
    fail(error_category::invalid_argument, "groups: {} of {} is {}; it must be finite and at least 0", what,
         shown_names(group), value);
  };
  for (const parameter_group& group : groups) {
    if (group.names.begin() == group.names.end()) {
      fail(error_category::invalid_argument,
           "groups: number {} names no parameter; say which: {{.names = \"encoder.*\", .rate = {}}}",
           &group - groups.data() + 1, group.rate);
    }
    check(group, "the rate, a factor of the learning rate,", group.rate);
    check(group, "the weight_decay", group.weight_decay.value_or(0));
  }
}

}  // namespace detail

MEGANEURA_INLINE parameter_groups::parameter_groups(std::span<const std::string> names, const name_patterns& frozen,
                                                    const name_patterns& no_decay,
                                                    std::span<const parameter_group> groups, parameter_groups known) try
    : groups_(std::move(known.groups_)) {
  detail::check_groups(groups);
  detail::expect_matches("frozen", frozen, names);
  detail::expect_matches("no_decay", no_decay, names);
  for (const parameter_group& group : groups) detail::expect_matches("groups", group.names, names);
  std::vector<bool> has_some(groups.size());
  for (const std::string& name : names) {
    if (frozen.match(name)) {
      group_of_.emplace(name, frozen_group);
      continue;
    }
    rates wanted;
    const auto group =
        std::ranges::find_if(groups, [&](const parameter_group& each) { return each.names.match(name); });
    if (group != groups.end()) {
      wanted = {group->rate, group->weight_decay};
      has_some[static_cast<std::size_t>(group - groups.begin())] = true;
    }
    if (no_decay.match(name)) wanted.weight_decay = 0.0f;
    auto found = std::ranges::find(groups_, wanted);
    if (found == groups_.end()) found = groups_.insert(found, wanted);
    group_of_.emplace(name, static_cast<std::uint32_t>(found - groups_.begin()));
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (has_some[i]) continue;
    fail(error_category::invalid_argument,
         "groups: all parameters called {} are frozen or of an earlier group; leave the group out, or put it first",
         detail::shown_names(groups[i]));
  }
} catch (...) {
  rethrow_as_error("grouping parameters");
}

MEGANEURA_INLINE std::vector<optimizer> parameter_groups::optimizers(const optimizer& chosen) const try {
  const float rate = chosen.learning_rate();
  std::vector<optimizer> all;
  for (const rates& each : groups_) {
    if (std::isfinite(rate) && !std::isfinite(each.factor * rate)) {
      fail(error_category::invalid_argument,
           "groups: {} times the learning rate, {}, is not finite; choose a smaller rate", each.factor, rate);
    }
    optimizer own = each.factor == 1 ? chosen : chosen.with_rate("learning_rate", each.factor * rate);
    if (each.weight_decay) own = own.with_rate("weight_decay", *each.weight_decay);
    all.push_back(std::move(own));
  }
  return all;
} catch (...) {
  rethrow_as_error("grouping parameters");
}

MEGANEURA_INLINE std::map<std::string, std::string> parameter_groups::described() const try {
  std::map<std::string, std::string> all;
  for (const auto& [name, number] : group_of_) {
    if (number == frozen_group) {
      all.emplace(name, "frozen");
    } else if (const rates& own = groups_[number]; own != rates{}) {
      std::string text = own.factor == 1 ? "" : fmt::format("learning_rate * {}", own.factor);
      if (own.weight_decay) text += fmt::format("{}weight_decay {}", text.empty() ? "" : ", ", *own.weight_decay);
      all.emplace(name, std::move(text));
    }
  }
  return all;
} catch (...) {
  rethrow_as_error("describing groups");
}

}  // namespace meganeura::inline MEGANEURA_ABI
