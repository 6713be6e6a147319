// SPDX-License-Identifier: MIT
// Definitions for graph/layer_names.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/graph/layer_names.hpp>

#include <algorithm>
#include <map>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE void layer_names::end(mark begun, node_id result) {
  if (begun == asked_.size()) return;
  for (mark i = begun; i < asked_.size(); ++i) {
    if (asked_[i].layer == no_id) asked_[i].layer = result;
  }
  layers_.push_back({result, begun, asked_.size()});
}

MEGANEURA_INLINE bool layer_names::share(node_id result) {
  const auto found = std::find_if(layers_.rbegin(), layers_.rend(), [&](const layer& l) { return l.result == result; });
  if (found == layers_.rend()) return false;
  for (mark i = found->first; i < found->last; ++i) asked_[i].shared = true;
  return true;
}

MEGANEURA_INLINE void layer_names::check() const {
  struct sharers {
    node_id first = no_id;
    bool several = false;
  };
  std::map<std::string_view, node_id> owners;
  std::map<std::string_view, sharers> shared;
  for (const request& each : asked_) {
    if (each.shared) {
      sharers& those = shared.try_emplace(each.name, sharers{each.layer}).first->second;
      those.several = those.several || those.first != each.layer;
      continue;
    }
    const auto [owner, is_first] = owners.emplace(each.name, each.layer);
    if (!is_first && owner->second != each.layer) refuse_two_layers(each.name);
  }
  for (const request& each : asked_) {
    if (!each.shared || owners.contains(each.name) || shared[each.name].several) continue;
    std::vector<std::string> names;
    for (const auto& owner : owners) names.emplace_back(owner.first);
    refuse_shared(each.name, names);
  }
}

MEGANEURA_INLINE void refuse_two_layers(std::string_view name) {
  fail(error_category::invalid_argument,
       "two layers are called {} and would be one; rename one of them, or share it on purpose: shared(layer)",
       quote(name));
}

MEGANEURA_INLINE void refuse_shared(std::string_view name, const std::vector<std::string>& names) {
  fail(error_category::invalid_argument, "shared(...) refers to {}, which the model does not have{}", quote(name),
       detail::did_you_mean(detail::nearest(name, names)));
}

}  // namespace meganeura::inline MEGANEURA_ABI
