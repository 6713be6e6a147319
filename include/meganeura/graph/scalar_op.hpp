// SPDX-License-Identifier: MIT
// The scalar functions: name, properties, value and derivative of each. How a device computes one is told in
// kernels/scalar_emit.ipp, how a model writes it in ops/elementwise.hpp.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// Operations on scalars. Semantics are IEEE 754, each operation rounded for itself (a * b + c is never one); where C
/// and GLSL differ the comment decides. On a device what is not exact is off by at most (units in the last place of an
/// f32 result; an f16 is rounded once more): divide and reciprocal 2.5, for divisors of magnitude 2^-126 to 2^126;
/// rsqrt 2; sqrt 4.5; exp 6, exp2 2 and expm1 4; log 4, at 1 nothing, log2 and log10 2, log1p 6; cbrt, atan,
/// atan2 and hypot 6; tan, asin, acos and the hyperbolic ones 12; tanh 4 for |x| < 0.648 and 9 beyond; erf 5; erfc,
/// tgamma, and lgamma and its derivatives, or 1 where they are smaller, 16; power 8, and 2|b| + 3 where b is a constant
/// integer up to 64 in magnitude (multiplications). Denormal numbers may count as zeros.
// clang-format off
enum class scalar_op : std::uint8_t {
  argument,  // value: index of the operand
  constant,  // value: the number
  // unary
  negate, abs,
  sign,  // -1, 0 or 1; 0 for a NaN
  reciprocal, sqrt, rsqrt,
  cbrt,  // of negative numbers too
  exp, exp2,  // 2^x, exact where x is whole
  expm1,      // exp(x) - 1
  log, log2, log10,
  log1p,  // log(1 + x)
  sin, cos,  // on a device of |x| <= 2^24, within 2^-22 of the result and 2^-35; beyond, where floats miss radians, NaN
  tan,  // of |x| <= 2^24, as sin
  asin, acos, atan,
  sinh, cosh, tanh, asinh, acosh, atanh,
  erf,   // 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x
  erfc,  // 1 - erf(x)
  tgamma, lgamma,     // the gamma function, and the logarithm of its magnitude
  digamma, trigamma,  // the first two derivatives of lgamma
  floor, ceil,
  round,  // ties to even
  trunc,
  logical_not,
  // To the node's type. Float to integer truncates towards zero; beyond the range it is the nearest integer there is, and
  // 0 for a NaN. Between i32 and u32: modulo 2^32. Integer to float rounds to nearest, ties to even. To boolean: x != 0,
  // true for a NaN; from it 0 or 1.
  convert,
  reinterpret,  // the same 32 bits as the node's type, f32, i32 or u32
  // binary
  add, subtract, multiply,
  divide,  // integers: truncates towards zero, x / 0 is 0 and -2^31 / -1 is -2^31; floats by zero: +-inf or NaN
  bitwise_and, bitwise_or, bitwise_xor,  // integers
  shift_left, shift_right,  // integers, by 0 and more; from 32 on 0, or -1 where a negative i32 goes right
  copysign,  // |a| with b's sign, of zeros and NaN as well
  hypot,     // sqrt(a^2 + b^2) where the squares leave the range, too
  atan2,   // of y and x: the angle of (x, y), C's for zeros and infinities
  power,   // a^b; a < 0 gives NaN unless b is whole; which sign a zero has or gives stays open
  minimum, maximum,  // IEEE 754-2019: NaN if either is NaN; which of two zeros of unlike sign it is stays open
  less, less_equal, equal, logical_and, logical_or,
  // ternary
  select,  // a ? b : c
  // over the row axes of a region only (never in a map): the value is the same for every element of the row; a NaN
  // anywhere in the row is the result of each
  row_sum, row_max, row_min, row_product,
};
// clang-format on

