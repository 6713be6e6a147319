// SPDX-License-Identifier: MIT
// Definitions for egraph/lower.hpp: the rules as structs, and the driver that applies them.
#pragma once
#include <meganeura/egraph/cost.ipp>
#include <meganeura/egraph/lower.hpp>

#include <algorithm>
#include <tuple>

namespace meganeura::inline MEGANEURA_ABI::egraph {

MEGANEURA_INLINE const char* to_string(structural rule) {
  constexpr const char* names[structural_count] = {
      "map_to_region",      "view_to_region",     "reduce_to_region",        "pad_to_region",  "concat_to_region",
      "constant_to_region", "iota_to_region",     "contract_to_region",      "contract_to_matmul",
      "convolution_to_convolve", "fuse_view",     "fuse_pointwise",          "fuse_rows",      "recompute",
      "matmul_view",        "matmul_epilogue",    "convolve_epilogue",       "relu_mask"};
  return names[static_cast<int>(rule)];
}

// ---- rules -----------------------------------------------------------------------------------------------------------

namespace detail {

inline scalar_program identity_program(dtype type) {
  scalar_builder builder;
  return builder.finish(builder.argument(0, type));
}

inline index_map dense_access(const shape& extents) {
  const view_attribute dense = dense_view(extents);
  index_map result;
  std::copy(dense.strides, dense.strides + max_rank, result.strides);
  return result;
}

inline void flat_loops(region_draft& draft, const shape& extents) {
  draft.loops.space = {extents.elements()};
  draft.loops.accesses = {dense_access(draft.loops.space)};
}

struct map_to_region {
  static constexpr structural rule = structural::map_to_region;
  static constexpr op root = op::map;
  static constexpr exactness exact = exactness::exact;
  static void apply(lowering& pass, enode_id id) {
    const engine& g = pass.graph();
    const class_id owner = g.find(g.node(id).owner);
    region_draft draft = pass.draft();
    flat_loops(draft, g.extents(owner));
    const index_map flat = draft.loops.accesses[0];
    for (std::size_t i = 0; i < g.node(id).operand_count; ++i) pass.add_operand(draft, g.operand(id, i), flat);
    const scalar_program program = g.get<map_attribute>(id).program;
    pass.emit_regions(owner, draft, program, rule);
  }
};

struct view_to_region {
  static constexpr structural rule = structural::view_to_region;
  static constexpr op root = op::view;
  static constexpr exactness exact = exactness::exact;
  static void apply(lowering& pass, enode_id id) {
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
};

struct reduce_to_region {
  static constexpr structural rule = structural::reduce_to_region;
  static constexpr op root = op::reduce;
  static constexpr exactness exact = exactness::exact;
  static void apply(lowering& pass, enode_id id) {
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
};

struct pad_to_region {
  static constexpr structural rule = structural::pad_to_region;
  static constexpr op root = op::pad;
  static constexpr exactness exact = exactness::exact;
  static void apply(lowering& pass, enode_id id) {
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
};

struct concat_to_region {
  static constexpr structural rule = structural::concat_to_region;
  static constexpr op root = op::concat;
  static constexpr exactness exact = exactness::exact;
  static void apply(lowering& pass, enode_id id) {
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
};

struct iota_to_region {
  static constexpr structural rule = structural::iota_to_region;
  static constexpr op root = op::iota;
  static constexpr exactness exact = exactness::exact;
  static void apply(lowering& pass, enode_id id) {
    const engine& g = pass.graph();
    const class_id owner = g.find(g.node(id).owner);
    region_draft draft = pass.draft();
    flat_loops(draft, g.extents(owner));
    draft.add_index(draft.loops.accesses[0]);
    pass.emit_regions(owner, draft, identity_program(dtype::i32), rule);
  }
};

// Labels of a contract by what becomes of them: batch, m, n, k.
struct contract_loops {
  nest loops;  // accesses: result, a, b
  bool fits = true;

