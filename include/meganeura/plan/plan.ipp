// SPDX-License-Identifier: MIT
// Definitions for plan/plan.hpp: the planner as a list of its parts, and what a plan says of itself.
#pragma once
#include <meganeura/plan/draft.hpp>
#include <meganeura/plan/plan.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan {

MEGANEURA_INLINE std::uint64_t execution_plan::peak_bytes() const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < area_bytes.size(); ++i)
    total += area_bytes[i] * (is_hosts(static_cast<area>(i)) ? steps_in_flight : 1);
  return total;
}

MEGANEURA_INLINE std::vector<const step*> execution_plan::all_steps() const {
  std::vector<const step*> all;
  for (const std::vector<step>* some : {&folded, &steps}) {
    for (const step& each : *some) all.push_back(&each);
  }
  return all;
}

MEGANEURA_INLINE std::size_t execution_plan::computed_again() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(steps, [&](const step& each) { return implementation[each.node].turn > 0; }));
}

MEGANEURA_INLINE std::vector<std::optional<std::size_t>> overwritten_operands(const step& s) {
  std::vector<std::optional<std::size_t>> found;
  if (s.kind != step::kernel) return found;
  const auto first = std::ranges::find(s.bindings, usage::write, &binding::how);
  for (auto result = first; result != s.bindings.end() && result->how == usage::write; ++result) {
    const auto operand =
        std::find_if(s.bindings.begin(), first, [&](const binding& b) { return b.where.overlaps(result->where); });
    if (operand == first) continue;
    found.resize(static_cast<std::size_t>(result - first) + 1);
    found.back() = static_cast<std::size_t>(operand - s.bindings.begin());
  }
  return found;
}

namespace detail {

// Of a draft whose kernels have their levels.
MEGANEURA_INLINE void place_values(draft& all) {
  place_leaves(all);
  place_effects(all);
  place_results(all);
  place_in_arena(all);
}
inline execution_plan finished(draft all) {
  place_values(all);
  write_steps(all);
  return std::move(all.result);
}

MEGANEURA_INLINE execution_plan planned(draft all) {
  const std::vector<placement> early = all.places;
  const double early_seconds = balance(all);
  const auto level = &placement::level;
  if (std::ranges::equal(early, all.places, {}, level, level)) {
    all.result.predicted_seconds = early_seconds;
    return finished(std::move(all));
  }
  // What shares memory is known last.
  constexpr double most_memory = 1.01;
  draft as_early = all;
  as_early.places = early;
  as_early.result.predicted_seconds = early_seconds;
  execution_plan before = finished(std::move(as_early)), balanced = finished(std::move(all));
  const auto most = most_memory * static_cast<double>(before.peak_bytes());
  return static_cast<double>(balanced.peak_bytes()) <= most ? balanced : before;
}

}  // namespace detail

MEGANEURA_INLINE execution_plan make_plan(graph g, const layout& parameters, const plan_options& options,
                                          std::uint64_t page_bytes) {
  detail::draft all(std::move(g), parameters, options, page_bytes);
  detail::schedule(all);
  if (options.memory_budget == 0) return detail::planned(std::move(all));
  if (options.memory_budget >> 62 != 0) {
    fail(error_category::invalid_argument,
         "plan_options::memory_budget is {} bytes, more than there are anywhere, or a negative number: give it bytes, "
         "or "
         "0 for no budget",
         options.memory_budget);
  }
  execution_plan whole = detail::planned(all);
  if (whole.peak_bytes() <= options.memory_budget) return whole;
  return detail::plan_within(std::move(all), whole);
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan
