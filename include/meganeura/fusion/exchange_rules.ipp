// SPDX-License-Identifier: MIT
// The gradient of a softmax at the end of the product that it is of: a row's sum of two products in the other order.
#pragma once
#include <meganeura/fusion/access_checks.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/matmul_rules.ipp>

#include <optional>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// A region of rows with one sum: of an argument times another.
struct row_of_products {
  scalar_ref sum{0};
  int factors[2]{};  // arguments

  [[nodiscard]] static std::optional<row_of_products> find(const scalar_program& program) {
    std::optional<row_of_products> found;
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const scalar_node& node = program.nodes[i];
      if (!is_row_reduction(node.op)) continue;
      if (found || node.op != scalar_op::row_sum) return {};
      const scalar_node& product = program.nodes[node.operands[0]];
      if (product.op != scalar_op::multiply) return {};
      found = {.sum = static_cast<scalar_ref>(i)};
      for (int side = 0; side < 2; ++side) {
        const scalar_node& factor = program.nodes[product.operands[side]];
        if (factor.op != scalar_op::argument) return {};
        found->factors[side] = static_cast<int>(factor.value);
      }
    }
    return found;
  }
};

// sum over n of w[m, n] * (sum over k of a[m, k] * b[n, k]) is sum over k of a[m, k] * (sum over n of w[m, n] *
// b[n, k]): where that product of weights is there, a row's sum is of what the first product multiplies anyway.
class exchange_draft {
 public:
  exchange_draft(implementation_pass& pass, enode_id region, const row_of_products& row, int product_argument,
                 enode_id product)
      : pass_(pass),
        g_(pass.graph()),
        region_id_(region),
        product_id_(product),
        region_(g_.get<region_attribute>(region)),
        row_(row),
        product_argument_(product_argument),
        weights_argument_(row.factors[row.factors[0] == product_argument ? 1 : 0]),
        loops_(to_nest(g_.get<matmul_attribute>(product))) {}

  // Why there is none, or null when the node was added.
  const char* add() {
    const class_id weights = source(weights_argument_);
    if (weights == no_id || weights == source(product_argument_)) return "weights are not stored";
    const node_list readers = g_[weights].parents;
    for (const enode_id other : readers) {
      if (g_.node(other).kind != op::matmul || g_.node(other).dead) continue;
      if (!is_plain_product(g_.get<matmul_attribute>(other))) continue;
      for (const int side : {0, 1}) {
        if (g_.find(g_.operand(other, static_cast<std::size_t>(side))) != weights ||
            g_.find(g_.operand(other, static_cast<std::size_t>(1 - side))) != g_.find(g_.operand(product_id_, 1)))
          continue;
        if (weighs_the_same(other, side)) return emit(g_.find(g_.node(other).owner));
      }
    }
    return "no product of the weights is there";
  }

 private:
  [[nodiscard]] class_id source(int argument) const {
    const int operand = region_.accesses[static_cast<std::size_t>(argument)].source;
    return operand < 0 ? class_id(no_id) : g_.find(g_.operand(region_id_, static_cast<std::size_t>(operand)));
  }
  [[nodiscard]] const index_map& read(int argument) const {
    return region_.accesses[static_cast<std::size_t>(argument)];
  }
  [[nodiscard]] bool solve_region(bool may_split, axis_map& map) {
    return solve_index(loops_, 0, region_.space, region_.space.rank(), read(product_argument_), may_split, map);
  }

  // Axes of a product that one of its accesses moves along, and where it is there.
  struct moving_axes {
    shape extents;
    index_map layout;
    small_vector<int, max_rank> axes;
    moving_axes(const nest& of, const index_map& access) {
      layout.offset = access.offset;
      for (int axis = 0; axis < of.space.rank(); ++axis) {
        if (access.strides[axis] == 0 || of.space[axis] == 1) continue;
        layout.strides[extents.rank()] = access.strides[axis];
        extents.push_back(of.space[axis]);
        axes.push_back(axis);
      }
    }
  };

  // Whether the other product adds up the same weights times the same right operand: its result is then read where
  // `result_` says, over this product's loops.
  [[nodiscard]] bool weighs_the_same(enode_id other, int weights_side) {
    const nest others = to_nest(g_.get<matmul_attribute>(other));
    const auto side = static_cast<std::size_t>(1 + weights_side);
    const moving_axes by_weights(others, others.accesses[side]), by_right(others, others.accesses[3 - side]);
    axis_map region, of_weights, of_right;
    index_map weights;
    // Any of the three may split axes of the loops: once more then.
    for (int rank = -1; rank != loops_.space.rank();) {
      rank = loops_.space.rank();
      loops_.accesses.resize(3);
      if (!solve_region(true, region) || !compose_access(read(weights_argument_), region_.space.rank(), region,
                                                         loops_.accesses[0], loops_.space, weights))
        return false;
      if (!is_plain(weights)) return false;
      loops_.accesses.push_back(weights);
      if (!solve_index(loops_, 3, by_weights.extents, by_weights.extents.rank(), by_weights.layout, true, of_weights) ||
          !solve_index(loops_, 2, by_right.extents, by_right.extents.rank(), by_right.layout, true, of_right))
        return false;
    }
    loops_.accesses.resize(3);
    axis_map map;
    bool known[max_rank]{};
    const auto take = [&](const moving_axes& from, const axis_map& found) {
      for (std::size_t i = 0; i < from.axes.size(); ++i) {
        const int axis = from.axes[i];
        const bool is_same =
            std::equal(found.step[i], found.step[i] + max_rank, map.step[axis]) && map.start[axis] == found.start[i];
        if (known[axis] && !is_same) return false;
        std::copy(found.step[i], found.step[i] + max_rank, map.step[axis]);
        map.start[axis] = found.start[i];
        known[axis] = true;
      }
      return true;
    };
    if (!take(by_weights, of_weights) || !take(by_right, of_right)) return false;
    for (int axis = 0; axis < others.space.rank(); ++axis) {
      if (!known[axis] && others.space[axis] != 1) return false;
    }
    // Columns of this product are the terms of the other's sums, and the elements of the region's rows.
    if (!counts_axes(loops_, 2, others.space, map, [&](int axis) { return others.group[axis] == 3; }) ||
        !counts_rows(loops_, 2, region_, region))
      return false;
    return compose_access(others.accesses[0], others.space.rank(), map, {}, loops_.space, result_) &&
           is_plain(result_) && !depends_beside(loops_, result_, {0, 1, 3});
  }