  contract_loops(const engine& g, enode_id id) {
    const auto& labels = g.get<contract_attribute>(id);
    constexpr int max_labels = 2 * max_rank;
    const index_map result = dense_access(g.extents(g.find(g.node(id).owner)));
    index_map reads[2];
    std::int64_t extents[max_labels]{}, strides[2][max_labels]{};
    bool in[2][max_labels]{};
    for (std::size_t side = 0; side < 2; ++side) {
      const shape& operand = g.extents(g.operand(id, side));
      reads[side] = dense_access(operand);
      for (int i = 0; i < operand.rank; ++i) {
        const int label = (side == 0 ? labels.a : labels.b)[i];
        extents[label] = operand[i];
        strides[side][label] = reads[side].strides[i];
        in[side][label] = true;
      }
    }
    loops.accesses.resize(3);
    for (std::uint8_t group = 0; group < 4; ++group) {
      for (int label = 0; label < max_labels; ++label) {
        if (!in[0][label] && !in[1][label]) continue;
        const int own = label >= labels.result_rank ? 3 : in[0][label] && in[1][label] ? 0 : in[0][label] ? 1 : 2;
        if (own != group || extents[label] == 1) continue;
        if (loops.space.rank == max_rank) {
          fits = false;
          return;
        }
        const int axis = loops.space.rank;
        loops.group[axis] = group;
        loops.accesses[0].strides[axis] = group == 3 ? 0 : result.strides[label];
        loops.accesses[1].strides[axis] = strides[0][label];
        loops.accesses[2].strides[axis] = strides[1][label];
        loops.space.push_back(extents[label]);
      }
    }
  }
};

// A product without a real second side is no product: dot products, matrix-vector, outer products become rows and maps.
struct contract_to_region {
  static constexpr structural rule = structural::contract_to_region;
  static constexpr op root = op::contract;
  static constexpr exactness exact = exactness::exact;
  static void apply(lowering& pass, enode_id id) {
    const engine& g = pass.graph();
    const class_id owner = g.find(g.node(id).owner);
    const contract_loops product(g, id);
    const bool sums = product.loops.count(3) > 0;
    if (!product.fits) return;
    if (sums && product.loops.count(1) > 0 && product.loops.count(2) > 0) return;
    region_draft draft = pass.draft();
    draft.loops.space = product.loops.space;
    for (int i = 0; i < max_rank; ++i) draft.loops.group[i] = product.loops.group[i] == 3 ? region_draft::row : 0;
    draft.per_row = sums;
    draft.loops.accesses = {product.loops.accesses[0]};
    scalar_builder builder;
    for (std::size_t side = 0; side < 2; ++side) {
      pass.add_operand(draft, g.operand(id, side), product.loops.accesses[side + 1]);
    }
    const dtype type = g[owner].type;
    scalar_ref value = builder.binary(scalar_op::multiply, builder.argument(0, type), builder.argument(1, type));
    if (sums) value = builder.unary(scalar_op::row_sum, value);
    pass.emit_regions(owner, draft, builder.finish(value), rule);
  }
};

struct contract_to_matmul {
  static constexpr structural rule = structural::contract_to_matmul;
  static constexpr op root = op::contract;
  static constexpr exactness exact = exactness::exact;
  static void apply(lowering& pass, enode_id id) {
    const engine& g = pass.graph();
    const class_id owner = g.find(g.node(id).owner);
    const contract_loops product(g, id);
    if (!product.fits) return;
    nest loops = product.loops;
    const nest plain = loops;
    class_id sources[2] = {g.operand(id, 0), g.operand(id, 1)};
    const class_id direct[2] = {sources[0], sources[1]};
    bool through = false, strided = false;
    for (std::size_t side = 0; pass.enabled(structural::matmul_view) && side < 2; ++side) {
      const enode_id copy = pass.copy_form(sources[side]);
      if (copy == none) continue;
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
    const rule_mask reasons = bit(rule) | (through ? bit(structural::matmul_view) : 0);
    pass.emit_matmul(owner, loops, sources[0], sources[1], stored, {}, reasons);
    // Reading through a view that leaves no unit stride competes with copying the operand first.
    if (strided) pass.emit_matmul(owner, plain, direct[0], direct[1], stored, {}, bit(rule));
  }

 private:
  static const char* read_through(const engine& g, enode_id copy, nest& loops, std::size_t which, class_id& source) {
    const auto& region = g.get<region_attribute>(copy);
    const index_map& read = region.accesses[0];
    if (read.bounded || read.source < 0) return "the operand has a border";
    const nest before = loops;
    axis_map map;
    index_map composed;
    if (!solve_index(loops, which, region.space, region.space.rank, region.output, true, map) ||
        !compose_access(read, region.space.rank, map, loops.accesses[which], loops.space, composed)) {
      loops = before;
      return "the operand's view is not affine in the product's loops";
    }
    loops.accesses[which] = composed;
    source = g.operand(copy, 0);
    return nullptr;
  }
};

struct convolution_to_convolve {
  static constexpr structural rule = structural::convolution_to_convolve;
  static constexpr op root = op::convolution;
  static constexpr exactness exact = exactness::exact;
  static void apply(lowering& pass, enode_id id) {
    engine& g = pass.graph();
    const class_id owner = g.find(g.node(id).owner);
    const std::vector<class_id> operands(g.operands(id).begin(), g.operands(id).end());
    const convolve_attribute value{g.get<convolution_attribute>(id), {identity_program(g[owner].type), {}}};
    g.add_to(owner, op::convolve, value, operands, bit(rule));
    pass.note_applied(rule);
  }
};

// A pointwise region over a product becomes what is done to the product before it is stored.
struct product_epilogue {
  static constexpr op root = op::region;
  static constexpr exactness exact = exactness::exact;
  static constexpr std::size_t widest = 8;  // operands an epilogue may read
  static constexpr std::size_t products = 4;  // forms of one product that are tried

