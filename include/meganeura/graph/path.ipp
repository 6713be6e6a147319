// SPDX-License-Identifier: MIT
// Definitions for graph/path.hpp.
#pragma once
#include <meganeura/core/hash.hpp>
#include <meganeura/graph/path.hpp>

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
  const std::uint64_t key = hash_string(text);
  const auto known = known_.find(key, [&](path_id each) { return modules_[each / 2].text == text; });
  if (known != no_id) return at(known / 2, of);
  const auto made = static_cast<std::uint32_t>(modules_.size());
  modules_.push_back({.text = std::move(text), .parent = parent});
  known_.insert(key, at(made, root));
  entry& from = modules_[parent];
  (from.first_child == none ? from.first_child : modules_[from.last_child].next_sibling) = made;
  from.last_child = made;
  return at(made, of);
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
