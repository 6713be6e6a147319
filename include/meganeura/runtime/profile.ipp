// SPDX-License-Identifier: MIT
// Definitions for runtime/profile.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/plan/work.hpp>
#include <meganeura/runtime/profile.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

MEGANEURA_INLINE std::vector<profiled_dispatch> dispatches_of(const plan::execution_plan& p,
                                                              const device_profile& rates) {
  std::vector<profiled_dispatch> all;
  for (const plan::step& s : p.steps) {
    if (s.kind == plan::step::copy) continue;
    const plan::work work = plan::work_of(p, s);
    profiled_dispatch one{.module = p.implementation.path_of(s.node),
                          .text = plan::description(p, s),
                          .bytes = work.bytes,
                          .flops = work.flops,
                          .floor = 1e9 * plan::floor_seconds(p, s, rates)};
    const attribute& what = p.implementation.attribute_of(s.node);
    const auto* product = std::get_if<matmul_attribute>(&what);
    const auto* rows = std::get_if<attention_attribute>(&what);
    if (product && product->schedule.is_on_units()) one.schedule = to_string(product->schedule);
    if (rows && rows->schedule.is_on_units()) one.schedule = to_string(rows->schedule);
    if (!one.schedule.empty()) {
      one.text += " " + one.schedule;
    }
    all.push_back(std::move(one));
  }
  return all;
}

MEGANEURA_INLINE void set_times(std::span<profiled_dispatch> dispatches, std::span<const vulkan::timing> timings) {
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    dispatches[i].kernel = timings[i].kernel;
    dispatches[i].begin = timings[i].begin;
    dispatches[i].nanoseconds = timings[i].nanoseconds;
  }
}

inline void add_work(auto& to, const auto& more) {
  to.nanoseconds += more.nanoseconds;
  to.bytes += more.bytes;
  to.flops += more.flops;
  to.floor += more.floor;
}

// "region 128x576", "3 x matmul 128x576x576", in the order of their first.
inline std::string counted_text(std::span<const std::string> kernels) {
  std::vector<std::pair<std::string_view, int>> counts;
  for (const std::string& each : kernels) {
    const auto known = std::ranges::find(counts, each, &std::pair<std::string_view, int>::first);
    known == counts.end() ? static_cast<void>(counts.emplace_back(each, 1)) : static_cast<void>(++known->second);
  }
  std::string text;
  for (const auto& [kernel, count] : counts) {
    if (!text.empty()) text += " + ";
    text += count == 1 ? std::string(kernel) : fmt::format("{} x {}", count, kernel);
  }
  return text;
}

MEGANEURA_INLINE std::vector<profiled_dispatch> groups_of(const plan::execution_plan& p,
                                                          std::span<const profiled_dispatch> dispatches,
                                                          std::span<const double> times) {
  std::vector<profiled_dispatch> groups;
  std::vector<std::vector<std::string>> kernels;
  std::size_t next = 0;
  for (const plan::step& s : p.steps) {
    if (groups.size() <= s.group) groups.resize(s.group + 1), kernels.resize(s.group + 1);
    if (s.kind == plan::step::copy) continue;
    const profiled_dispatch& each = dispatches[next++];
    profiled_dispatch& group = groups[s.group];
    if (kernels[s.group].empty()) group.module = each.module;
    kernels[s.group].push_back(each.text);
    add_work(group, each);
  }
  double begin = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].text = kernels[i].empty() ? "copies" : counted_text(kernels[i]);
    groups[i].begin = begin;
    groups[i].nanoseconds = times[times.size() - groups.size() + i];
    begin += groups[i].nanoseconds;
  }
  return groups;
}

// Or as many as stand before the point.
inline std::string three_digits(double value) {
  return value < 999.5 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

// The first names of a path, with its direction.
inline std::string first_names(std::string_view path, std::size_t depth) {
  constexpr std::string_view backward = " backward";
  const bool of_model = path == backward.substr(1), goes_back = of_model || path.ends_with(backward);
  if (goes_back) path.remove_suffix(of_model ? path.size() : backward.size());
  std::size_t end = 0;
  for (; depth > 0 && end < path.size(); --depth) end = std::min(path.find('.', end + 1), path.size());
  const std::string names(end == 0 ? "(model)" : path.substr(0, end));
  return goes_back ? names + " backward" : names;
}

template <class Name>
std::vector<profile_row> grouped(const step_profile& profile, const Name& name) {
  std::map<std::string, profile_row> rows;
  for (const profiled_dispatch& each : profile) {
    profile_row& row = rows[name(each)];
    ++row.count;
    add_work(row, each);
  }
  const double total = profile.total().nanoseconds;
  std::vector<profile_row> all;
  for (auto& [text, row] : rows) {
    row.text = text;
    row.share = total > 0 ? row.nanoseconds / total : 0;
    all.push_back(std::move(row));
  }
  std::ranges::stable_sort(all, std::greater<>(), &profile_row::nanoseconds);
  return all;
}

}  // namespace detail

MEGANEURA_INLINE profile_row step_profile::total() const {
  profile_row sum{.text = "total", .count = size(), .share = empty() ? 0.0 : 1.0};
  for (const profiled_dispatch& each : *this) detail::add_work(sum, each);
  return sum;
}

MEGANEURA_INLINE std::vector<profile_row> step_profile::by_kernel() const try {
  return detail::grouped(*this, [](const profiled_dispatch& each) { return each.text; });
} catch (...) {
  rethrow_as_error("grouping a profile");
}

MEGANEURA_INLINE std::vector<profile_row> step_profile::by_module(std::size_t depth) const try {
  return detail::grouped(*this, [&](const profiled_dispatch& each) { return detail::first_names(each.module, depth); });
} catch (...) {
  rethrow_as_error("grouping a profile");
}

MEGANEURA_INLINE std::string to_text(std::span<const profile_row> rows) try {
  using cells = std::array<std::string, 7>;
  std::vector<cells> table = {{"", "count", "us", "% of time", "MB", "GFLOP", "% of floor"}};
  const auto line = [&](const profile_row& row) {
    table.push_back({row.text, fmt::format("{}", row.count), detail::three_digits(row.nanoseconds / 1e3),
                     fmt::format("{:.1f}", 100 * row.share), detail::three_digits(static_cast<double>(row.bytes) / 1e6),
                     detail::three_digits(row.flops / 1e9), fmt::format("{:.1f}", row.percent_of_floor())});
  };
  profile_row total{.text = "total"};
  for (const profile_row& row : rows) {
    line(row);
    detail::add_work(total, row);
    total.count += row.count, total.share += row.share;
  }
  line(total);
  std::array<std::size_t, 7> widths{};
  for (const cells& each : table) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], each[i].size());
  }
  std::string text;
  for (const cells& each : table) {
    text += fmt::format("{:<{}}", each[0], widths[0]);
    for (std::size_t i = 1; i < widths.size(); ++i) text += fmt::format("  {:>{}}", each[i], widths[i]);
    text += '\n';
  }
  return text;
} catch (...) {
  rethrow_as_error("writing a profile");
}

MEGANEURA_INLINE std::string to_text(const step_profile& profile) { return to_text(profile.by_kernel()); }

}  // namespace meganeura::inline MEGANEURA_ABI
