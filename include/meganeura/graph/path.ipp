// SPDX-License-Identifier: MIT
// Definitions for graph/path.hpp.
#pragma once
#include <meganeura/core/hash.hpp>
#include <meganeura/graph/path.hpp>

#include <bit>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE path_id path_pool::child(path_id of, std::string_view name) {
  if (const std::size_t dot = name.find('.'); dot != std::string_view::npos) {
    return child(child(of, name.substr(0, dot)), name.substr(dot + 1));
  }
  if (name.empty()) return of;
  const std::uint32_t parent = of / 2;
  std::string text = modules_[parent].text;
  if (!text.empty()) text += '.';
  text += name;
  const auto made = static_cast<std::uint32_t>(modules_.size());
  if (slots_.size() < 2 * modules_.size()) {
    slots_.assign(std::bit_ceil(4 * modules_.size()), none);
    for (std::uint32_t i = 1; i < made; ++i) slots_[slot_of(modules_[i].text)] = i;
  }
  std::uint32_t& known = slots_[slot_of(text)];
  if (known != none) return at(known, of);
  modules_.push_back({.text = std::move(text), .parent = parent});
  known = made;
  entry& from = modules_[parent];
  (from.first_child == none ? from.first_child : modules_[from.last_child].next_sibling) = made;
  from.last_child = made;
  return at(made, of);
}

MEGANEURA_INLINE std::size_t path_pool::slot_of(std::string_view text) const {
  std::size_t slot = hash_string(text) & (slots_.size() - 1);
  while (slots_[slot] != none && modules_[slots_[slot]].text != text) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

MEGANEURA_INLINE std::string path_pool::text(path_id id) const {
  const std::string& names = modules_[id / 2].text;
  return !is_backward(id) ? names : names.empty() ? "backward" : names + " backward";
}

MEGANEURA_INLINE bool path_pool::holds(path_id outer, path_id inner) const {
  while (inner > outer) inner = parent(inner);  // a parent came first
  return inner == outer;
}

MEGANEURA_INLINE std::vector<path_id> path_pool::children(path_id of) const {
  std::vector<path_id> result;
  for (std::uint32_t i = modules_[of / 2].first_child; i != none; i = modules_[i].next_sibling) {
    result.push_back(at(i, of));
  }
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI
