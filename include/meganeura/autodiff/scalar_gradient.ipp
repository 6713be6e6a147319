// SPDX-License-Identifier: MIT
// One derivative rule for each scalar operation.
#pragma once
#include <meganeura/autodiff/scalar_gradient.hpp>
#include <meganeura/core/error.hpp>

namespace meganeura::inline MEGANEURA_ABI::detail {

MEGANEURA_INLINE std::vector<bool> smooth_nodes(const scalar_program& program, std::span<const bool> arguments) {
  std::vector<bool> smooth;
  for (const scalar_node& node : program.nodes) {
    bool any = false;
    switch (node.op) {
      case scalar_op::argument:
        any = arguments[static_cast<std::size_t>(node.value)];
        break;
      case scalar_op::sign:
      case scalar_op::floor:
      case scalar_op::ceil:
      case scalar_op::round:
        break;  // constant between their steps
      default:
        for (int i = 0; i < info(node.op).arity; ++i) any = any || smooth[node.operands[i]];
    }
    smooth.push_back(any && node.type == dtype::f32);  // integers and conditions end every path
  }
  return smooth;
}

/// The adjoints of one node's operands, from its own.
class scalar_rule {
 public:
  scalar_rule(scalar_builder& builder, const scalar_node& node, std::span<const scalar_ref> forward, scalar_ref result)
      : builder_(builder), node_(node), y_(result) {
    for (int i = 0; i < info(node.op).arity; ++i) values_[i] = forward[node.operands[i]];
  }

  /// The contribution to operand `side`, for `g` arriving at the result.
  [[nodiscard]] scalar_ref operator()(int side, scalar_ref g) {
    const scalar_ref a = values_[0];
    switch (node_.op) {
      case scalar_op::negate:
        return unary(scalar_op::negate, g);
      case scalar_op::abs:
        return multiply(g, unary(scalar_op::sign, a));
      case scalar_op::reciprocal:
        return unary(scalar_op::negate, multiply(g, multiply(y_, y_)));
      case scalar_op::sqrt:
        return divide(multiply(g, number(0.5)), y_);
      case scalar_op::rsqrt:
        return multiply(multiply(g, number(-0.5)), multiply(y_, multiply(y_, y_)));
      case scalar_op::exp:
        return multiply(g, y_);
      case scalar_op::log:
        return divide(g, a);
      case scalar_op::sin:
        return multiply(g, unary(scalar_op::cos, a));
      case scalar_op::cos:
        return unary(scalar_op::negate, multiply(g, unary(scalar_op::sin, a)));
      case scalar_op::tanh:
        return multiply(g, subtract(number(1), multiply(y_, y_)));
      case scalar_op::add:
        return g;
      case scalar_op::subtract:
        return side == 0 ? g : unary(scalar_op::negate, g);
      case scalar_op::multiply:
        return multiply(g, values_[1 - side]);
      case scalar_op::divide:
        return quotient(side, g);
      case scalar_op::power:
        return power(side, g);
      case scalar_op::minimum:
      case scalar_op::maximum:
        return extremum(side, g);
      case scalar_op::select:
        return side == 1 ? builder_.select(a, g, number(0)) : builder_.select(a, number(0), g);
      default:
        fail(error_category::unsupported, "scalar {} has no derivative", info(node_.op).name);
    }
  }

 private:
  scalar_ref number(double value) { return builder_.constant(value); }
  scalar_ref unary(scalar_op kind, scalar_ref a) { return builder_.unary(kind, a); }
  scalar_ref multiply(scalar_ref a, scalar_ref b) { return builder_.binary(scalar_op::multiply, a, b); }
  scalar_ref divide(scalar_ref a, scalar_ref b) { return builder_.binary(scalar_op::divide, a, b); }
  scalar_ref subtract(scalar_ref a, scalar_ref b) { return builder_.binary(scalar_op::subtract, a, b); }

  scalar_ref quotient(int side, scalar_ref g) {
    const scalar_ref scaled = divide(g, values_[1]);
    return side == 0 ? scaled : unary(scalar_op::negate, multiply(scaled, y_));  // -g a / b^2 = -(g / b) (a / b)
  }

  // The limits PyTorch takes: b = 0 has derivative 0 by a, and a = 0 has derivative 0 by b.
  scalar_ref power(int side, scalar_ref g) {
    const scalar_ref a = values_[0], b = values_[1], zero = number(0);
    if (side == 1) {
      const scalar_ref slope = multiply(g, multiply(y_, unary(scalar_op::log, a)));
      return builder_.select(builder_.binary(scalar_op::equal, a, zero), zero, slope);
    }
    const scalar_ref lowered = builder_.binary(scalar_op::power, a, subtract(b, number(1)));
    const scalar_ref slope = multiply(g, multiply(b, lowered));
    if (builder_.node(b).op == scalar_op::constant) return builder_.node(b).value == 0 ? zero : slope;
    return builder_.select(builder_.binary(scalar_op::equal, b, zero), zero, slope);
  }

  // Everything but what surely loses gets its part: where an operand is NaN, so is the result, and both get all of g.
  scalar_ref extremum(int side, scalar_ref g) {
    const scalar_ref own = values_[side], other = values_[1 - side];
    const bool is_maximum = node_.op == scalar_op::maximum;
    if (builder_.node(other).op ==
        scalar_op::constant) {  // relu, clamp: from the result alone, 0 at the bound as torch.relu
      const scalar_ref stops = builder_.binary(scalar_op::less_equal, is_maximum ? y_ : other, is_maximum ? other : y_);
      return builder_.select(stops, number(0), g);
    }
    const scalar_ref loses = builder_.binary(scalar_op::less, is_maximum ? own : other, is_maximum ? other : own);
    const scalar_ref tie = builder_.binary(scalar_op::equal, values_[0], values_[1]);
    return builder_.select(tie, multiply(g, number(0.5)), builder_.select(loses, number(0), g));
  }

  scalar_builder& builder_;
  scalar_node node_;
  scalar_ref values_[3]{};
  scalar_ref y_;
};

MEGANEURA_INLINE scalar_ref scalar_gradient(scalar_builder& builder, const scalar_program& program,
                                            std::span<const scalar_ref> forward, scalar_ref seed,
                                            std::span<const bool> arguments) {
  const std::vector<bool> smooth = smooth_nodes(program, arguments);
  std::vector<scalar_ref> adjoints(program.nodes.size(), no_id);
  adjoints.back() = seed;
  scalar_ref total = no_id;
  const auto accumulate = [&](scalar_ref& sum, scalar_ref term) {
    sum = sum == no_id ? term : builder.binary(scalar_op::add, sum, term);
  };
  for (std::size_t i = program.nodes.size(); i-- > 0;) {
    const scalar_node& node = program.nodes[i];
    if (!smooth[i] || adjoints[i] == no_id) continue;
    if (node.op == scalar_op::argument) {
      accumulate(total, adjoints[i]);
      continue;
    }
    scalar_rule rule(builder, node, forward, forward[i]);
    for (int side = 0; side < info(node.op).arity; ++side) {
      if (smooth[node.operands[side]]) accumulate(adjoints[node.operands[side]], rule(side, adjoints[i]));
    }
  }
  return total;
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