  static void apply(lowering& pass, enode_id id) {
    const engine& g = pass.graph();
    if (g.get<region_attribute>(id).row_axes > 0) return;
    const class_id owner = g.find(g.node(id).owner);
    for (std::size_t i = 0; i < g.node(id).operand_count; ++i) {
      const class_id product = g.operand(id, i);
      if (product == owner) continue;
      std::size_t tried = 0;
      const std::vector<enode_id> candidates = g[product].nodes;
      for (enode_id candidate : candidates) {
        const op kind = g.node(candidate).kind;
        if ((kind != op::matmul && kind != op::convolve) || ++tried > products) continue;
        const structural rule = kind == op::matmul ? structural::matmul_epilogue : structural::convolve_epilogue;
        if (!pass.enabled(rule)) continue;
        if (pass.uses(product) > 1 && !is_short(g, candidate)) {
          pass.note_missed({owner, product, rule, "the product has other consumers"});
          continue;
        }
        const char* problem = kind == op::matmul ? fuse_matmul(pass, id, i, candidate) : fuse_convolve(pass, id, i, candidate);
        if (problem) {
          pass.note_missed({owner, product, rule, problem});
        } else {
          pass.note_applied(rule);
        }
      }
    }
  }

 private:
  // Products over few terms cost less again than they do in memory.
  static bool is_short(const engine& g, enode_id id) {
    if (g.node(id).kind != op::matmul) return false;
    const auto& product = g.get<matmul_attribute>(id);
    std::int64_t terms = 1;
    for (int k = product.space.rank - product.k_axes; k < product.space.rank; ++k) terms *= product.space[k];
    return terms <= 16;
  }

  struct parts {
    epilogue finish;
    std::vector<class_id> others;
    index_map output;
  };