  const char* emit(class_id result) {
    axis_map map;
    if (!solve_region(false, map)) return "the product's order is not affine in the region's loops";
    product_draft draft{.loops = loops_};
    for (const class_id each : g_.operands(product_id_).first(2)) draft.operands.push_back(g_.find(each));
    const auto compose = [&](const index_map& each, index_map& over) {
      return compose_access(each, region_.space.rank(), map, loops_.accesses[0], loops_.space, over) && is_plain(over);
    };
    index_map output;
    if (!compose(region_.output, output)) return "the result's border is not a box in the product's loops";
    // The epilogue's reads, but for the product's; then the row's sum.
    scalar_builder builder;
    small_vector<scalar_ref, 16> arguments(region_.accesses.size() + 1);
    scalar_program program = region_.program;
    for (const scalar_node& node : region_.program.nodes) {
      if (node.op != scalar_op::argument) continue;
      const auto argument = static_cast<std::size_t>(node.value);
      int place = 0;
      if (static_cast<int>(argument) != product_argument_) {
        index_map over;
        if (!compose(region_.accesses[argument], over)) return "an operand would be read with a border or backwards";
        if (over.source >= 0)
          over.source = static_cast<int>(append_once(draft.operands, 2, source(static_cast<int>(argument))));
        place = static_cast<int>(append_once(draft.loops.accesses, 3, over)) - 2;
      }
      arguments[argument] = builder.argument(place, node.type);
    }
    index_map statistic;
    statistic.source = index_map::statistic_source;
    draft.loops.accesses.push_back(statistic);
    const auto number = static_cast<int>(draft.loops.accesses.size()) - 3;
    result_.source = static_cast<int>(append_once(draft.operands, 2, result));
    draft.loops.accesses.push_back(result_);
    draft.loops.accesses[0] = output;
    draft.start_accesses = 1;
    if (draft.operands.size() > pass_.limits().buffers) return "too many operands";
    const class_id owner = g_.find(g_.node(region_id_).owner);
    if (std::ranges::find(draft.operands, owner) != draft.operands.end()) return "it would read itself";
    arguments.back() = builder.argument(number, dtype::f32);
    program.nodes[row_.sum] = {
        .op = scalar_op::argument, .type = dtype::f32, .value = static_cast<double>(region_.accesses.size())};
    draft.finish = builder.finish(builder.inlined(program, arguments));
    scalar_builder summand;
    const scalar_ref left = summand.argument(0, dtype::f32), right = summand.argument(1, dtype::f32);
    draft.start.statistic = summand.finish(summand.binary(scalar_op::multiply, left, right));
    draft.reasons = bit(structural::exchange_sums) | g_.node(product_id_).reasons | g_.node(region_id_).reasons;
    if (const char* problem = emit_matmul(pass_, owner, std::move(draft))) return problem;
    pass_.introduce(result, owner);
    return nullptr;
  }

  implementation_pass& pass_;
  engine& g_;
  enode_id region_id_, product_id_;
  const region_attribute region_;
  const row_of_products row_;
  int product_argument_, weights_argument_;
  nest loops_;
  index_map result_;
};

MEGANEURA_INLINE void exchange_sums::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const auto& region = g.get<region_attribute>(id);
  const class_id owner = g.find(g.node(id).owner);
  if (region.row_axes == 0 || region.per_row || !region.further.empty() || g[owner].type != dtype::f32 ||
      g[owner].decides || pass.decides_by_sums(id))
    return;
  const std::optional<row_of_products> row = row_of_products::find(region.program);
  if (!row || row->factors[0] == row->factors[1]) return;
  for (const int argument : row->factors) {
    const int operand = region.accesses[static_cast<std::size_t>(argument)].source;
    if (operand < 0) continue;
    const class_id product = g.find(g.operand(id, static_cast<std::size_t>(operand)));
    const auto reads = std::ranges::count(region.accesses, operand, &index_map::source);
    if (reads != 1 || g[product].type != dtype::f32) continue;
    const node_list nodes = g[product].nodes;
    for (const enode_id node : nodes) {
      if (g.node(node).kind != op::matmul || g.node(node).dead) continue;
      const auto& attribute = g.get<matmul_attribute>(node);
      if (!is_plain_product(attribute) || !attribute.schedule.is_scaled() || !pass.serves_only(product, id)) continue;
      if (const char* problem = exchange_draft(pass, id, *row, argument, node).add()) {
        pass.note_missed({owner, product, rule, problem});
        continue;
      }
      pass.note_applied(rule);
      return;
    }
  }
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
