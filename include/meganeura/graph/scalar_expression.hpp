// SPDX-License-Identifier: MIT
// Scalar programs written as formulas.
#pragma once
#include <meganeura/graph/scalar.hpp>

#include <concepts>

namespace meganeura::inline MEGANEURA_ABI {

/// A value of the program that a builder is writing; it must not outlive the builder. Operators and `apply` add to that
/// program. errors: invalid_argument where scalar_builder refuses the operands.
class scalar_expression {
 public:
  scalar_expression(scalar_builder& writer, scalar_ref place) : writer_(&writer), place_(place) {}
  [[nodiscard]] scalar_ref place() const { return place_; }
  /// A constant of the same program.
  [[nodiscard]] scalar_expression number(double value) const { return {*writer_, writer_->constant(value)}; }

  friend scalar_expression operator+(scalar_expression a, scalar_expression b) { return apply(scalar_op::add, a, b); }
  friend scalar_expression operator-(scalar_expression a, scalar_expression b) {
    return apply(scalar_op::subtract, a, b);
  }
  friend scalar_expression operator*(scalar_expression a, scalar_expression b) {
    return apply(scalar_op::multiply, a, b);
  }
  friend scalar_expression operator/(scalar_expression a, scalar_expression b) {
    return apply(scalar_op::divide, a, b);
  }
  friend scalar_expression operator-(scalar_expression a) { return apply(scalar_op::negate, a); }

  /// Any operation, e.g. apply(scalar_op::sqrt, v).
  template <std::same_as<scalar_expression>... Rest>
  friend scalar_expression apply(scalar_op kind, scalar_expression a, Rest... rest) {
    const scalar_ref operands[] = {a.place_, rest.place_...};
    return {*a.writer_, a.writer_->apply(kind, operands)};
  }

 private:
  scalar_builder* writer_;
  scalar_ref place_;
};

}  // namespace meganeura::inline MEGANEURA_ABI
