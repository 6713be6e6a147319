// SPDX-License-Identifier: MIT
// Reverse mode over primitives.
#pragma once
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/autodiff/gradient_rules.hpp>
#include <meganeura/autodiff/gradient_sweep.hpp>
#include <meganeura/core/error.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

MEGANEURA_INLINE bool gradient_sweep::passes_gradient(const graph& g, node_id id, std::size_t index) {
  if (!is_float(g[id].type) || !is_float(g[g.operand(id, index)].type)) return false;
  return visit_op(g[id].kind, [&]<op Kind> { return gradient_rule<Kind>::passes(g, id, index); });
}

MEGANEURA_INLINE void gradient_sweep::propagate(node_id id, node_id g) try {
  visit_op(graph_[id].kind, [&]<op Kind> { gradient_rule<Kind>(*this).propagate(id, g); });
} catch (const error& problem) {  // of which node, where it has a name
  const std::string path = graph_.path_of(id);
  if (path.empty()) throw;
  fail(problem.category(), "{} of {}: {}", to_string(graph_[id].kind), path, problem.what());
}

// What a pad with zeros puts at [begin, end) of one axis; of another node the axis is -1.
struct placed_part {
  node_id term = no_id, inside = no_id;
  int axis = -1;
  std::int64_t begin = 0, end = 0;
};

inline placed_part part_of(const graph& g, node_id term) {
  placed_part part{.term = term};
  if (g[term].kind != op::pad) return part;
  const auto& border = g.get<pad_attribute>(term);
  const node_id inside = g.operand(term, 0);
  int axes = 0;
  for (int axis = 0; axis < g[term].extents.rank(); ++axis) {
    if (border.low[axis] == 0 && border.high[axis] == 0) continue;
    part = {term, inside, axis, border.low[axis], border.low[axis] + g[inside].extents[axis]};
    ++axes;
  }
  return axes == 1 && border.value == 0 ? part : placed_part{.term = term};
}

// Parts in the order of their places, none of which meet.
inline node_id concat_parts(graph& g, std::span<const placed_part> parts) {
  const shape whole = g[parts[0].term].extents;
  const int axis = parts[0].axis;
  std::vector<node_id> pieces;
  std::int64_t at = 0;
  const auto fill_up_to = [&](std::int64_t end) {
    if (end == at) return;
    shape gap = whole;
    gap.set(axis, end - at);
    pieces.push_back(g.full(gap, 0, g[parts[0].term].type));
  };
  for (const placed_part& each : parts) {
    fill_up_to(each.begin);
    pieces.push_back(each.inside);
    at = each.end;
  }
  fill_up_to(whole[axis]);
  return g.concat(pieces, axis);
}

MEGANEURA_INLINE small_vector<node_id, 2> gradient_sweep::joined(std::span<const node_id> terms) {
  small_vector<node_id, 2> sum;
  std::vector<placed_part> parts;
  for (node_id term : terms) {
    const placed_part part = terms.size() > 1 ? part_of(graph_, term) : placed_part{};
    if (part.axis < 0)
      sum.push_back(term);
    else
      parts.push_back(part);
  }
  const auto order = [](const placed_part& part) { return std::pair(part.axis, part.begin); };
  std::ranges::stable_sort(parts, {}, order);
  while (!parts.empty()) {  // a row of parts that do not meet, each time from those left
    std::vector<placed_part> row, left;
    for (const placed_part& each : parts) {
      const bool follows = row.empty() || (row.back().axis == each.axis && row.back().end <= each.begin);
      (follows ? row : left).push_back(each);
    }
    sum.push_back(row.size() == 1 ? row[0].term : concat_parts(graph_, row));
    parts = std::move(left);
  }
  return sum;
}

inline std::vector<node_id> swept_gradients(graph& g, std::span<const node_id> outputs, std::span<const node_id> seeds,
                                            std::span<const node_id> wrt) {
  for (const std::span<const node_id> each : {outputs, seeds, wrt}) g.expect_values("gradients", each);
  if (outputs.size() != seeds.size()) {
    fail(error_category::invalid_argument, "gradients: {} outputs need as many seeds; found {}", outputs.size(),
         seeds.size());
  }
  for (node_id target : wrt) {
    if (is_float(g[target].type)) continue;
    fail(error_category::invalid_argument, "gradients: cannot differentiate by node {}, which is {}; floats only",
         target, to_string(g[target].type));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const node &output = g[outputs[i]], &seed = g[seeds[i]];
    if (is_float(output.type) && output.type == seed.type && output.extents == seed.extents) continue;
    fail(error_category::invalid_argument,
         "gradients: output {} {} needs a float seed of its dtype and shape; found {} {}", to_string(output.type),
         to_string(output.extents), to_string(seed.type), to_string(seed.extents));
  }
  gradient_sweep sweep(g, outputs, wrt);
  for (std::size_t i = 0; i < outputs.size(); ++i) sweep.add(outputs[i], seeds[i]);
  sweep.run();
  std::vector<node_id> results;
  for (node_id target : wrt) results.push_back(sweep.result(target));
  return results;
}

// Of a float that is made of an integer: what made that of a float, an arg_max for example.
inline node_id first_without_slope(const graph& g, node_id id, const std::vector<bool>& depends) {
  for (;;) {
    const auto operands = g.operands(id);
    const auto below = std::ranges::find_if(operands, [&](node_id each) { return depends[each]; });
    if (is_float(g[*below].type)) return id;
    id = *below;
  }
}

MEGANEURA_INLINE node_id gradient_sweep::stop(const graph& g, node_id loss, std::span<const node_id> wrt) {
  std::vector<bool> depends(g.size(), false), reached(g.size(), false);
  for (node_id target : wrt) depends[target] = true;
  for (node_id id{0}; id < g.size(); ++id) {
    for (node_id operand : g.operands(id)) depends[id] = depends[id] || depends[operand];
  }
  reached[loss] = true;
  for (std::size_t at = g.size(); at-- > 0;) {
    const auto id = static_cast<node_id>(at);
    for (std::size_t i = 0; reached[id] && i < g.operands(id).size(); ++i) {
      const node_id operand = g.operand(id, i);
      if (passes_gradient(g, id, i))
        reached[operand] = true;
      else if (depends[operand])
        return first_without_slope(g, id, depends);
    }
  }
  return no_id;
}

}  // namespace detail

MEGANEURA_INLINE node_id gradient_stop(const graph& g, node_id loss, std::span<const node_id> wrt) {
  g.expect_values("gradient_stop", {loss});
  g.expect_values("gradient_stop", wrt);
  return detail::gradient_sweep::stop(g, loss, wrt);
}

MEGANEURA_INLINE std::vector<node_id> gradients(graph& g, std::span<const node_id> outputs,
                                                std::span<const node_id> seeds, std::span<const node_id> wrt) {
  std::vector<node_id> results = detail::swept_gradients(g, outputs, seeds, wrt);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i] == no_id) results[i] = g.full_like(wrt[i], 0);
  }
  return results;
}

MEGANEURA_INLINE std::vector<node_id> reached_gradients(graph& g, node_id loss, std::span<const node_id> wrt) {
  g.expect_values("gradients", {loss});
  if (g[loss].extents.elements() != 1) {
    fail(error_category::invalid_argument,
         "gradients: the loss must be one number; found {}; reduce it or give seeds for each output",
         to_string(g[loss].extents));
  }
  const graph::scope in(g, path_pool::backward(g[loss].path));
  const node_id seed = g.full_like(loss, 1);
  return detail::swept_gradients(g, std::span(&loss, 1), std::span(&seed, 1), wrt);
}

MEGANEURA_INLINE std::vector<node_id> gradients(graph& g, node_id loss, std::span<const node_id> wrt) {
  std::vector<node_id> results = reached_gradients(g, loss, wrt);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i] == no_id) results[i] = g.full_like(wrt[i], 0);
  }
  return results;
}

}  // namespace meganeura::inline MEGANEURA_ABI