struct scalar_flags {
  bool arithmetic = false;   // of every type, integers modulo 2^32
  bool floats_only = false;  // what is none of these and not logical takes every number
  bool integers_only = false;
  bool slow = false;      // on a device: costs device_profile::transcendental
  bool compares = false;  // numbers to a condition
  bool logical = false;   // conditions to a condition
  bool commutes = false;
  bool jumps = false;  // what comes out of floats has steps; the derivative between them is 0
};

struct scalar_op_info {
  scalar_op op;
  const char* name;
  int arity;
  scalar_flags is{};
  scalar_op step = scalar_op::argument;  // of a row reduction: what joins two partial results,
  double start = 0;                      // and what it begins with, saturated where that is no integer
};

namespace detail {
// clang-format off
inline constexpr scalar_op_info scalar_op_table[] = {
    {scalar_op::argument, "argument", 0},
    {scalar_op::constant, "constant", 0},
    {scalar_op::negate, "negate", 1, {.arithmetic = true}},
    {scalar_op::abs, "abs", 1, {.arithmetic = true}},
    {scalar_op::sign, "sign", 1, {.jumps = true}},
    {scalar_op::reciprocal, "reciprocal", 1, {.floats_only = true}},
    {scalar_op::sqrt, "sqrt", 1, {.floats_only = true}},
    {scalar_op::rsqrt, "rsqrt", 1, {.floats_only = true}},
    {scalar_op::cbrt, "cbrt", 1, {.floats_only = true, .slow = true}},
    {scalar_op::exp, "exp", 1, {.floats_only = true, .slow = true}},
    {scalar_op::exp2, "exp2", 1, {.floats_only = true, .slow = true}},
    {scalar_op::expm1, "expm1", 1, {.floats_only = true, .slow = true}},
    {scalar_op::log, "log", 1, {.floats_only = true, .slow = true}},
    {scalar_op::log2, "log2", 1, {.floats_only = true, .slow = true}},
    {scalar_op::log10, "log10", 1, {.floats_only = true, .slow = true}},
    {scalar_op::log1p, "log1p", 1, {.floats_only = true, .slow = true}},
    {scalar_op::sin, "sin", 1, {.floats_only = true, .slow = true}},
    {scalar_op::cos, "cos", 1, {.floats_only = true, .slow = true}},
    {scalar_op::tan, "tan", 1, {.floats_only = true, .slow = true}},
    {scalar_op::asin, "asin", 1, {.floats_only = true, .slow = true}},
    {scalar_op::acos, "acos", 1, {.floats_only = true, .slow = true}},
    {scalar_op::atan, "atan", 1, {.floats_only = true, .slow = true}},
    {scalar_op::sinh, "sinh", 1, {.floats_only = true, .slow = true}},
    {scalar_op::cosh, "cosh", 1, {.floats_only = true, .slow = true}},
    {scalar_op::tanh, "tanh", 1, {.floats_only = true, .slow = true}},
    {scalar_op::asinh, "asinh", 1, {.floats_only = true, .slow = true}},
    {scalar_op::acosh, "acosh", 1, {.floats_only = true, .slow = true}},
    {scalar_op::atanh, "atanh", 1, {.floats_only = true, .slow = true}},
    {scalar_op::erf, "erf", 1, {.floats_only = true, .slow = true}},
    {scalar_op::erfc, "erfc", 1, {.floats_only = true, .slow = true}},
    {scalar_op::tgamma, "tgamma", 1, {.floats_only = true, .slow = true}},
    {scalar_op::lgamma, "lgamma", 1, {.floats_only = true, .slow = true}},
    {scalar_op::digamma, "digamma", 1, {.floats_only = true, .slow = true}},
    {scalar_op::trigamma, "trigamma", 1, {.floats_only = true, .slow = true}},
    {scalar_op::floor, "floor", 1, {.floats_only = true, .jumps = true}},
    {scalar_op::ceil, "ceil", 1, {.floats_only = true, .jumps = true}},
    {scalar_op::round, "round", 1, {.floats_only = true, .jumps = true}},
    {scalar_op::trunc, "trunc", 1, {.floats_only = true, .jumps = true}},
    {scalar_op::logical_not, "logical_not", 1, {.logical = true}},
    {scalar_op::convert, "convert", 1},
    {scalar_op::reinterpret, "reinterpret", 1, {.jumps = true}},
    {scalar_op::add, "add", 2, {.arithmetic = true, .commutes = true}},
    {scalar_op::subtract, "subtract", 2, {.arithmetic = true}},
    {scalar_op::multiply, "multiply", 2, {.arithmetic = true, .commutes = true}},
    {scalar_op::divide, "divide", 2, {.arithmetic = true, .slow = true}},
    {scalar_op::bitwise_and, "bitwise_and", 2, {.integers_only = true, .commutes = true}},
    {scalar_op::bitwise_or, "bitwise_or", 2, {.integers_only = true, .commutes = true}},
    {scalar_op::bitwise_xor, "bitwise_xor", 2, {.integers_only = true, .commutes = true}},
    {scalar_op::shift_left, "shift_left", 2, {.integers_only = true}},
    {scalar_op::shift_right, "shift_right", 2, {.integers_only = true}},
    {scalar_op::copysign, "copysign", 2, {.floats_only = true}},
    {scalar_op::hypot, "hypot", 2, {.floats_only = true, .slow = true, .commutes = true}},
    {scalar_op::atan2, "atan2", 2, {.floats_only = true, .slow = true}},
    {scalar_op::power, "power", 2, {.floats_only = true, .slow = true}},
    {scalar_op::minimum, "minimum", 2, {.commutes = true}},
    {scalar_op::maximum, "maximum", 2, {.commutes = true}},
    {scalar_op::less, "less", 2, {.compares = true, .jumps = true}},
    {scalar_op::less_equal, "less_equal", 2, {.compares = true, .jumps = true}},
    {scalar_op::equal, "equal", 2, {.compares = true, .commutes = true, .jumps = true}},
    {scalar_op::logical_and, "logical_and", 2, {.logical = true, .commutes = true}},
    {scalar_op::logical_or, "logical_or", 2, {.logical = true, .commutes = true}},
    {scalar_op::select, "select", 3},
    {scalar_op::row_sum, "row_sum", 1, {}, scalar_op::add},
    {scalar_op::row_max, "row_max", 1, {}, scalar_op::maximum, -__builtin_inf()},
    {scalar_op::row_min, "row_min", 1, {}, scalar_op::minimum, __builtin_inf()},
    {scalar_op::row_product, "row_product", 1, {}, scalar_op::multiply, 1},
};
// clang-format on
}  // namespace detail

