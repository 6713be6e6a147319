// SPDX-License-Identifier: MIT
// Kinds that implement a primitive as it stands: how they are made, what they end with and how long they take.
#pragma once
#include <meganeura/fusion/epilogue_draft.hpp>
#include <meganeura/fusion/kernel_family.hpp>

namespace meganeura::inline MEGANEURA_ABI::fusion::detail {

template <op Kind>
void implementation_family<Kind>::make(implementation_pass& pass, enode_id id) {
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const class_list operands(g.operands(id).begin(), g.operands(id).end());
  const shape& space = g.extents(owner);
  using carried = decltype(attribute_type::primitive);
  const attribute_type value{g.get<carried>(id), space, dense_access(space), {identity_program(g[owner].type), {}}};
  g.add_to(owner, Kind, value, operands, bit(making(Kind)));
  pass.note_applied(making(Kind));
}

template <op Kind>
const char* implementation_family<Kind>::fuse(implementation_pass& pass, enode_id region, std::size_t operand,
                                              enode_id node) {
  engine& g = pass.graph();
  const auto& inner = g.get<attribute_type>(node);
  nest loops{.space = inner.space};
  loops.accesses = {inner.output};
  loops.accesses.resize(1 + own_operands(Kind));  // these are not read through the loops
  loops.accesses.append(inner.finish.accesses.begin(), inner.finish.accesses.end());
  epilogue_draft made(g, region, operand, node, pass.limits());
  if (const char* problem = made.combine(loops, false, inner.finish)) return problem;
  class_list operands;
  for (std::size_t i = 0; i < own_operands(Kind); ++i) operands.push_back(g.operand(node, i));
  operands.append(made.others.begin(), made.others.end());
  const attribute_type value{inner.primitive, inner.space, made.output, made.finish};
  const rule_mask reasons = reasons_of_ending(g, region, node);
  g.add_to(g.find(g.node(region).owner), Kind, value, operands, reasons, skips_rounding(reasons));
  return nullptr;
}

template <op Kind>
kernel_time implementation_family<Kind>::time_with(const kernel_time& primitive, const engine& g, enode_id id,
                                                   const device_profile& device) {
  const auto& value = g.get<attribute_type>(id);
  double bytes =
      bytes_of(g, g.find(g.node(id).owner)) * (is_coalesced(value.output, value.space) ? 1 : device.strided_read);
  for (std::size_t i = 0; i < own_operands(Kind); ++i) bytes += bytes_of(g, g.operand(id, i));
  const double extra = epilogue_cost(g, id, value.finish, value.space, 0, device, bytes);
  return finished_time(primitive, bytes, extra, device);
}

template <op Kind>
kernel_time implementation_family<Kind>::time(const engine& g, enode_id id, const device_profile& device) {
  return time_with({}, g, id, device);
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion::detail
