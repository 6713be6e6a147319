// SPDX-License-Identifier: MIT
// Structural rules from primitives to regions: maps, views, reductions, borders, concats and indices.
#pragma once
#include <meganeura/egraph/lower.hpp>

namespace meganeura::inline MEGANEURA_ABI::egraph {

namespace detail {

MEGANEURA_INLINE void map_to_region::apply(lowering& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  region_draft draft = pass.draft();
  flat_loops(draft, g.extents(owner));
  const index_map flat = draft.loops.accesses[0];
  for (std::size_t i = 0; i < g.node(id).operand_count; ++i) pass.add_operand(draft, g.operand(id, i), flat);
  const scalar_program program = g.get<map_attribute>(id).program;
  pass.emit_regions(owner, draft, program, rule);
}

MEGANEURA_INLINE void view_to_region::apply(lowering& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const auto& view = g.get<view_attribute>(id);
  region_draft draft = pass.draft();
  draft.loops.space = g.extents(owner);
  draft.loops.accesses = {dense_access(draft.loops.space)};
  index_map how{.offset = view.offset};
  std::copy(view.strides, view.strides + max_rank, how.strides);
  pass.add_operand(draft, g.operand(id, 0), how);
  pass.emit_regions(owner, draft, identity_program(g[owner].type), rule);
}

MEGANEURA_INLINE void reduce_to_region::apply(lowering& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner), operand = g.operand(id, 0);
  const auto reduce = g.get<reduce_attribute>(id);
  region_draft draft = pass.draft();
  draft.loops.space = g.extents(operand);
  draft.per_row = true;
  const index_map result = dense_access(g.extents(owner));
  index_map output;
  for (int i = 0, kept = 0; i < draft.loops.space.rank; ++i) {
    if (reduce.axes >> i & 1) {
      draft.loops.group[i] = region_draft::row;
    } else {
      output.strides[i] = result.strides[kept++];
    }
  }
  draft.loops.accesses = {output};
  pass.add_operand(draft, operand, dense_access(draft.loops.space));
  constexpr scalar_op rows[] = {scalar_op::row_sum, scalar_op::row_max, scalar_op::row_min, scalar_op::row_product};
  scalar_builder builder;
  const scalar_ref value = builder.argument(0, g[owner].type);
  pass.emit_regions(owner, draft, builder.finish(builder.unary(rows[static_cast<int>(reduce.kind)], value)), rule);
}

MEGANEURA_INLINE void pad_to_region::apply(lowering& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner), operand = g.operand(id, 0);
  const auto& pad = g.get<pad_attribute>(id);
  region_draft draft = pass.draft();
  draft.loops.space = g.extents(owner);
  draft.loops.accesses = {dense_access(draft.loops.space)};
  index_map how = dense_access(g.extents(operand));
  how.fill = pad.value;
  for (int i = 0; i < draft.loops.space.rank; ++i) {
    if (pad.low[i] == 0 && pad.high[i] == 0) continue;
    how.offset -= pad.low[i] * how.strides[i];
    how.bounded |= 1u << i;
    how.low[i] = pad.low[i];
    how.high[i] = pad.low[i] + g.extents(operand)[i];
  }
  // A border around a constant is not a constant: the box is needed, so the operand is read even then.
  draft.add_read(operand, g[operand].type, how);
  pass.emit_regions(owner, draft, identity_program(g[owner].type), rule);
}

MEGANEURA_INLINE void concat_to_region::apply(lowering& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const int axis = g.get<axis_attribute>(id).axis;
  std::vector<class_id> pieces(g.operands(id).begin(), g.operands(id).end());
  if (pieces.size() > concat_pieces) return;
  const shape space = g.extents(owner);
  region_draft draft = pass.draft();
  draft.loops.space = space;
  draft.loops.accesses = {dense_access(space)};
  scalar_builder builder;
  index_map coordinate;
  coordinate.strides[axis] = space[axis] == 1 ? 0 : 1;
  draft.add_index(coordinate);
  const scalar_ref at = builder.argument(0, dtype::i32);
  std::int64_t start = space[axis];
  scalar_ref value = 0;
  for (std::size_t i = pieces.size(); i-- > 0;) {
    const class_id piece = g.find(pieces[i]);
    const shape& extents = g.extents(piece);
    const std::int64_t end = start;
    start -= extents[axis];
    index_map how = dense_access(extents);
    how.offset = -start * how.strides[axis];
    how.bounded = 1u << axis;
    how.low[axis] = start;
    how.high[axis] = end;
    const scalar_ref read = builder.argument(static_cast<int>(draft.arguments()), g[piece].type);
    pass.add_operand(draft, piece, how);
    const scalar_ref bound = builder.constant(static_cast<double>(end), dtype::i32);
    value = i + 1 == pieces.size() ? read : builder.select(builder.binary(scalar_op::less, at, bound), read, value);
  }
  pass.emit_regions(owner, draft, builder.finish(value), rule);
}

MEGANEURA_INLINE void iota_to_region::apply(lowering& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  region_draft draft = pass.draft();
  flat_loops(draft, g.extents(owner));
  draft.add_index(draft.loops.accesses[0]);
  pass.emit_regions(owner, draft, identity_program(dtype::i32), rule);
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