inline constexpr int scalar_op_count = static_cast<int>(sizeof detail::scalar_op_table / sizeof(scalar_op_info));
static_assert(scalar_op_count == static_cast<int>(scalar_op::row_product) + 1);

[[nodiscard]] constexpr const scalar_op_info& info(scalar_op kind) {
  return detail::scalar_op_table[static_cast<int>(kind)];
}
static_assert(
    [] {
      for (int i = 0; i < scalar_op_count; ++i) {
        if (info(static_cast<scalar_op>(i)).op != static_cast<scalar_op>(i)) return false;
      }
      return true;
    }(),
    "scalar_op_table has its rows in the order of scalar_op");

[[nodiscard]] constexpr const char* to_string(scalar_op kind) {
  return static_cast<int>(kind) < scalar_op_count ? info(kind).name : "operation";
}
[[nodiscard]] constexpr bool is_row_reduction(scalar_op kind) { return info(kind).step != scalar_op::argument; }

namespace detail {

// Recurrences up to 10, asymptotic series from there, reflection below 0.
[[nodiscard]] constexpr double evaluate_digamma(double x) {
  constexpr double pi = 3.14159265358979323846;
  if (x < 0 && x == __builtin_floor(x)) return __builtin_nan("");
  if (x < 0) return evaluate_digamma(1 - x) - pi / __builtin_tan(pi * x);
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double z = 1 / (x * x);
  return sum + __builtin_log(x) - 0.5 / x -
         z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132)))));
}
[[nodiscard]] constexpr double evaluate_trigamma(double x) {
  constexpr double pi = 3.14159265358979323846;
  if (x < 0 && x == __builtin_floor(x)) return x - x == 0 ? __builtin_inf() : __builtin_nan("");
  if (x < 0) {
    const double sine = __builtin_sin(pi * x);
    return pi * pi / (sine * sine) - evaluate_trigamma(1 - x);
  }
  double sum = 0;
  for (; x < 10; x += 1) sum += 1 / (x * x);
  const double z = 1 / (x * x);
  return sum + 1 / x + z / 2 + z / x * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66)))));
}

