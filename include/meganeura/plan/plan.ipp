// SPDX-License-Identifier: MIT
// Definitions for plan/plan.hpp: the planner as a list of its parts, and what a plan says of itself.
#pragma once
#include <meganeura/plan/draft.hpp>
#include <meganeura/plan/plan.hpp>

#include <algorithm>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::plan {

MEGANEURA_INLINE std::uint64_t execution_plan::peak_bytes() const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < area_bytes.size(); ++i)
    total += area_bytes[i] * (is_hosts(static_cast<area>(i)) ? steps_in_flight : 1);
  return total;
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

inline execution_plan planned(graph g, const layout& parameters, const plan_options& options,
                              std::uint64_t page_bytes) {
  draft all(std::move(g), parameters, options, page_bytes);
  schedule(all);
  balance(all);
  place_leaves(all);
  place_effects(all);
  place_results(all);
  place_in_arena(all);
  write_steps(all);
  return std::move(all.result);
}

}  // namespace detail

MEGANEURA_INLINE execution_plan make_plan(graph g, const layout& parameters, const plan_options& options,
                                          std::uint64_t page_bytes) {
  if (options.times.empty() || !options.balance) return detail::planned(std::move(g), parameters, options, page_bytes);
  // What shares memory is known last.
  constexpr double most_memory = 1.01;
  plan_options early = options;
  early.balance = false;
  execution_plan as_early = detail::planned(g, parameters, early, page_bytes);
  execution_plan balanced = detail::planned(std::move(g), parameters, options, page_bytes);
  const auto most = most_memory * static_cast<double>(as_early.peak_bytes());
  const bool is_better = balanced.predicted_seconds < as_early.predicted_seconds;
  return is_better && static_cast<double>(balanced.peak_bytes()) <= most ? balanced : as_early;
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan
