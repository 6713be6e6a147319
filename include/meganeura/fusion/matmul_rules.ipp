// SPDX-License-Identifier: MIT
// Products: contracts to matmuls or, where a side is missing, to regions; how long they take and what they end with.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/contract_loops.hpp>
#include <meganeura/fusion/cost_terms.hpp>
#include <meganeura/fusion/epilogue_draft.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/kernel_family.hpp>
#include <meganeura/fusion/product_schedules.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

MEGANEURA_INLINE void contract_to_region::apply(implementation_pass& pass, enode_id id) {
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
  if (read.bounded) return "the operand has a border";
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

// `accesses` of the loops: the result, both operands, and then what the epilogue reads.
inline void emit_matmul(implementation_pass& pass, class_id owner, nest loops, class_id a, class_id b,
                        const scalar_program& finish, std::span<const class_id> others, rule_mask reasons) {
  engine& g = pass.graph();
  // Threads of a product run along n: the group with the result's unit stride takes that place.
  bool unit_in_m = false;
  for (int k = 0; k < loops.space.rank(); ++k) unit_in_m |= loops.group[k] == 1 && loops.accesses[0].strides[k] == 1;
  if (unit_in_m) {
    for (int k = 0; k < loops.space.rank(); ++k) {
      if (loops.group[k] == 1 || loops.group[k] == 2) loops.group[k] = static_cast<std::uint8_t>(3 - loops.group[k]);
    }
    std::swap(loops.accesses[1], loops.accesses[2]);
    std::swap(a, b);
  }
  normalise(loops);
  if (!std::all_of(loops.accesses.begin(), loops.accesses.end(), is_plain)) {
    fail(error_category::internal, "fusion: a product of {} would read or write with a border or backwards",
         to_string(g.extents(g.find(owner))));
  }
  matmul_attribute value;
  value.space = loops.space;
  value.batch_axes = loops.count(0);
  value.m_axes = loops.count(1);
  value.n_axes = loops.count(2);
  value.k_axes = loops.count(3);
  value.output = loops.accesses[0];
  value.a = loops.accesses[1];
  value.b = loops.accesses[2];
  value.a.source = 0;
  value.b.source = 1;
  value.output.source = 0;
  value.finish.program = finish;
  value.finish.accesses.assign(loops.accesses.begin() + 3, loops.accesses.end());
  value.schedule = pass.best(extents_of(value)).schedule;
  class_list operands = {a, b};
  operands.append(others.begin(), others.end());
  for (class_id operand : operands) {
    if (g.find(operand) == g.find(owner)) return;
  }
  g.add_to(owner, op::matmul, value, operands, reasons | pass.reasons());
  pass.note_applied(making(op::matmul));
}

MEGANEURA_INLINE void kernel_family<op::matmul>::make(implementation_pass& pass, enode_id id) {
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
  const rule_mask made = bit(making(op::matmul)),
                  reasons = made | (through ? bit(structural::matmul_view) : rule_mask());
  emit_matmul(pass, owner, loops, sources[0], sources[1], stored, {}, reasons);
  // Reading through a view that leaves no unit stride competes with copying the operand first.
  if (strided) emit_matmul(pass, owner, plain, direct[0], direct[1], stored, {}, made);
}

// Products over few terms cost less again than they do in memory.
MEGANEURA_INLINE bool kernel_family<op::matmul>::is_short(const engine& g, enode_id id) {
  const auto& product = g.get<matmul_attribute>(id);
  std::int64_t terms = 1;
  for (int k = product.space.rank() - product.k_axes; k < product.space.rank(); ++k) terms *= product.space[k];
  return terms <= 16;
}

MEGANEURA_INLINE const char* kernel_family<op::matmul>::fuse(implementation_pass& pass, enode_id region,
                                                             std::size_t operand, enode_id product) {
  const engine& g = pass.graph();
  const auto& inner = g.get<matmul_attribute>(product);
  nest loops = to_nest(inner);
  epilogue_draft made(g, region, operand, product, pass.limits());
  if (const char* problem = made.combine(loops, true, inner.finish)) return problem;
  loops.accesses[0] = made.output;
  loops.accesses.resize(3);
  loops.accesses.append(made.finish.accesses.begin(), made.finish.accesses.end());
  const rule_mask reasons = g.node(region).reasons | g.node(product).reasons | bit(ending(op::matmul));
  emit_matmul(pass, g.find(g.node(region).owner), loops, g.operand(product, 0), g.operand(product, 1),
              made.finish.program, made.others, reasons);
  return nullptr;
}

inline kernel_time product_time(const matmul_attribute& product, const device_profile& device) {
  const product_extents p = extents_of(product);
  return product.schedule.is_on_units() ? unit_time(product.schedule, p, device) : multiply_add_time(p, device);
}

MEGANEURA_INLINE kernel_time kernel_family<op::matmul>::time(const engine& g, enode_id id,
                                                             const device_profile& device) {
  const auto& product = g.get<matmul_attribute>(id);
  double bytes = bytes_of(g, g.find(g.node(id).owner));
  for (const index_map* read : {&product.a, &product.b}) {
    const class_id source = g.operand(id, static_cast<std::size_t>(read->source));
    const double elements = std::min(touched(*read, product.space), static_cast<double>(g.extents(source).elements()));
    bytes += bytes_of(g[source].type, elements) * (has_unit_stride(*read, product.space) ? 1 : device.strided_read);
  }
  const double extra = epilogue_cost(g, id, product.finish, product.space, product.k_axes, device, bytes);
  return finished_time(product_time(product, device), bytes, extra, device);
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
