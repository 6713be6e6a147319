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

MEGANEURA_INLINE std::shared_ptr<program> sized_programs::built(const symbol_extents& sizes, const builder& build) {
  for (;;) {
    try {
      return std::make_shared<program>(build(sizes));
    } catch (const error& problem) {
      if (problem.category() != error_category::out_of_memory || (entries_.empty() && !latest_)) throw;
    }
    if (entries_.empty()) latest_.reset();  // its results could be read until now
    entries_.resize(entries_.size() / 2);   // by halves: each attempt builds from the beginning
    device_.wait_idle();                    // memory goes when the last step that uses it has ended
  }
}

MEGANEURA_INLINE std::shared_ptr<program> sized_programs::at(std::span<const input_values> inputs,
                                                             const symbol_extents& more, const builder& build) {
  check_alive(device_);
  bound_.clear();
  for (const input_values& each : sizes_.any() ? inputs : std::span<const input_values>()) {
    const auto bytes = static_cast<std::int64_t>(each.values.size());
    bound_.push_back({each.name, bytes / std::max<std::int64_t>(storage_bytes(each.type, 1), 1)});
  }
  solved_ = sizes_.solved(bound_, more, std::move(solved_));
  const auto found = std::ranges::find(entries_, solved_, &entry::sizes);
  selected_ = static_cast<std::size_t>(found - entries_.begin());
  if (found == entries_.end()) {
    if (entries_.size() > most_) entries_.pop_back();
    std::shared_ptr<program> made = built(sizes_.named(solved_), build);
    for (const plan::named_tensor& input : made->plan().inputs.tensors) {
      sizes_.check_made(input.name, input.extents, solved_);
    }
    selected_ = entries_.size();
    entries_.push_back({solved_, std::move(made)});
  }
  return entries_[selected_].built;
}

MEGANEURA_INLINE void sized_programs::keep() noexcept {
  const auto selected = entries_.begin() + static_cast<std::ptrdiff_t>(selected_);
  std::rotate(entries_.begin(), selected, selected + 1);
  selected_ = 0;
  if (entries_.size() > most_) entries_.pop_back();
}

MEGANEURA_INLINE void sized_programs::ran() noexcept {
  keep();
  latest_ = entries_.front().built;
}

MEGANEURA_INLINE const program& sized_programs::latest() const try {
  check_alive(device_);
  if (latest_) return *latest_;
  if (!entries_.empty()) return *entries_.front().built;
  fail(error_category::invalid_argument,
       "no program is built, because its sizes are not known yet or memory was short; run once, or prepare sizes "
       "first");
} catch (...) {
  rethrow_as_error("using a program");
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