/// The value on floats and conditions (0 or 1), in double precision; NaN of what depends on types or on a row.
/// Builtins, because <cmath> takes a compiler longer than the whole front end.
[[nodiscard]] constexpr double evaluate_real(scalar_op kind, double a, double b, double c) {
  switch (kind) {
    // clang-format off
    case scalar_op::negate: return -a;
    case scalar_op::abs: return __builtin_fabs(a);
    case scalar_op::sign: return a > 0 ? 1 : a < 0 ? -1 : 0;
    case scalar_op::reciprocal: return 1 / a;
    case scalar_op::sqrt: return __builtin_sqrt(a);
    case scalar_op::rsqrt: return 1 / __builtin_sqrt(a);
    case scalar_op::exp: return __builtin_exp(a);
    case scalar_op::exp2: return __builtin_exp2(a);
    case scalar_op::expm1: return __builtin_expm1(a);
    case scalar_op::log: return __builtin_log(a);
    case scalar_op::log2: return __builtin_log2(a);
    case scalar_op::log10: return __builtin_log10(a);
    case scalar_op::log1p: return __builtin_log1p(a);
    case scalar_op::sin: return __builtin_sin(a);
    case scalar_op::cos: return __builtin_cos(a);
    case scalar_op::cbrt: return __builtin_cbrt(a);
    case scalar_op::tan: return __builtin_tan(a);
    case scalar_op::asin: return __builtin_asin(a);
    case scalar_op::acos: return __builtin_acos(a);
    case scalar_op::atan: return __builtin_atan(a);
    case scalar_op::sinh: return __builtin_sinh(a);
    case scalar_op::cosh: return __builtin_cosh(a);
    case scalar_op::tanh: return __builtin_tanh(a);
    case scalar_op::asinh: return __builtin_asinh(a);
    case scalar_op::acosh: return __builtin_acosh(a);
    case scalar_op::atanh: return __builtin_atanh(a);
    case scalar_op::erf: return __builtin_erf(a);
    case scalar_op::erfc: return __builtin_erfc(a);
    case scalar_op::tgamma: return __builtin_tgamma(a);
    case scalar_op::lgamma: return __builtin_lgamma(a);
    case scalar_op::digamma: return evaluate_digamma(a);
    case scalar_op::trigamma: return evaluate_trigamma(a);
    case scalar_op::floor: return __builtin_floor(a);
    case scalar_op::ceil: return __builtin_ceil(a);
    case scalar_op::round: return __builtin_nearbyint(a);
    case scalar_op::trunc: return __builtin_trunc(a);
    case scalar_op::logical_not: return a == 0;
    case scalar_op::add: return a + b;
    case scalar_op::subtract: return a - b;
    case scalar_op::multiply: return a * b;
    case scalar_op::divide: return a / b;
    case scalar_op::copysign: return __builtin_copysign(a, b);
    case scalar_op::hypot: return a != a || b != b ? a + b : __builtin_hypot(a, b);
    case scalar_op::atan2: return __builtin_atan2(a, b);
    case scalar_op::power: return __builtin_pow(a, b);
    case scalar_op::minimum: return a != a || a < b ? a : b;  // b where it is the NaN
    case scalar_op::maximum: return a != a || a > b ? a : b;
    case scalar_op::less: return a < b;
    case scalar_op::less_equal: return a <= b;
    case scalar_op::equal: return a == b;
    case scalar_op::logical_and: return a != 0 && b != 0;
    case scalar_op::logical_or: return a != 0 || b != 0;
    case scalar_op::select: return a != 0 ? b : c;
    case scalar_op::argument: case scalar_op::constant: case scalar_op::convert: case scalar_op::reinterpret:
    case scalar_op::bitwise_and: case scalar_op::bitwise_or: case scalar_op::bitwise_xor:
    case scalar_op::shift_left: case scalar_op::shift_right:
    case scalar_op::row_sum: case scalar_op::row_max: case scalar_op::row_min: case scalar_op::row_product: break;
      // clang-format on
  }
  return __builtin_nan("");
}

