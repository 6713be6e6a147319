// SPDX-License-Identifier: MIT
// Softmax as it is written elsewhere, told as the rules of attention read it.
#pragma once
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/kernel_family.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// Writes a program of rows once more, with quotients by a sum instead of products with its inverse or exponentials of
// its logarithm, and distances of scaled scores from the largest instead of scaled distances. What it gives is finite
// and no zero where what the program gives is.
class softmax_speller {
 public:
  /// Nothing where it is written so already.
  std::optional<scalar_program> spell(const scalar_program& program) {
    small_vector<scalar_ref, 64> made;
    for (const scalar_node& node : program.nodes) {
      std::array<scalar_ref, 3> operands{};
      const auto arity = static_cast<std::size_t>(info(node.op).arity);
      for (std::size_t k = 0; k < arity; ++k) operands[k] = made[node.operands[k]];
      made.push_back(written(node, std::span(operands).first(arity)));
    }
    if (!differs_) return {};
    return builder_.finish(made.back());
  }

 private:
  scalar_ref written(const scalar_node& node, std::span<const scalar_ref> operands) {
    std::optional<scalar_ref> other;
    switch (node.op) {
      case scalar_op::argument:
        return builder_.argument(static_cast<int>(node.value), node.type);
      case scalar_op::constant:
        return builder_.constant(node.value, node.type);
      case scalar_op::exp:
        other = quotient(operands[0]);
        break;
      case scalar_op::divide:
        other = distance(node.op, operands[0], operands[1]);
        break;
      case scalar_op::multiply:
        for (std::size_t k = 0; k < 2 && !other; ++k) {
          if (is_inverse(operands[k])) other = over(operands[1 - k], operands[k]);
          if (!other) other = distance(node.op, operands[1 - k], operands[k]);
        }
        break;
      default:
        break;
    }
    differs_ = differs_ || other;
    return other ? *other : builder_.apply(node.op, operands, node.type);
  }

  [[nodiscard]] bool is(scalar_ref ref, scalar_op kind) const { return builder_.node(ref).op == kind; }
  [[nodiscard]] scalar_ref operand(scalar_ref ref, int k) const { return builder_.node(ref).operands[k]; }
  [[nodiscard]] std::optional<double> number(scalar_ref ref) const {
    return is(ref, scalar_op::constant) ? std::optional(builder_.node(ref).value) : std::nullopt;
  }
  // x - the largest x of the row.
  [[nodiscard]] bool is_distance(scalar_ref ref) const {
    return is(ref, scalar_op::subtract) && is(operand(ref, 1), scalar_op::row_max) &&
           operand(operand(ref, 1), 0) == operand(ref, 0);
  }
  scalar_ref distance(scalar_ref score) {
    return builder_.binary(scalar_op::subtract, score, builder_.unary(scalar_op::row_max, score));
  }

  // 1 over sums of the row.
  [[nodiscard]] bool is_inverse(scalar_ref ref) const {
    if (is(ref, scalar_op::reciprocal)) return is(operand(ref, 0), scalar_op::row_sum);
    return is(ref, scalar_op::divide) && is(operand(ref, 1), scalar_op::row_sum) &&
           (number(operand(ref, 0)) == 1 || is_inverse(operand(ref, 0)));
  }
  scalar_ref over(scalar_ref value, scalar_ref inverse) {
    if (is(inverse, scalar_op::reciprocal)) return builder_.binary(scalar_op::divide, value, operand(inverse, 0));
    const scalar_ref above = operand(inverse, 0), sum = operand(inverse, 1);
    return builder_.binary(scalar_op::divide, number(above) == 1 ? value : over(value, above), sum);
  }

  // exp(d - log(sum of exp(d))), also as exp(x - (largest + that logarithm)), as exp(d) / sum.
  std::optional<scalar_ref> quotient(scalar_ref of) {
    if (!is(of, scalar_op::subtract)) return {};
    scalar_ref from = operand(of, 0), less = operand(of, 1);
    if (is(less, scalar_op::add)) {
      const int k = is(operand(less, 0), scalar_op::log) ? 1 : 0;
      from = builder_.binary(scalar_op::subtract, from, operand(less, k));
      less = operand(less, 1 - k);
    }
    if (!is(less, scalar_op::log) || !is_distance(from)) return {};
    const scalar_ref e = builder_.unary(scalar_op::exp, from), sum = operand(less, 0);
    if (!is(sum, scalar_op::row_sum) || operand(sum, 0) != e) return {};
    return builder_.binary(scalar_op::divide, e, sum);
  }

  // (x - the largest) by a number as the distance of scaled values: by no more than 1, or these could overflow.
  std::optional<scalar_ref> distance(scalar_op kind, scalar_ref of, scalar_ref by) {
    const std::optional<double> factor = number(by);
    if (!factor || !is_distance(of)) return {};
    if (kind == scalar_op::multiply ? !(*factor > 0 && *factor <= 1) : !(*factor >= 1)) return {};
    return distance(builder_.binary(kind, operand(of, 0), by));
  }

  scalar_builder builder_;
  bool differs_ = false;
};

MEGANEURA_INLINE void softmax_spelling::apply(implementation_pass& pass, enode_id id) {
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const auto& region = g.get<region_attribute>(id);
  const auto has = [&](scalar_op kind) {
    return std::ranges::find(region.program.nodes, kind, &scalar_node::op) != region.program.nodes.end();
  };
  if (region.row_axes == 0 || region.per_row || !region.further.empty() || g[owner].decides || !has(scalar_op::exp) ||
      !has(scalar_op::row_sum))
    return;
  const std::optional<scalar_program> spelled = softmax_speller().spell(region.program);
  if (!spelled) return;
  region_attribute made = region;
  made.program = *spelled;
  const class_list operands(g.operands(id).begin(), g.operands(id).end());
  const rule_mask reasons = bit(rule) | g.node(id).reasons;
  g.add_to(owner, op::region, made, operands, reasons, skips_rounding(reasons));
  pass.note_applied(rule);
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
