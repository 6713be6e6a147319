// SPDX-License-Identifier: MIT
// Structural rules of products: contracts to matmuls or, where a side is missing, to regions; convolutions.
#pragma once
#include <meganeura/egraph/contract_loops.hpp>
#include <meganeura/egraph/cost.ipp>
#include <meganeura/egraph/lower.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::egraph {

namespace detail {

MEGANEURA_INLINE void contract_to_region::apply(lowering& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const contract_loops product = loops_of(g, id);
  const bool sums = product.loops.count(3) > 0;
  if (!product.fits) return;
  const dtype type = g[owner].type;
  if (sums && type == dtype::f32 && product.loops.count(1) > 0 && product.loops.count(2) > 0) return;
  region_draft draft = pass.draft();
  draft.loops.space = product.loops.space;
  for (int i = 0; i < max_rank; ++i) draft.loops.group[i] = product.loops.group[i] == 3 ? region_draft::row : 0;
  draft.per_row = sums;
  draft.loops.accesses = {product.loops.accesses[0]};
  scalar_builder builder;
  for (std::size_t side = 0; side < 2; ++side) {
    pass.add_operand(draft, g.operand(id, side), product.loops.accesses[side + 1]);
  }
  scalar_ref value = builder.binary(scalar_op::multiply, builder.argument(0, type), builder.argument(1, type));
  if (sums) value = builder.unary(scalar_op::row_sum, value);
  pass.emit_regions(owner, draft, builder.finish(value), rule);
}

// Replaces the operand by what its view reads.
inline const char* read_through(const engine& g, enode_id copy, nest& loops, std::size_t which, class_id& source) {
  const auto& region = g.get<region_attribute>(copy);
  const index_map& read = region.accesses[0];
  if (read.bounded || read.source < 0) return "the operand has a border";
  if (g[g.operand(copy, 0)].type != g[source].type) return "the operand is stored in another dtype";
  const nest before = loops;
  axis_map map;
  index_map composed;
  if (!solve_index(loops, which, region.space, region.space.rank(), region.output, true, map) ||
      !compose_access(read, region.space.rank(), map, loops.accesses[which], loops.space, composed)) {
    loops = before;
    return "the operand's view is not affine in the product's loops";
  }
  if (!is_forward(composed)) {
    loops = before;
    return "the operand would be read backwards";
  }
  loops.accesses[which] = composed;
  source = g.operand(copy, 0);
  return nullptr;
}

MEGANEURA_INLINE void contract_to_matmul::apply(lowering& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const contract_loops product = loops_of(g, id);
  if (!product.fits || g[owner].type != dtype::f32) return;  // the kernels of products read and store f32
  nest loops = product.loops;
  const nest plain = loops;
  class_id sources[2] = {g.operand(id, 0), g.operand(id, 1)};
  const class_id direct[2] = {sources[0], sources[1]};
  bool through = false, strided = false;
  for (std::size_t side = 0; pass.enabled(structural::matmul_view) && side < 2; ++side) {
    const enode_id copy = pass.copy_form(sources[side]);
    if (copy == no_id) continue;
    const char* problem = read_through(g, copy, loops, side + 1, sources[side]);
    if (problem) {
      pass.note_missed({owner, sources[side], structural::matmul_view, problem});
      continue;
    }
    pass.note_applied(structural::matmul_view);
    through = true;
    strided |= !has_unit_stride(loops.accesses[side + 1], loops.space);
  }
  const scalar_program stored = identity_program(g[owner].type);
  const rule_mask reasons = bit(rule) | (through ? bit(structural::matmul_view) : rule_mask());
  pass.emit_matmul(owner, loops, sources[0], sources[1], stored, {}, reasons);
  // Reading through a view that leaves no unit stride competes with copying the operand first.
  if (strided) pass.emit_matmul(owner, plain, direct[0], direct[1], stored, {}, bit(rule));
}

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

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
