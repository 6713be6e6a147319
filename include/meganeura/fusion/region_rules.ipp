// SPDX-License-Identifier: MIT
// Structural rules from primitives to regions: maps, views, reductions, borders, concats and indices.
#pragma once
#include <meganeura/fusion/implement.hpp>

#include <algorithm>
#include <limits>
#include <optional>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

MEGANEURA_INLINE void map_to_region::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  region_draft draft = pass.draft();
  flat_loops(draft, g.extents(owner));
  const index_map flat = draft.loops.accesses[0];
  for (std::size_t i = 0; i < g.node(id).operand_count; ++i) pass.add_operand(draft, g.operand(id, i), flat);
  const scalar_program program = g.get<map_attribute>(id).program;
  pass.emit_regions(owner, draft, program, rule);
}

MEGANEURA_INLINE void view_to_region::apply(implementation_pass& pass, enode_id id) {
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

inline scalar_program row_program(reduce_kind kind, dtype type) {
  scalar_builder builder;
  return builder.finish(builder.unary(info(kind).row, builder.argument(0, type)));
}

// The smallest position (argument 1) of the elements that reach the extremum or are NaN. Both looks at an element are
// one node of one program; scalar programs round after every operation (kernels/scalar_emit.ipp), so that each look
// gives the same value and there is such an element.
inline scalar_program arg_program(reduce_kind kind, dtype type) {
  const bool is_max = kind == reduce_kind::arg_max;
  scalar_builder b;
  const scalar_ref x = b.argument(0, type), position = b.argument(1, dtype::i32);
  const scalar_ref extremum = b.unary(info(kind).row, x);
  const scalar_ref reaches = b.binary(scalar_op::less_equal, is_max ? extremum : x, is_max ? x : extremum);
  const scalar_ref nan = b.unary(scalar_op::logical_not, b.binary(scalar_op::equal, x, x));
  const scalar_ref beyond = b.constant(std::numeric_limits<std::int32_t>::max(), dtype::i32);
  const scalar_ref place = b.select(b.binary(scalar_op::logical_or, reaches, nan), position, beyond);
  return b.finish(b.unary(scalar_op::row_min, place));
}

// The row-major position along the row axes.
inline index_map row_position(const nest& loops) {
  index_map position;
  std::int64_t stride = 1;
  for (int i = loops.space.rank(); i-- > 0;) {
    if (loops.group[i] != region_draft::row || loops.space[i] == 1) continue;
    position.strides[i] = stride;
    stride *= loops.space[i];
  }
  return position;
}

inline constexpr std::int64_t most_parts_at_once = 4;

// Whether the reduction is the sum of few parts of a product.
inline bool adds_parts(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner), parts = g.find(g.operand(id, 0));
  const std::int64_t results = g.extents(owner).elements();
  const auto is_product = [&](enode_id node) {
    return g.node(node).kind == op::contract || g.node(node).kind == op::convolution;
  };
  return g.get<reduce_attribute>(id).kind == reduce_kind::sum && g[parts].type == dtype::f32 && results > 0 &&
         g.extents(parts).elements() <= most_parts_at_once * results && std::ranges::any_of(g[parts].nodes, is_product);
}

MEGANEURA_INLINE void sum_parts::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  if (!adds_parts(pass, id)) return;
  const class_id owner = g.find(g.node(id).owner), operand = g.operand(id, 0);
  const auto reduce = g.get<reduce_attribute>(id);
  const shape before = g.extents(operand);
  region_draft draft = pass.draft();
  draft.loops.space = g.extents(owner);
  draft.loops.accesses = {dense_access(draft.loops.space)};
  const index_map dense = dense_access(before);
  index_map first;
  small_vector<std::int64_t, most_parts_at_once> offsets = {0};
  for (int i = 0, kept = 0; i < before.rank(); ++i) {
    if ((reduce.axes >> i & 1) == 0) {
      first.strides[kept++] = dense.strides[i];
      continue;
    }
    const std::size_t inner = offsets.size();
    for (std::int64_t at = 1; at < before[i]; ++at) {
      for (std::size_t j = 0; j < inner; ++j) offsets.push_back(offsets[j] + at * dense.strides[i]);
    }
  }
  scalar_builder builder;
  std::optional<scalar_ref> sum;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    first.offset = offsets[i];
    pass.add_operand(draft, operand, first);
    const scalar_ref part = builder.argument(static_cast<int>(i), dtype::f32);
    sum = sum ? builder.binary(scalar_op::add, *sum, part) : part;
  }
  pass.emit_regions(owner, draft, builder.finish(*sum), rule);
}

MEGANEURA_INLINE void reduce_to_region::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  if (pass.enabled(structural::sum_parts) && adds_parts(pass, id)) return;
  const class_id owner = g.find(g.node(id).owner), operand = g.operand(id, 0);
  const auto reduce = g.get<reduce_attribute>(id);
  region_draft draft = pass.draft();
  draft.loops.space = g.extents(operand);
  draft.per_row = true;
  const index_map result = dense_access(g.extents(owner));
  index_map output;
  for (int i = 0, kept = 0; i < draft.loops.space.rank(); ++i) {
    if (reduce.axes >> i & 1) {
      draft.loops.group[i] = region_draft::row;
    } else {
      output.strides[i] = result.strides[kept++];
    }
  }
  draft.loops.accesses = {output};
  pass.add_operand(draft, operand, dense_access(draft.loops.space));
  const dtype type = g[operand].type;
  if (is_arg(reduce.kind)) draft.add_index(row_position(draft.loops));
  pass.emit_regions(owner, draft, is_arg(reduce.kind) ? arg_program(reduce.kind, type) : row_program(reduce.kind, type),
                    rule);
}

MEGANEURA_INLINE void pad_to_region::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner), operand = g.operand(id, 0);
  const auto& pad = g.get<pad_attribute>(id);
  region_draft draft = pass.draft();
  draft.loops.space = g.extents(owner);
  draft.loops.accesses = {dense_access(draft.loops.space)};
  index_map how = dense_access(g.extents(operand));
  how.fill = pad.value;
  for (int i = 0; i < draft.loops.space.rank(); ++i) {
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

MEGANEURA_INLINE void concat_to_region::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const int axis = g.get<axis_attribute>(id).axis;
  const class_list pieces(g.operands(id).begin(), g.operands(id).end());
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
  scalar_ref value{0};
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

MEGANEURA_INLINE void iota_to_region::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  region_draft draft = pass.draft();
  flat_loops(draft, g.extents(owner));
  draft.add_index(draft.loops.accesses[0]);
  pass.emit_regions(owner, draft, identity_program(dtype::i32), rule);
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
