// SPDX-License-Identifier: MIT
// Convolutions: the kernels they become, what these cost and what they end with.
#pragma once
#include <meganeura/fusion/cost_terms.hpp>
#include <meganeura/fusion/epilogue_draft.hpp>
#include <meganeura/fusion/kernel_family.hpp>
#include <meganeura/fusion/lower.hpp>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

MEGANEURA_INLINE void convolution_to_convolve::apply(lowering& pass, enode_id id) {
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const std::vector<class_id> operands(g.operands(id).begin(), g.operands(id).end());
  const shape& space = g.extents(owner);
  const convolve_attribute value{
      g.get<convolution_attribute>(id), space, dense_access(space), {identity_program(g[owner].type), {}}};
  g.add_to(owner, op::convolve, value, operands, bit(rule));
  pass.note_applied(rule);
}

MEGANEURA_INLINE const char* kernel_family<op::convolve>::fuse(lowering& pass, enode_id region, std::size_t operand,
                                                               enode_id product) {
  engine& g = pass.graph();
  const auto& inner = g.get<convolve_attribute>(product);
  nest loops{.space = inner.space};
  loops.accesses = {inner.output, {}, {}};  // a and b are not read through these loops
  loops.accesses.insert(loops.accesses.end(), inner.finish.accesses.begin(), inner.finish.accesses.end());
  epilogue_draft made(g, region, operand, product, pass.limits());
  if (const char* problem = made.combine(loops, false, inner.finish)) return problem;
  std::vector<class_id> operands = {g.operand(product, 0), g.operand(product, 1)};
  operands.insert(operands.end(), made.others.begin(), made.others.end());
  const convolve_attribute value{inner.convolution, inner.space, made.output, made.finish};
  const rule_mask reasons = g.node(region).reasons | g.node(product).reasons | bit(epilogue_rule);
  g.add_to(g.find(g.node(region).owner), op::convolve, value, operands, reasons);
  return nullptr;
}

MEGANEURA_INLINE double kernel_family<op::convolve>::seconds(const engine& g, enode_id id,
                                                             const device_profile& device) {
  const auto& c = g.get<convolve_attribute>(id);
  const class_id self = g.find(g.node(id).owner);
  const shape &first = g.extents(g.operand(id, 0)), &second = g.extents(g.operand(id, 1)), &own = c.space;
  const auto form = c.convolution.form;
  const shape& y = form == convolution_attribute::output ? own : form == convolution_attribute::input ? first : second;
  const shape& w = form == convolution_attribute::filter ? own : second;
  double bytes = bytes_of(g, self) * (is_coalesced(c.output, own) ? 1 : device.strided_read);
  bytes += bytes_of(g, g.operand(id, 0)) + bytes_of(g, g.operand(id, 1));
  const double extra = epilogue_cost(g, id, c.finish, own, 0, device, bytes);
  const double flops = 2 * static_cast<double>(y.elements()) * static_cast<double>(w.elements() / w[0]);
  return overlapped(bytes / device.bandwidth, flops / device.matmul_flops + extra / device.scalar_flops) +
         device.launch;
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