  // `loops` are the product's, accesses[0] its output: solves for the region's index and carries its reads over.
  static const char* combine(const engine& g, enode_id region_id, std::size_t operand, nest& loops, bool may_split,
                             const epilogue& inner, std::span<const class_id> inner_others, parts& result) {
    const auto& region = g.get<region_attribute>(region_id);
    int which = -1;
    for (std::size_t k = 0; k < region.accesses.size(); ++k) {
      if (region.accesses[k].source != static_cast<int>(operand)) continue;
      if (which >= 0) return "the product is read in two ways";
      which = static_cast<int>(k);
    }
    const index_map& read = region.accesses[static_cast<std::size_t>(which)];
    if (read.bounded) return "the product is read with a border";
    const class_id product = g.operand(region_id, operand);
    if (region.space.elements() != g.extents(product).elements()) return "elements of the product are left out or repeated";
    axis_map map;
    if (!solve_index(loops, 0, region.space, region.space.rank, read, may_split, map)) {
      return "the product's order is not affine in the region's loops";
    }
    const index_map own = loops.accesses[0];
    result.finish.accesses = {};
    result.others.assign(inner_others.begin(), inner_others.end());
    for (std::size_t k = 3; k < loops.accesses.size(); ++k) result.finish.accesses.push_back(loops.accesses[k]);
    scalar_builder builder;
    std::vector<scalar_ref> arguments(region.accesses.size());
    const dtype type = compute_type(g[product].type);
    std::vector<scalar_ref> inner_arguments = {builder.argument(0, type)};
    std::vector<dtype> inner_types(inner.accesses.size(), dtype::f32);
    for (const scalar_node& node : inner.program.nodes) {
      if (node.op == scalar_op::argument && node.value > 0) inner_types[static_cast<std::size_t>(node.value) - 1] = node.type;
    }
    for (std::size_t k = 0; k < inner.accesses.size(); ++k) {
      inner_arguments.push_back(builder.argument(static_cast<int>(k) + 1, inner_types[k]));
    }
    arguments[static_cast<std::size_t>(which)] = builder.inlined(inner.program, inner_arguments);
    for (const scalar_node& node : region.program.nodes) {
      if (node.op != scalar_op::argument || static_cast<int>(node.value) == which) continue;
      const auto k = static_cast<std::size_t>(node.value);
      index_map composed;
      if (!compose_access(region.accesses[k], region.space.rank, map, own, loops.space, composed)) {
        return "a border is not a box in the product's loops";
      }
      if (composed.bounded) return "an operand has a border";
      if (composed.source >= 0) {
        const class_id other = g.operand(region_id, static_cast<std::size_t>(composed.source));
        const auto found = std::find(result.others.begin(), result.others.end(), other);
        composed.source = 2 + static_cast<int>(found - result.others.begin());
        if (found == result.others.end()) result.others.push_back(other);
      }
      const auto same = std::find(result.finish.accesses.begin(), result.finish.accesses.end(), composed);
      arguments[k] = builder.argument(1 + static_cast<int>(same - result.finish.accesses.begin()), node.type);
      if (same == result.finish.accesses.end()) result.finish.accesses.push_back(composed);
    }
    if (result.others.size() > widest) return "too many operands";
    if (!compose_access(region.output, region.space.rank, map, own, loops.space, result.output)) return "internal";
    result.finish.program = builder.finish(builder.inlined(region.program, arguments));
    return nullptr;
  }

  static std::vector<class_id> extra_operands(const engine& g, enode_id product) {
    const std::span<const class_id> all = g.operands(product).subspan(2);
    std::vector<class_id> result;
    for (class_id id : all) result.push_back(g.find(id));
    return result;
  }

  static const char* fuse_matmul(lowering& pass, enode_id region, std::size_t operand, enode_id product) {
    const engine& g = pass.graph();
    const auto& inner = g.get<matmul_attribute>(product);
    nest loops = to_nest(inner);
    parts made;
    const std::vector<class_id> others = extra_operands(g, product);
    if (const char* problem = combine(g, region, operand, loops, true, inner.finish, others, made)) return problem;
    const class_id owner = g.find(g.node(region).owner);
    if (std::find(made.others.begin(), made.others.end(), owner) != made.others.end()) return "it would read itself";
    loops.accesses[0] = made.output;
    loops.accesses.resize(3);
    for (const index_map& read : made.finish.accesses) loops.accesses.push_back(read);
    pass.emit_matmul(owner, loops, g.operand(product, 0), g.operand(product, 1), made.finish.program, made.others,
                     g.node(region).reasons | g.node(product).reasons | bit(structural::matmul_epilogue));
    return nullptr;
  }

  static const char* fuse_convolve(lowering& pass, enode_id region, std::size_t operand, enode_id product) {
    engine& g = pass.graph();
    const auto& inner = g.get<convolve_attribute>(product);
    const shape& extents = g.extents(g.find(g.node(product).owner));
    nest loops{.space = extents};
    const index_map dense = dense_access(extents);
    loops.accesses = {dense, dense, dense};  // a and b are not read through these loops
    loops.accesses.insert(loops.accesses.end(), inner.finish.accesses.begin(), inner.finish.accesses.end());
    parts made;
    const std::vector<class_id> others = extra_operands(g, product);
    if (const char* problem = combine(g, region, operand, loops, false, inner.finish, others, made)) return problem;
    if (made.output != dense) return "the result is permuted";
    const class_id owner = g.find(g.node(region).owner);
    if (std::find(made.others.begin(), made.others.end(), owner) != made.others.end()) return "it would read itself";
    std::vector<class_id> operands = {g.operand(product, 0), g.operand(product, 1)};
    operands.insert(operands.end(), made.others.begin(), made.others.end());
    const convolve_attribute value{inner.convolution, made.finish};
    const rule_mask reasons = g.node(region).reasons | g.node(product).reasons | bit(structural::convolve_epilogue);
    g.add_to(owner, op::convolve, value, operands, reasons);
    return nullptr;
  }
};

// 0 < x exactly where 0 < relu(x): a backward pass that masks by the sign of x can read the stored activation instead, and
// x itself need not be kept.
struct relu_mask {
  static constexpr structural rule = structural::relu_mask;
  static constexpr op root = op::map;
  static constexpr exactness exact = exactness::exact;

  static void apply(lowering& pass, enode_id id) {
    engine& g = pass.graph();
    for (std::size_t i = 0; i < g.node(id).operand_count; ++i) {
      if (!only_masks(g, id, static_cast<double>(i))) continue;
      const class_id activation = relu_of(g, g.operand(id, i)), owner = g.find(g.node(id).owner);
      if (activation == none || activation == owner) continue;
      const attribute program = g.attribute_of(id);
      std::vector<class_id> operands(g.operands(id).begin(), g.operands(id).end());
      operands[i] = activation;
      g.add_to(owner, op::map, program, operands, bit(rule));
      g.retire(id);  // x would seem to have one more consumer
      pass.note_applied(rule);
      return;
    }
  }

 private:
  static bool is_zero(const engine& g, enode_id id, const scalar_node& node) {
    if (node.op == scalar_op::constant) return node.value == 0;
    return node.op == scalar_op::argument && g[g.operand(id, static_cast<std::size_t>(node.value))].constant == 0.0;
  }

  // Argument `index` appears, and only on the right of 0 < .
  static bool only_masks(const engine& g, enode_id id, double index) {
    const std::vector<scalar_node>& nodes = g.get<map_attribute>(id).program.nodes;
    bool any = false;
    for (const scalar_node& node : nodes) {
      for (int k = 0; k < info(node.op).arity; ++k) {
        const scalar_node& operand = nodes[node.operands[k]];
        if (operand.op != scalar_op::argument || operand.value != index) continue;
        if (node.op != scalar_op::less || k != 1 || !is_zero(g, id, nodes[node.operands[0]])) return false;
        any = true;
      }
    }
    return any;
  }

  // maximum(x, 0), or 0 < x ? x : 0, of its first operand.
  static bool is_relu(const engine& g, enode_id id) {
    if (g.node(id).kind != op::map || g.node(id).dead) return false;
    const std::vector<scalar_node>& nodes = g.get<map_attribute>(id).program.nodes;
    const auto is_x = [](const scalar_node& node) { return node.op == scalar_op::argument && node.value == 0; };
    const scalar_node& last = nodes.back();
    if (last.op == scalar_op::maximum) return is_x(nodes[last.operands[0]]) && is_zero(g, id, nodes[last.operands[1]]);
    if (last.op != scalar_op::select) return false;
    const scalar_node& condition = nodes[last.operands[0]];
    return condition.op == scalar_op::less && is_zero(g, id, nodes[condition.operands[0]]) &&
           is_x(nodes[condition.operands[1]]) && is_x(nodes[last.operands[1]]) && is_zero(g, id, nodes[last.operands[2]]);
  }

  static class_id relu_of(const engine& g, class_id x) {
    for (enode_id parent : g[x].parents) {
      if (is_relu(g, parent) && g.operand(parent, 0) == x) return g.find(g.node(parent).owner);
    }
    return none;
  }
};

template <class... Rules>
struct rule_list {
  static void apply(lowering& pass, enode_id id) { (try_rule<Rules>(pass, id), ...); }

