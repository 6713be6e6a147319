// SPDX-License-Identifier: MIT
// The chain rule over a program; the derivative of each operation stands in graph/scalar_op.hpp.
#pragma once
#include <meganeura/autodiff/scalar_gradient.hpp>
#include <meganeura/core/error.hpp>

#include <concepts>

namespace meganeura::inline MEGANEURA_ABI::detail {

MEGANEURA_INLINE program_flags smooth_nodes(const scalar_program& program, std::span<const bool> arguments) {
  program_flags smooth;
  for (const scalar_node& node : program.nodes) {
    bool any = node.op == scalar_op::argument && arguments[static_cast<std::size_t>(node.value)];
    for (int i = 0; i < info(node.op).arity && !info(node.op).is.jumps; ++i) any = any || smooth[node.operands[i]];
    smooth.push_back(any && is_float(node.type));  // integers and conditions end every path
  }
  return smooth;
}

/// A value of the program that a derivative is written into, with C++ operators.
struct scalar_term {
  scalar_builder* builder = nullptr;
  scalar_ref ref = no_id;

  [[nodiscard]] scalar_term number(double value) const { return {builder, builder->constant(value)}; }
  /// What it is, if that is known.
  [[nodiscard]] const double* constant() const {
    const scalar_node& node = builder->node(ref);
    return node.op == scalar_op::constant ? &node.value : nullptr;
  }

  template <std::same_as<scalar_term>... Terms>
  [[nodiscard]] friend scalar_term apply(scalar_op kind, const scalar_term& first, const Terms&... others) {
    const scalar_ref operands[] = {first.ref, others.ref...};
    return {first.builder, first.builder->apply(kind, operands)};
  }
  [[nodiscard]] friend scalar_term operator-(const scalar_term& a) { return apply(scalar_op::negate, a); }
  [[nodiscard]] friend scalar_term operator-(const scalar_term& a, const scalar_term& b) {
    return apply(scalar_op::subtract, a, b);
  }
  [[nodiscard]] friend scalar_term operator*(const scalar_term& a, const scalar_term& b) {
    return apply(scalar_op::multiply, a, b);
  }
  [[nodiscard]] friend scalar_term operator/(const scalar_term& a, const scalar_term& b) {
    return apply(scalar_op::divide, a, b);
  }
  [[nodiscard]] friend scalar_term operator-(const scalar_term& a, double b) { return a - a.number(b); }
  [[nodiscard]] friend scalar_term operator*(const scalar_term& a, double b) { return a * a.number(b); }
};

MEGANEURA_INLINE scalar_ref scalar_gradient(scalar_builder& builder, const scalar_program& program,
                                            std::span<const scalar_ref> forward, scalar_ref seed,
                                            std::span<const bool> arguments) {
  const program_flags smooth = smooth_nodes(program, arguments);
  small_vector<scalar_ref, 64> adjoints(program.nodes.size(), no_id);
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
    scalar_term operands[3];
    const int arity = info(node.op).arity;
    for (int k = 0; k < arity; ++k) operands[k] = {&builder, forward[node.operands[k]]};
    for (int side = 0; side < arity; ++side) {
      if (!smooth[node.operands[side]]) continue;
      const scalar_term part =
          derivative<scalar_term>(node.op, side, {&builder, adjoints[i]}, operands, {&builder, forward[i]});
      if (!part.builder) fail(error_category::unsupported, "scalar {} has no derivative", info(node.op).name);
      accumulate(adjoints[node.operands[side]], part.ref);
    }
  }
  return total;
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
