// SPDX-License-Identifier: MIT
// The algebra that pays: rewrite rules over primitives, each checked by evaluation in the tests.
#pragma once
#include <meganeura/egraph/pattern.hpp>

#include <cmath>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace rules {

using namespace egraph::pattern;
using egraph::captures;

inline constexpr auto normal_reciprocal = [](const captures& b) {
  return std::isnormal(static_cast<float>(1 / b.constants[0]));
};
// The product of two factors replaces both: it must neither overflow nor vanish where they did not.
inline constexpr auto normal_product = [](const captures& b) {
  return std::isnormal(static_cast<float>(b.constants[0] * b.constants[1]));
};
inline constexpr auto power_of_two = [](const captures& b) {
  int exponent = 0;
  return std::fabs(std::frexp(b.constants[0], &exponent)) == 0.5 && exponent > -120 && exponent < 120;
};

// Rules over exp, and of two scales in a row, leave out a value between that could overflow or vanish: what it did to
// the result goes with it. `exact` keeps it. Scales do not move over sums: without them the sum overflows, or vanishes,
// where the scaled one would not.
//
// What a region's program folds by itself, as -(-x) and x * 1, needs no rule.
inline constexpr auto algebra = rule_set(
    rewrite("divide_by_power_of_two", _x / _c, _x*(1 / _c)).exact().when(power_of_two),
    rewrite("divide_by_constant", _x / _c, _x*(1 / _c)).reassociates().when(normal_reciprocal),
    rewrite("reciprocal_sqrt", reciprocal(sqrt(_x)), rsqrt(_x)).reassociates(),
    rewrite("divide_by_sqrt", _x / sqrt(_y), _x* rsqrt(_y)).reassociates(),
    rewrite("matmul_negate_left", matmul(-_x, _w), -matmul(_x, _w)).reassociates(),  // 0 becomes -0
    rewrite("matmul_negate_right", matmul(_x, -_w), -matmul(_x, _w)).reassociates(),
    rewrite("scale_scale", (_x * _c) * _d, _x*(_c* _d)).reassociates().when(normal_product),
    rewrite("log_exp", log(exp(_x)), _x).reassociates(),
    rewrite("log_exp_quotient", log(exp(_x) / _y), _x - log(_y)).reassociates(),
    rewrite("exp_times_exp", exp(_x) * exp(_y), exp(_x + _y)).reassociates(),
    rewrite("exp_over_exp", exp(_x) / exp(_y), exp(_x - _y)).reassociates(),
    rewrite("negate_subtract", -(_x - _y), _y - _x).reassociates(),  // -0 becomes 0
    rewrite("subtract_negate", _x - (-_y), _x + _y).exact(), rewrite("add_negate", _x + (-_y), _x - _y).exact(),
    rewrite("negate_times_negate", (-_x) * (-_y), _x* _y).exact(),
    rewrite("negate_times_constant", (-_x) * _c, _x*(-_c)).exact(),
    rewrite("add_zero", _x + 0.0, _x).reassociates());  // -0 stays -0

}  // namespace rules

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