 private:
  template <class Rule>
  static void try_rule(lowering& pass, enode_id id) {
    if (pass.graph().node(id).kind != Rule::root) return;
    if constexpr (requires { Rule::rule; }) {
      if (!pass.enabled(Rule::rule)) return;
    }
    Rule::apply(pass, id);
  }
};

using to_implementation = rule_list<map_to_region, view_to_region, reduce_to_region, pad_to_region, concat_to_region,
                                    iota_to_region, contract_to_matmul, contract_to_region, convolution_to_convolve>;
using between_implementations = rule_list<product_epilogue>;

inline bool is_copy(const region_attribute& region) {
  return region.row_axes == 0 && region.program.is_identity() && region.accesses.size() == 1;
}

}  // namespace detail

// ---- traversal -------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE void lowering::visit(class_id root) {
  // Depth first without recursion: models are deeper than stacks.
  struct frame {
    class_id id;
    std::size_t node, operand;
  };
  std::vector<frame> stack;
  const auto open = [&](class_id id) {
    if (state_[id] != 0) return;
    state_[id] = 1;
    stack.push_back({id, 0, 0});
  };
  open(g_.find(root));
  while (!stack.empty()) {
    frame& top = stack.back();
    const std::vector<enode_id>& nodes = g_[top.id].nodes;
    if (top.node == nodes.size()) {
      state_[top.id] = 2;
      order_.push_back(top.id);
      stack.pop_back();
    } else if (top.operand == g_.node(nodes[top.node]).operand_count) {
      ++top.node;
      top.operand = 0;
    } else {
      open(g_.operand(nodes[top.node], top.operand++));
    }
  }
}

MEGANEURA_INLINE void lowering::count_uses(std::span<const class_id> roots) {
  uses_.assign(g_.class_slots(), 0);
  hard_.assign(g_.class_slots(), false);
  for (class_id root : roots) {
    ++uses_[g_.find(root)];
    hard_[g_.find(root)] = true;
  }
  for (std::size_t i = order_.size(); i-- > 0;) {  // users before operands
    const class_id id = order_[i];
    std::vector<class_id> seen;
    for (enode_id parent : g_[id].parents) {
      const class_id user = g_.find(g_.node(parent).owner);
      if (state_[user] != 2 || user == id || std::find(seen.begin(), seen.end(), user) != seen.end()) continue;
      seen.push_back(user);
      const op kind = g_.node(parent).kind;
      if (kind == op::view) {
        uses_[id] += uses_[user];
        hard_[id] = hard_[id] || hard_[user];
      } else {
        ++uses_[id];
        if (kind != op::map && kind != op::reduce && kind != op::pad && kind != op::concat) hard_[id] = true;
      }
    }
  }
}

MEGANEURA_INLINE void lowering::rewrite_masks() {
  if (!enabled(structural::relu_mask)) return;
  const auto count = static_cast<enode_id>(g_.node_count());
  for (enode_id id = 0; id < count; ++id) {
    if (g_.node(id).kind == op::map && !g_.node(id).dead) detail::relu_mask::apply(*this, id);
  }
  g_.rebuild();
}

MEGANEURA_INLINE void lowering::run(std::span<const class_id> roots) {
  state_.assign(g_.class_slots(), 0);
  forms_.assign(g_.class_slots(), {});
  kernel_.assign(g_.class_slots(), false);
  for (class_id root : roots) visit(root);
  count_uses(roots);
  for (class_id id : order_) lower(id);
  g_.rebuild();
}

MEGANEURA_INLINE void lowering::lower(class_id id) {
  id = g_.find(id);
  if (g_[id].constant && enabled(structural::constant_to_region)) {
    region_draft constant = draft();
    detail::flat_loops(constant, g_.extents(id));
    constant.add_constant(*g_[id].constant, g_[id].type);
    emit_regions(id, constant, detail::identity_program(g_[id].type), structural::constant_to_region);
    return;
  }
  const std::vector<enode_id> primitives = g_[id].nodes;
  for (enode_id node : primitives) {
    if (g_.node(node).dead) continue;
    reasons_ = g_.node(node).reasons;
    detail::to_implementation::apply(*this, node);
  }
  reasons_ = 0;
  const std::vector<enode_id> made = g_[g_.find(id)].nodes;
  note_kernel(id, made);
  for (enode_id node : made) {
    const std::size_t before = g_[g_.find(id)].nodes.size();
    detail::between_implementations::apply(*this, node);
    // An epilogue of another form repeats the product, so the value may still be better off computed from its operands.
    if (node == forms(id).conservative) note_kernel(id, std::span(g_[g_.find(id)].nodes).subspan(before));
  }
}

// ---- choosing what to inline -----------------------------------------------------------------------------------------

MEGANEURA_INLINE lowering::class_forms& lowering::forms(class_id id) { return forms_[g_.find(id)]; }
MEGANEURA_INLINE const lowering::class_forms& lowering::forms(class_id id) const { return forms_[g_.find(id)]; }

MEGANEURA_INLINE region_view lowering::form_of(enode_id id) const {
  return {g_.get<region_attribute>(id), g_.operands(id)};
}

MEGANEURA_INLINE enode_id lowering::copy_form(class_id id) const {
  const enode_id form = forms(id).conservative;
  return form != none && detail::is_copy(g_.get<region_attribute>(form)) ? form : none;
}

MEGANEURA_INLINE void lowering::note_kernel(class_id id, std::span<const enode_id> nodes) {
  for (enode_id node : nodes) {
    const op kind = g_.node(node).kind;
    kernel_[g_.find(id)] = kernel_[g_.find(id)] || kind == op::matmul || kind == op::convolve || kind == op::gather ||
                           kind == op::scatter_add || kind == op::window_reduce || kind == op::window_scatter ||
                           kind == op::random;
  }
}

MEGANEURA_INLINE bool lowering::worth_inlining(class_id id, enode_id form, const region_draft& base) const {
  const auto& region = g_.get<region_attribute>(form);
  if (region.space.elements() >= base.loops.space.elements()) return true;
  // Repeated for each element of a larger space: fine for cheap programs only.
  return region.row_axes == 0 && program_cost(region.program, options_.model) <= 4 && g_.extents(id).elements() > 0;
}

MEGANEURA_INLINE lowering::producer lowering::consider(class_id id, const region_draft& base) const {
  producer result{.id = id};
  if (id == none) return result;
  const class_forms& f = forms(id);
  if (f.conservative == none) return result;
  const auto& region = g_.get<region_attribute>(f.conservative);
  const bool reads_memory = g_.node(f.conservative).operand_count > 0;
  if (!reads_memory && region.row_axes == 0) {  // a function of the index alone, e.g. an iota
    result.conservative = result.greedy = result.other = choice::conservative;
    return result;
  }
  if (detail::is_copy(region)) {  // reading through a view is free; what the view reads may be fused as well
    result.conservative = result.other = choice::conservative;
    const bool more = f.greedy != none && f.greedy != f.conservative && worth_inlining(id, f.greedy, base);
    result.greedy = more ? choice::greedy : choice::conservative;
    return result;
  }
  const bool cheap = worth_inlining(id, f.conservative, base);
  const bool alone = uses_[id] <= 1;
  result.other = choice::conservative;
  if (alone && cheap && enabled(structural::fuse_pointwise)) {
    result.conservative = choice::conservative;
    result.greedy = choice::greedy;
    if (has_kernel(id)) result.other = choice::leaf;
  } else if (!enabled(structural::recompute)) {
    result.other = choice::leaf;
  } else if (!has_kernel(id) && !hard_[id] && f.greedy != none && worth_inlining(id, f.greedy, base)) {
    result.greedy = choice::greedy;
  }
  return result;
}

MEGANEURA_INLINE void lowering::add_operand(region_draft& draft, class_id operand, const index_map& how) {
  operand = g_.find(operand);
  if (g_[operand].constant) {
    draft.add_constant(*g_[operand].constant, g_[operand].type);
  } else {
    draft.add_read(operand, g_[operand].type, how);
  }
}

MEGANEURA_INLINE void lowering::inline_producers(class_id owner, region_draft& draft, std::span<const producer> producers,
                                                 std::span<choice> choices, rule_mask& reasons) {
  for (std::size_t i = 0; i < producers.size(); ++i) {
    if (choices[i] == choice::leaf) continue;
    const class_id id = producers[i].id;
    const class_forms& f = forms(id);
    const enode_id form = choices[i] == choice::greedy && f.greedy != none ? f.greedy : f.conservative;
    const region_view view = form_of(form);
    const bool copy = detail::is_copy(view.loops);
    const structural rule = copy                      ? structural::fuse_view
                            : uses_[id] > 1           ? structural::recompute
                            : view.loops.row_axes > 0 ? structural::fuse_rows
                                                      : structural::fuse_pointwise;
    const char* problem = enabled(rule) ? nullptr : "the rule is disabled";
    if (view.loops.row_axes > 0 && !enabled(structural::fuse_rows)) problem = "the rule is disabled";
    for (class_id operand : view.operands) {
      if (g_.find(operand) == owner || g_.find(operand) == id) problem = "it would read itself";
    }
    if (!problem) problem = draft.inline_form(i, view);
    if (problem) {
      note_missed({owner, id, rule, problem});
      choices[i] = choice::leaf;
      continue;
    }
    note_applied(rule);
    reasons |= bit(rule) | (view.loops.row_axes > 0 ? bit(structural::fuse_rows) : 0) | g_.node(form).reasons;
  }
}

MEGANEURA_INLINE enode_id lowering::emit_choice(class_id owner, const region_draft& base, const scalar_program& root,
                                                structural rule, std::span<const producer> producers,
                                                std::vector<choice> choices) {
  for (;;) {
    region_draft draft = base;
    rule_mask reasons = bit(rule) | reasons_;
    note_applied(rule);
    inline_producers(owner, draft, producers, choices, reasons);
    region_form form;
    const bool fused = std::any_of(choices.begin(), choices.end(), [](choice c) { return c != choice::leaf; });
    const char* problem = draft.finish(root, form, fused);
    if (!problem) return emit_region(owner, form, reasons);
    // Too large: give up the last fusion that is more than a view, and try again.
    std::size_t last = choices.size();
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (choices[i] != choice::leaf && (last == choices.size() || copy_form(producers[i].id) == none)) last = i;
    }
    if (last == choices.size()) {
      note_missed({owner, none, rule, problem});
      return none;
    }
    note_missed({owner, producers[last].id, structural::fuse_pointwise, problem});
    choices[last] = choice::leaf;
  }
}

MEGANEURA_INLINE void lowering::emit_regions(class_id owner, const region_draft& base, const scalar_program& root,
                                             structural rule) {
  std::vector<producer> producers;
  std::vector<choice> conservative, greedy;
  for (std::size_t i = 0; i < base.arguments(); ++i) {
    producers.push_back(consider(base.source(i), base));
    conservative.push_back(producers.back().conservative);
    greedy.push_back(producers.back().greedy);
  }
  keep(owner, emit_choice(owner, base, root, rule, producers, conservative), true);
  if (greedy != conservative) keep(owner, emit_choice(owner, base, root, rule, producers, greedy), false);
  std::size_t made = 2;
  for (std::size_t i = 0; i < producers.size() && made < options_.forms; ++i) {
    if (producers[i].other == producers[i].conservative) continue;
    std::vector<choice> toggled = conservative;
    toggled[i] = producers[i].other;
    emit_choice(owner, base, root, rule, producers, toggled);
    ++made;
  }
}

MEGANEURA_INLINE void lowering::keep(class_id owner, enode_id node, bool conservative) {
  if (node == none || g_.node(node).kind != op::region) return;
  owner = g_.find(owner);
  const double cost = node_cost(g_, node, options_.model);
  class_forms& f = forms(owner);
  if (conservative && (f.conservative == none || cost < f.conservative_cost)) {
    f.conservative = node;
    f.conservative_cost = cost;
  }
  if (f.greedy == none || f.greedy == f.conservative || !conservative) {
    f.greedy = node;
    f.greedy_cost = cost;
  }
}

// ---- adding nodes ----------------------------------------------------------------------------------------------------

MEGANEURA_INLINE enode_id lowering::emit_region(class_id owner, const region_form& form, rule_mask reasons) {
  owner = g_.find(owner);
  if (detail::is_copy(form.loops) && !form.operands.empty()) {
    const class_id source = g_.find(form.operands[0]);
    const index_map& read = form.loops.accesses[0];
    const bool same = !read.bounded && read.offset == 0 && g_[source].extents == g_[owner].extents &&
                      g_[source].type == g_[owner].type &&
                      std::equal(read.strides, read.strides + max_rank, form.loops.output.strides);
    if (same && form.loops.space.elements() == g_.extents(source).elements()) {
      g_.merge(owner, source);  // a copy of a value is the value
      return none;
    }
  }
  for (class_id operand : form.operands) {
    if (g_.find(operand) == owner) return none;
  }
  return g_.add_to(owner, op::region, form.loops, form.operands, reasons);
}

MEGANEURA_INLINE void lowering::emit_matmul(class_id owner, nest loops, class_id a, class_id b,
                                            const scalar_program& finish, std::span<const class_id> others,
                                            rule_mask reasons) {
  // Threads of a product run along n: the group with the result's unit stride takes that place.
  bool unit_in_m = false;
  for (int k = 0; k < loops.space.rank; ++k) unit_in_m |= loops.group[k] == 1 && loops.accesses[0].strides[k] == 1;
  if (unit_in_m) {
    for (int k = 0; k < loops.space.rank; ++k) {
      if (loops.group[k] == 1 || loops.group[k] == 2) loops.group[k] = static_cast<std::uint8_t>(3 - loops.group[k]);
    }
    std::swap(loops.accesses[1], loops.accesses[2]);
    std::swap(a, b);
  }
  normalise(loops);
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
  std::vector<class_id> operands = {a, b};
  operands.insert(operands.end(), others.begin(), others.end());
  for (class_id operand : operands) {
    if (g_.find(operand) == g_.find(owner)) return;
  }
  g_.add_to(owner, op::matmul, value, operands, reasons | reasons_);
  note_applied(structural::contract_to_matmul);
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
