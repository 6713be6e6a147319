// SPDX-License-Identifier: MIT
// The planner's balance: kernels that nobody waits for run beside those that leave the device idle.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/kernel_group.hpp>
#include <meganeura/plan/draft.hpp>
#include <meganeura/plan/level_bytes.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan::detail {

// Moves kernels between levels, each to where the step gets quickest by the kernels' times, until none is left to move.
// Nothing else waits: the number of levels stays, and so does the most memory that values of one level take.
class balancer {
 public:
  explicit balancer(draft& all) : draft_(all), g_(all.g()), places_(all.places) {}

  double run() {
    find_groups();
    const double before = seconds();
    if (draft_.options.balance) improve_all();
    draft_.result.predicted_seconds = seconds();
    return before;
  }

 private:
  [[nodiscard]] double seconds() const {
    double sum = 0;
    for (const kernel_group& each : groups_) sum += each.seconds(draft_.options.launch);
    return sum;
  }
  void improve_all() {
    find_memory();
    constexpr int most_passes = 4;
    for (int pass = 0, moved = 1; pass < most_passes && moved > 0; ++pass) {
      moved = 0;
      for (node_id id = static_cast<node_id>(g_.size()); id-- > 0;) moved += improve(id);
    }
  }
  [[nodiscard]] bool is_kernel(node_id id) const {
    return !draft_.is_there(id) && !draft_.is_effect(id) && g_[id].kind != op::result;
  }
  [[nodiscard]] const kernel_time& time(node_id id) const { return draft_.options.times[id]; }

  void find_groups() {
    std::uint32_t last = 0;
    for (const placement& each : places_) last = std::max(last, each.level);
    groups_.resize(last + 1);
    for (node_id id{0}; id < g_.size(); ++id) {
      if (is_kernel(id)) groups_[places_[id].level].add(time(id));
    }
  }

  // ---- memory, as if no two values shared any

  void find_memory() {
    live_ = level_bytes(static_cast<std::uint32_t>(groups_.size()));
    for (node_id id{0}; id < g_.size(); ++id) count(id, 1);
    most_ = live_.most();
  }
  [[nodiscard]] std::uint32_t last_use(node_id value) const {
    const auto last = static_cast<std::uint32_t>(groups_.size() - 1);
    if (draft_.is_output[value] || draft_.read_by_effect[value]) return last;
    std::uint32_t level = places_[value].level;
    for (node_id reader : draft_.readers[value]) level = std::max(level, places_[reader].level);
    return level;
  }
  // Adds a value's bytes, or takes them away, wherever it lives.
  void count(node_id value, std::int64_t sign) {
    if (draft_.is_there(value) || draft_.is_effect(value) || g_.has_several_results(value)) return;
    live_.add(places_[value].level, last_use(value), sign * static_cast<std::int64_t>(tensor_bytes(g_[value])));
  }
  // Moves a kernel if no level has more memory then than the fullest had before.
  bool move(node_id id, std::uint32_t to) {
    const std::uint32_t from = places_[id].level;
    const draft::node_list values = draft_.values_of(id);
    const auto set = [&](std::uint32_t level) {
      places_[id].level = level;
      for (node_id value : values) {
        if (value != no_id) places_[value].level = level;
      }
    };
    draft::node_list touched;
    for (const std::span<const node_id> some : {std::span<const node_id>(values), g_.operands(id)}) {
      for (node_id value : some) {
        if (value != no_id && std::ranges::find(touched, value) == touched.end()) touched.push_back(value);
      }
    }
    const auto place = [&](std::uint32_t level) {
      for (node_id value : touched) count(value, -1);
      set(level);
      for (node_id value : touched) count(value, 1);
    };
    place(to);
    if (live_.most() <= most_) return true;
    place(from);
    return false;
  }

  // ---- time

  bool improve(node_id id) {
    if (!is_kernel(id)) return false;
    const std::uint32_t from = places_[id].level;
    std::uint32_t earliest = 0, latest = static_cast<std::uint32_t>(groups_.size() - 1);
    for (node_id operand : g_.operands(id)) earliest = std::max(earliest, places_[operand].level + 1);
    for (node_id value : draft_.values_of(id)) {
      if (value == no_id) continue;
      for (node_id reader : draft_.readers[value]) latest = std::min(latest, places_[reader].level - 1);
    }
    earliest = std::max({earliest, draft_.first_level, from - std::min(from, reach)});
    latest = std::min(latest, from + reach);
    if (earliest >= latest) return false;
    groups_[from].remove(time(id));
    const auto added = [&](std::uint32_t level) {
      const kernel_group& group = groups_[level];
      return group.seconds_with(time(id), draft_.options.launch) - group.seconds(draft_.options.launch);
    };
    constexpr double least_gain = 0.2e-6;  // less than what a prediction means
    double least = added(from) - least_gain;
    std::uint32_t to = from;
    for (std::uint32_t level = earliest; level <= latest; ++level) {
      const double seconds = level == from ? least : added(level);
      if (seconds < least) least = seconds, to = level;
    }
    if (to != from && !move(id, to)) to = from;
    groups_[to].add(time(id));
    return to != from;
  }

  static constexpr std::uint32_t reach = 32;  // levels
  draft& draft_;
  const graph& g_;
  std::vector<placement>& places_;
  std::vector<kernel_group> groups_;  // by level
  level_bytes live_{1};
  std::int64_t most_ = 0;
};

MEGANEURA_INLINE double balance(draft& all) {
  if (all.options.times.empty()) return 0;
  if (all.options.times.size() != all.g().size()) {
    fail(error_category::invalid_argument,
         "plan_options::times has {} entries and the graph {} nodes; optimize_report::times has one for each",
         all.options.times.size(), all.g().size());
  }
  return balancer(all).run();
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan::detail
