// SPDX-License-Identifier: MIT
// Definitions for runtime/sized_programs.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/runtime/sized_programs.hpp>

#include <algorithm>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::detail {

MEGANEURA_INLINE sized_programs::sized_programs(const device& on, open_sizes sizes, std::size_t most)
    : device_(on), sizes_(std::move(sizes)), most_(std::max<std::size_t>(most, 1)) {
  (void)on.facts();  // a device that was moved from says so
}

MEGANEURA_INLINE std::shared_ptr<program> sized_programs::built(const symbol_extents& sizes, const builder& build) try {
  return std::make_shared<program>(build(sizes));
} catch (const error& problem) {
  if (problem.category() != error_category::out_of_memory || entries_.empty()) throw;
  entries_.clear();
  device_.wait_idle();  // memory goes when the last step that uses it has ended
  return std::make_shared<program>(build(sizes));
}

MEGANEURA_INLINE const std::shared_ptr<program>& sized_programs::at(std::span<const input_values> inputs,
                                                                    const symbol_extents& more, const builder& build) {
  std::vector<bound_elements> bound;
  for (const input_values& each : sizes_.any() ? inputs : std::span<const input_values>()) {
    const auto bytes = static_cast<std::int64_t>(each.values.size());
    bound.push_back({each.name, bytes / std::max<std::int64_t>(storage_bytes(each.type, 1), 1)});
  }
  std::vector<std::int64_t> sizes = sizes_.solved(bound, more);
  const auto found = std::ranges::find(entries_, sizes, &entry::sizes);
  if (found != entries_.end()) {
    std::rotate(entries_.begin(), found, found + 1);
  } else {
    check_alive();
    std::shared_ptr<program> made = built(sizes_.named(sizes), build);
    if (entries_.size() == most_) entries_.pop_back();
    entries_.insert(entries_.begin(), {std::move(sizes), std::move(made)});
  }
  return entries_.front().built;
}

MEGANEURA_INLINE void sized_programs::check_alive() const {
  if (device_) return;
  fail(error_category::invalid_argument, "this session or program was moved from; use what it was moved into");
}

MEGANEURA_INLINE const program& sized_programs::latest() const try {
  check_alive();
  if (!entries_.empty()) return *entries_.front().built;
  fail(error_category::invalid_argument,
       "no program is built yet, because its sizes are not known; run once, or prepare sizes first");
} catch (...) {
  rethrow_as_error("using a program");
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
