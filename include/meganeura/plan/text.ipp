// SPDX-License-Identifier: MIT
// Definitions for plan/plan.hpp: plans, and what their steps are called, as text.
#pragma once
#include <meganeura/plan/plan.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan {

MEGANEURA_INLINE std::string to_string(area where) {
  constexpr const char* names[] = {"input",       "parameter", "gradient", "arena",
                                   "step_values", "results",   "arrivals", "training"};
  if (where < area::moments) return names[index_of(where)];
  return fmt::format("moment{}", index_of(where) - index_of(area::moments));
}

namespace detail {

// The batch, where there is one, m, n and k: the axes lie in that order.
inline std::vector<std::int64_t> product_sizes(const matmul_attribute& product) {
  std::vector<std::int64_t> sizes;
  int axis = 0;
  for (const int count : {product.batch_axes, product.m_axes, product.n_axes, product.k_axes}) {
    sizes.push_back(1);
    for (const int end = axis + count; axis < end; ++axis) sizes.back() *= product.space[axis];
  }
  if (sizes[0] == 1) sizes.erase(sizes.begin());
  return sizes;
}
// Likewise the batch, queries, keys, and the width of all or that of queries and that of values.
inline std::vector<std::int64_t> attention_sizes(const attention_attribute& rows) {
  const auto [batch, queries, channels, keys, width] = rows.sizes();
  std::vector<std::int64_t> sizes{queries, keys, width};
  if (channels != width) sizes.push_back(channels);
  if (batch != 1) sizes.insert(sizes.begin(), batch);
  return sizes;
}

inline std::vector<std::int64_t> sizes_of(const execution_plan& p, const step& s) {
  const std::uint64_t bytes = s.bindings[0].where.bytes;
  if (s.kind == step::copy) return {static_cast<std::int64_t>(bytes)};
  if (s.kind == step::optimizer) return {static_cast<std::int64_t>(bytes / sizeof(float))};
  const attribute& what = p.implementation.attribute_of(s.node);
  if (const auto* product = std::get_if<matmul_attribute>(&what)) return product_sizes(*product);
  if (const auto* rows = std::get_if<attention_attribute>(&what)) return attention_sizes(*rows);
  const shape& loops = std::visit(
      [&](const auto& each) -> const shape& {
        if constexpr (requires { each.space; }) return each.space;
        return p.implementation[s.node].extents;
      },
      what);
  return {loops.begin(), loops.end()};
}

}  // namespace detail

MEGANEURA_INLINE std::string description(const execution_plan& p, const step& s) {
  std::string what = s.kind == step::copy ? "copy" : to_string(p.implementation[s.node].kind);
  const auto* rows = std::get_if<attention_attribute>(&p.implementation.attribute_of(s.node));
  if (rows != nullptr && rows->form != attention_form::output && s.kind == step::kernel)
    what += "_" + to_string(rows->form);
  const std::vector<std::int64_t> sizes = detail::sizes_of(p, s);
  const bool is_again = s.kind == step::kernel && p.implementation[s.node].turn > 0;
  return fmt::format("{}{}{}{}", what, sizes.empty() ? "" : " ", fmt::join(sizes, "x"), is_again ? " again" : "");
}

MEGANEURA_INLINE std::string label(const execution_plan& p, const step& s) {
  const std::string path = p.implementation.path_of(s.node);
  return fmt::format("{}{}{}", path, path.empty() ? "" : ": ", description(p, s));
}

namespace detail {

inline std::string to_text(const execution_plan& p, const std::vector<step>& steps, std::string_view of_group) {
  std::string text;
  std::uint32_t group = ~0u;
  for (const step& s : steps) {
    if (s.group != group) text += fmt::format("{} {}\n", of_group, group = s.group);
    const node& n = p.implementation[s.node];
    text += fmt::format("  {} = %{} {}{} {}\n   ", label(p, s), s.node, to_string(n.type), to_string(n.extents),
                        to_string(p.implementation.attribute_of(s.node)));
    for (const binding& b : s.bindings) {
      constexpr const char* arrows[] = {"", "=>", "<=>"};
      text += fmt::format(" {}{}[{}+{}]", arrows[static_cast<int>(b.how)], to_string(b.where.where), b.where.offset,
                          b.where.bytes);
    }
    text += '\n';
  }
  return text;
}

}  // namespace detail

MEGANEURA_INLINE std::string to_text(const execution_plan& p) {
  std::string text = detail::to_text(p, p.folded, "when parameters change, group");
  text += detail::to_text(p, p.steps, "group");
  for (const named_range& output : p.outputs) {
    text +=
        fmt::format("output \"{}\" {}{} = {}[{}+{}]\n", output.name, to_string(output.type), to_string(output.extents),
                    to_string(output.where.where), output.where.offset, output.where.bytes);
  }
  for (std::size_t i = 0; i < p.area_bytes.size(); ++i) {
    if (p.area_bytes[i]) text += fmt::format("{}: {} bytes\n", to_string(static_cast<area>(i)), p.area_bytes[i]);
  }
  return text + fmt::format(
                    "{} dispatches in {} groups, {} of them again, {} more when parameters change, {} bytes; the arena "
                    "without "
                    "sharing: {} bytes\n",
                    p.steps.size(), p.groups, p.computed_again(), p.folded.size(), p.peak_bytes(),
                    p.unaliased_arena_bytes);
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan
