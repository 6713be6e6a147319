// SPDX-License-Identifier: MIT
// The rule that splits the sum of a product over more workgroups than its results would occupy.
#pragma once
#include <meganeura/fusion/contract_loops.hpp>
#include <meganeura/fusion/lower.hpp>
#include <meganeura/fusion/product_tiles.hpp>

#include <algorithm>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// How many parts are the quickest to compute, store and read again; each holds at least device_profile::split_terms,
// their number divides the sum's longest axis.
inline std::int64_t best_parts(const nest& loops, std::int64_t longest, const device_profile& device) {
  std::int64_t group[4] = {1, 1, 1, 1};
  for (int i = 0; i < loops.space.rank(); ++i) group[loops.group[i]] *= loops.space[i];
  const auto results = static_cast<double>(group[0] * group[1] * group[2]);
  const auto seconds = [&](std::int64_t parts) {
    const double share =
        tiles_of_product(group[0] * parts, group[1], group[2], group[3] / parts, device.compute_units).share;
    const double bytes = parts == 1 ? 0 : 2 * 4 * results * static_cast<double>(parts);
    return 2 * results * static_cast<double>(group[3]) / (device.matmul_flops * share) + bytes / device.bandwidth;
  };
  std::int64_t best = 1;
  double least = seconds(1);
  const std::int64_t most = std::min(group[3] / device.split_terms, std::int64_t{4} * device.compute_units);
  for (std::int64_t parts = 2; parts <= most; ++parts) {
    if (longest % parts != 0 || seconds(parts) >= least) continue;
    least = seconds(parts);
    best = parts;
  }
  return best;
}

// An operand with the axis of `label` as two, (parts, rest), and its labels: label 0 is the part, the others move up.
inline class_id split_operand(engine& g, class_id operand, std::uint8_t (&labels)[max_rank], int label,
                              std::int64_t parts, rule_mask reasons) {
  const shape before = g.extents(operand);
  shape extents;
  std::uint8_t moved[max_rank]{};
  for (int i = 0; i < before.rank(); ++i) {
    if (labels[i] == label) {
      moved[extents.rank()] = 0;
      extents.push_back(parts);
    }
    moved[extents.rank()] = static_cast<std::uint8_t>(labels[i] + 1);
    extents.push_back(labels[i] == label ? before[i] / parts : before[i]);
  }
  std::ranges::copy(moved, labels);
  return g.add(op::view, g[operand].type, extents, dense_view(extents), std::span(&operand, 1), reasons);
}

inline void add_split(lowering& pass, enode_id id, int label, std::int64_t parts) {
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  shape extents{parts};
  for (const std::int64_t extent : g.extents(owner)) extents.push_back(extent);
  if (extents.bytes(g[owner].type) > pass.limits().tensor_bytes) return;
  const rule_mask reasons = bit(structural::split_sum) | g.node(id).reasons;
  contract_attribute labels = g.get<contract_attribute>(id);
  const class_id a = split_operand(g, g.operand(id, 0), labels.a, label, parts, reasons);
  const class_id b = split_operand(g, g.operand(id, 1), labels.b, label, parts, reasons);
  ++labels.result_rank;
  const class_id operands[] = {a, b};
  const class_id sums = g.add(op::contract, g[owner].type, extents, labels, operands, reasons);
  g.add_to(owner, op::reduce, reduce_attribute{reduce_kind::sum, 1}, std::span(&sums, 1), reasons);
  pass.note_applied(structural::split_sum);
}

MEGANEURA_INLINE void split_sum::apply(lowering& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  if (!pass.device().parallel || g[owner].type != dtype::f32 || g[owner].decides) return;
  const contract_loops product = loops_of(g, id);
  const nest& loops = product.loops;
  if (!product.fits || loops.count(1) == 0 || loops.count(2) == 0) return;
  int longest = -1;
  for (int label = 0; label < contract_loops::max_labels; ++label) {
    if (product.group[label] != 3) continue;
    if (longest < 0 || product.extents[label] > product.extents[longest]) longest = label;
  }
  const int most =
      std::max({g.extents(owner).rank(), g.extents(g.operand(id, 0)).rank(), g.extents(g.operand(id, 1)).rank()});
  if (longest < 0 || most == max_rank) return;
  const std::int64_t parts = best_parts(loops, product.extents[longest], pass.device());
  if (parts > 1) add_split(pass, id, longest, parts);
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
