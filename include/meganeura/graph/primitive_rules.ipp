// SPDX-License-Identifier: MIT
// What of graph/graph.hpp needs the rules of primitives.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/primitive_rules.hpp>
#include <meganeura/graph/visit_op.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE node_id graph::contract(node_id a, node_id b, std::string_view labels_a, std::string_view labels_b,
                                         std::string_view labels_result) {
  expect_values("contract", {a, b});
  const auto rank = [](std::string_view labels) { return static_cast<int>(std::min<std::size_t>(labels.size(), 99)); };
  const detail::label_names letters(labels_a.data(), rank(labels_a), labels_b.data(), rank(labels_b),
                                    labels_result.data(), rank(labels_result));
  if (!letters.well_formed || rank(labels_a) != nodes_[a].extents.rank() ||
      rank(labels_b) != nodes_[b].extents.rank()) {
    fail(error_category::invalid_argument,
         "contract \"{},{}->{}\" of {} and {}: each axis needs a label, and each label must stand in two terms",
         labels_a, labels_b, labels_result, to_string(nodes_[a].extents), to_string(nodes_[b].extents));
  }
  return detail::build_contract(*this, a, b, letters.numbers, {letters.order, static_cast<std::size_t>(letters.count)});
}

MEGANEURA_INLINE node_id graph::pad(node_id a, std::span<const std::int64_t> low, std::span<const std::int64_t> high,
                                    double value) {
  expect_values("pad", {a});
  const auto rank = static_cast<std::size_t>(nodes_[a].extents.rank());
  if (low.size() != rank || high.size() != rank) detail::refuse_pad(nodes_[a].extents);
  pad_attribute border{.value = value};
  std::ranges::copy(low, border.low);
  std::ranges::copy(high, border.high);
  return apply(op::pad, border, {a});
}

MEGANEURA_INLINE node_id graph::apply(op kind, const attribute& value, std::span<const node_id> operands,
                                      const shape& extents) {
  return visit_op(kind, [&]<op Kind>() -> node_id {
    if constexpr (detail::has_traits<Kind>) {
      using rule = detail::primitive_rule<Kind>;
      const auto* own = std::get_if<typename detail::primitive_traits<Kind>::attribute_type>(&value);
      if (own && (info(Kind).arity < 0 || operands.size() == static_cast<std::size_t>(info(Kind).arity))) {
        return rule::build(*this, operands, *own, extents);
      }
    }
    fail(error_category::invalid_argument,
         "{} of {} operands with \"{}\": it is not made this way, or takes another number of operands or attribute",
         to_string(Kind), operands.size(), to_string(value));
  });
}

}  // namespace meganeura::inline MEGANEURA_ABI