// The limits PyTorch takes: b = 0 has derivative 0 by a, and a = 0 has derivative 0 by b.
template <class Term>
[[nodiscard]] Term power_derivative(int side, const Term& g, const Term& a, const Term& b, const Term& y) {
  const Term zero = g.number(0);
  if (side == 1) {
    return apply(scalar_op::select, apply(scalar_op::equal, a, zero), zero, g * (y * apply(scalar_op::log, a)));
  }
  const Term slope = g * (b * apply(scalar_op::power, a, b - 1.0));
  if (const double* exponent = b.constant()) return *exponent == 0 ? zero : slope;
  return apply(scalar_op::select, apply(scalar_op::equal, b, zero), zero, slope);
}

// sqrt(1 - x^2)
template <class Term>
[[nodiscard]] Term side_of_angle(const Term& x) {
  return apply(scalar_op::sqrt, (x.number(1) - x) * apply(scalar_op::add, x, x.number(1)));
}

// x / (x^2 + y^2) and -y / (x^2 + y^2) without squares that leave the range.
template <class Term>
[[nodiscard]] Term atan2_derivative(int side, const Term& g, const Term& y, const Term& x) {
  const Term a = apply(scalar_op::abs, y), b = apply(scalar_op::abs, x);
  const Term size = apply(scalar_op::maximum, a, b), u = x / size, v = y / size;
  const Term scaled = g / size / apply(scalar_op::add, u * u, v * v);
  return side == 0 ? scaled * u : -(scaled * v);
}

// Everything but what surely loses gets its part: where an operand is NaN, so is the result, and both get all of g.
template <class Term>
[[nodiscard]] Term extremum_derivative(bool is_maximum, int side, const Term& g, const Term* x, const Term& y) {
  const Term &own = x[side], &other = x[1 - side], zero = g.number(0);
  if (other.constant()) {  // relu, clamp: from the result alone, 0 at the bound as torch.relu
    return apply(scalar_op::select, apply(scalar_op::less_equal, is_maximum ? y : other, is_maximum ? other : y), zero,
                 g);
  }
  const Term loses = apply(scalar_op::less, is_maximum ? own : other, is_maximum ? other : own);
  return apply(scalar_op::select, apply(scalar_op::equal, x[0], x[1]), g * 0.5,
               apply(scalar_op::select, loses, zero, g));
}

