// SPDX-License-Identifier: MIT
// Definitions for plan/layout.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/plan/layout.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::plan {

MEGANEURA_INLINE named_tensors::named_tensors(std::vector<named_tensor> tensors)
    : tensors_(std::move(tensors)), by_name_(tensors_.size()) {
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::ranges::stable_sort(by_name_, {}, [&](std::size_t i) -> std::string_view { return tensors_[i].name; });
}

MEGANEURA_INLINE const named_tensor* named_tensors::find(std::string_view name) const {
  const auto name_of = [&](std::size_t i) -> std::string_view { return tensors_[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return found == by_name_.end() || name_of(*found) != name ? nullptr : &tensors_[*found];
}

MEGANEURA_INLINE layout paged(const layout& whole, std::uint64_t page_bytes) {
  std::vector<named_tensor> tensors(whole.tensors.begin(), whole.tensors.end());
  std::uint64_t end = 0;
  for (named_tensor& s : tensors) {
    if (s.bytes > page_bytes) {
      fail(error_category::unsupported, "\"{}\" {}{} has {} bytes and one buffer of the device holds {}: {}split it",
           s.name, to_string(s.type), to_string(s.extents), s.bytes, page_bytes,
           s.kind == op::input ? "use a smaller batch, or " : "");
    }
    s.offset = detail::fit_page(end, aligned(s.bytes), page_bytes);
    end = s.offset + aligned(s.bytes);
  }
  return {named_tensors(std::move(tensors)), end};
}

// Of each leaf: whether the first convolution whose filter is made of it, element by element, is a transposed one.
// Later ones may be gradients.
[[nodiscard]] inline std::vector<bool> spreading_filters(const graph& g) {
  std::vector<bool> spreads(g.size());
  for (node_id id(static_cast<std::uint32_t>(g.size())); id-- > 0;) {
    if (g[id].kind != op::convolution) continue;
    const auto form = g.get<convolution_attribute>(id).form;
    if (form == convolution_attribute::filter) continue;
    std::set<node_id> seen{g.operand(id, 1)};
    for (std::vector<node_id> open(seen.begin(), seen.end()); !open.empty();) {
      const node_id node = open.back();
      open.pop_back();
      spreads[node] = form == convolution_attribute::input;
      if (g[node].kind != op::map && g[node].kind != op::view) continue;
      for (node_id operand : g.operands(node)) {
        if (seen.insert(operand).second) open.push_back(operand);
      }
    }
  }
  return spreads;
}

MEGANEURA_INLINE layout detail::layout_of(const graph& g, std::initializer_list<op> leaf_kinds, bool of_training) {
  std::vector<named_tensor> tensors;
  std::uint64_t end = 0;
  const std::vector<bool> spreads = spreading_filters(g);
  for (const op kind : leaf_kinds) {
    const initializer unsaid = kind == op::parameter ? init::fan_in_uniform : init::zeros;
    for (node_id id : g.leaves(kind)) {
      const std::uint64_t bytes = tensor_bytes(g[id]);
      const auto& [name, begin] = g.get<leaf_attribute>(id);
      const bool belongs = begin && !begin->saved && name.starts_with("optimizer.");
      if (kind == op::state && belongs != of_training) continue;
      tensors.push_back({name, g[id].type, g[id].extents, end, bytes, kind, begin.value_or(unsaid), spreads[id]});
      end += aligned(bytes);
    }
  }
  return {named_tensors(std::move(tensors)), end};
}

MEGANEURA_INLINE layout make_layout(const graph& g) { return detail::layout_of(g, {op::parameter, op::state}); }
MEGANEURA_INLINE layout make_training_layout(const graph& g) { return detail::layout_of(g, {op::state}, true); }

}  // namespace meganeura::inline MEGANEURA_ABI::plan