/// g times the derivative of y = kind(x[0], x[1], x[2]) by x[side]; Term() where there is none. A `Term` is an
/// operation being written, see autodiff/scalar_gradient.ipp.
template <class Term>
[[nodiscard]] Term derivative(scalar_op kind, int side, const Term& g, const Term* x, const Term& y) {
  switch (kind) {
    // clang-format off
    case scalar_op::negate: return -g;
    case scalar_op::abs: return g * apply(scalar_op::sign, x[0]);
    case scalar_op::reciprocal: return -(g * (y * y));
    case scalar_op::sqrt: return g * 0.5 / y;
    case scalar_op::rsqrt: return g * -0.5 * (y * (y * y));
    case scalar_op::exp: return g * y;
    case scalar_op::exp2: return g * (y * 0.6931471805599453);  // log(2)
    case scalar_op::expm1: return g * apply(scalar_op::exp, x[0]);
    case scalar_op::log: return g / x[0];
    case scalar_op::log2: return g * 1.4426950408889634 / x[0];    // 1 / log(2)
    case scalar_op::log10: return g * 0.43429448190325183 / x[0];  // 1 / log(10)
    case scalar_op::log1p: return g / apply(scalar_op::add, x[0], g.number(1));
    case scalar_op::sin: return g * apply(scalar_op::cos, x[0]);
    case scalar_op::cos: return -(g * apply(scalar_op::sin, x[0]));
    case scalar_op::cbrt: return g / (y * y * 3);
    case scalar_op::tan: return g * apply(scalar_op::add, y * y, g.number(1));
    case scalar_op::asin: return g / side_of_angle(x[0]);
    case scalar_op::acos: return -(g / side_of_angle(x[0]));
    case scalar_op::atan: return g / apply(scalar_op::add, x[0] * x[0], g.number(1));
    case scalar_op::sinh: return g * apply(scalar_op::cosh, x[0]);
    case scalar_op::cosh: return g * apply(scalar_op::sinh, x[0]);
    case scalar_op::tanh: return g * (g.number(1) - y * y);
    case scalar_op::asinh: return g / apply(scalar_op::hypot, x[0], g.number(1));
    case scalar_op::acosh:
      return g / (apply(scalar_op::sqrt, x[0] - 1) * apply(scalar_op::sqrt, apply(scalar_op::add, x[0], g.number(1))));
    case scalar_op::atanh: return g / ((g.number(1) - x[0]) * apply(scalar_op::add, x[0], g.number(1)));
    case scalar_op::erf: return g * (apply(scalar_op::exp, -(x[0] * x[0])) * 1.1283791670955126);  // 2 / sqrt(pi)
    case scalar_op::erfc: return g * (apply(scalar_op::exp, -(x[0] * x[0])) * -1.1283791670955126);
    case scalar_op::tgamma: return g * (y * apply(scalar_op::digamma, x[0]));
    case scalar_op::lgamma: return g * apply(scalar_op::digamma, x[0]);
    case scalar_op::digamma: return g * apply(scalar_op::trigamma, x[0]);
    case scalar_op::copysign:
      return side == 1 ? g.number(0) : apply(scalar_op::select, apply(scalar_op::equal, x[0], y), g, -g);
    case scalar_op::hypot:
      return apply(scalar_op::select, apply(scalar_op::equal, y, g.number(0)), g.number(0), g * (x[side] / y));
    case scalar_op::atan2: return atan2_derivative(side, g, x[0], x[1]);
    case scalar_op::add: return g;
    case scalar_op::subtract: return side == 0 ? g : -g;
    case scalar_op::multiply: return g * x[1 - side];
    case scalar_op::divide: return side == 0 ? g / x[1] : -(g / x[1] * y);  // -g a / b^2 = -(g / b) (a / b)
    case scalar_op::power: return power_derivative(side, g, x[0], x[1], y);
    case scalar_op::minimum: return extremum_derivative(false, side, g, x, y);
    case scalar_op::maximum: return extremum_derivative(true, side, g, x, y);
    case scalar_op::select:
      return apply(scalar_op::select, x[0], side == 1 ? g : g.number(0), side == 1 ? g.number(0) : g);
    case scalar_op::sign: case scalar_op::floor: case scalar_op::ceil: case scalar_op::round: case scalar_op::trunc:
    case scalar_op::logical_not: case scalar_op::logical_and: case scalar_op::logical_or: case scalar_op::convert:
    case scalar_op::reinterpret: case scalar_op::trigamma:
    case scalar_op::bitwise_and: case scalar_op::bitwise_or: case scalar_op::bitwise_xor:
    case scalar_op::shift_left: case scalar_op::shift_right:
    case scalar_op::less: case scalar_op::less_equal: case scalar_op::equal:
    case scalar_op::argument: case scalar_op::constant:
    case scalar_op::row_sum: case scalar_op::row_max: case scalar_op::row_min: case scalar_op::row_product: break;
      // clang-format on
  }
  return {};
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
