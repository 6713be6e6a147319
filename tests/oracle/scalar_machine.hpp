// SPDX-License-Identifier: MIT
// Runs a scalar program, one operation at a time over a row of elements, in float, double or the prime field.
#pragma once
#include <meganeura/graph/scalar.hpp>

#include <oracle/tensor.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::oracle {

template <class Real>
inline constexpr bool is_field = std::is_same_v<Real, prime_field>;

/// i32 wraps as two's complement, u32 modulo 2^32.
[[nodiscard]] inline std::int64_t wrapped(std::int64_t value, dtype type) {
  const auto word = static_cast<std::uint32_t>(value);
  return type == dtype::u32 ? static_cast<std::int64_t>(word) : static_cast<std::int32_t>(word);
}

[[nodiscard]] inline std::int64_t integer_op(scalar_op kind, std::int64_t a, std::int64_t b, dtype type) {
  switch (kind) {
    case scalar_op::negate:
      return wrapped(-a, type);
    case scalar_op::abs:
      return wrapped(a < 0 ? -a : a, type);
    case scalar_op::sign:
      return a > 0 ? 1 : a < 0 ? -1 : 0;
    case scalar_op::add:
      return wrapped(a + b, type);
    case scalar_op::subtract:
      return wrapped(a - b, type);
    case scalar_op::multiply:
      return wrapped(static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b)), type);
    case scalar_op::divide:
      return b == 0 ? 0 : wrapped(a / b, type);
    case scalar_op::minimum:
      return std::min(a, b);
    case scalar_op::maximum:
      return std::max(a, b);
    case scalar_op::bitwise_and:
      return wrapped(a & b, type);
    case scalar_op::bitwise_or:
      return wrapped(a | b, type);
    case scalar_op::bitwise_xor:
      return wrapped(a ^ b, type);
    case scalar_op::shift_left:
      return b < 0 || b > 31 ? 0 : wrapped(static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << b), type);
    case scalar_op::shift_right:
      return a >> (b < 0 || b > 31 ? 63 : b);
    case scalar_op::less:
      return a < b;
    case scalar_op::less_equal:
      return a <= b;
    case scalar_op::equal:
      return a == b;
    case scalar_op::logical_not:
      return a == 0;
    case scalar_op::logical_and:
      return a != 0 && b != 0;
    case scalar_op::logical_or:
      return a != 0 || b != 0;
    default:
      fail(error_category::internal, "oracle: {} on {} is not defined", info(kind).name, to_string(type));
  }
}

/// digamma and trigamma: the terms of their sums one after the other, and Euler and Maclaurin's rest of them.
[[nodiscard]] inline double polygamma(int order, double x) {
  if (x < 0 && std::isinf(x)) return NAN;
  if (x < 0 && x == std::floor(x)) return order == 0 ? NAN : INFINITY;
  if (x < 0.5 && x != 0) {
    const double sine = std::sin(M_PI * (x - 2 * std::round(x / 2)));
    if (order == 1) return M_PI * M_PI / (sine * sine) - polygamma(1, 1 - x);
    return polygamma(0, 1 - x) - M_PI * std::cos(M_PI * (x - 2 * std::round(x / 2))) / sine;
  }
  double sum = 0;
  const int terms = x < 1e6 ? 200 : 0;
  for (int k = 0; k < terms; ++k) sum += order == 0 ? -1 / (x + k) : 1 / ((x + k) * (x + k));
  const double y = x + terms;
  if (order == 0) return sum + std::log(y) - 1 / (2 * y) - 1 / (12 * y * y);
  return sum + 1 / y + 1 / (2 * y * y) + 1 / (6 * y * y * y);
}

template <class Real>
[[nodiscard]] Real float_op(scalar_op kind, Real a, Real b) {
  switch (kind) {
    case scalar_op::negate:
      return -a;
    case scalar_op::abs:
      return std::fabs(a);
    case scalar_op::sign:
      return a > 0 ? Real(1) : a < 0 ? Real(-1) : Real(0);
    case scalar_op::reciprocal:
      return 1 / a;
    case scalar_op::sqrt:
      return std::sqrt(a);
    case scalar_op::rsqrt:
      return 1 / std::sqrt(a);
    case scalar_op::exp:
      return std::exp(a);
    case scalar_op::exp2:
      return std::exp2(a);
    case scalar_op::expm1:
      return std::expm1(a);
    case scalar_op::log:
      return std::log(a);
    case scalar_op::log2:
      return std::log2(a);
    case scalar_op::log10:
      return std::log10(a);
    case scalar_op::log1p:
      return std::log1p(a);
    case scalar_op::sin:
      return std::sin(a);
    case scalar_op::cos:
      return std::cos(a);
    case scalar_op::tanh:
      return std::tanh(a);
    case scalar_op::cbrt:
      return std::cbrt(a);
    case scalar_op::tan:
      return std::tan(a);
    case scalar_op::asin:
      return std::asin(a);
    case scalar_op::acos:
      return std::acos(a);
    case scalar_op::atan:
      return std::atan(a);
    case scalar_op::sinh:
      return std::sinh(a);
    case scalar_op::cosh:
      return std::cosh(a);
    case scalar_op::asinh:
      return std::asinh(a);
    case scalar_op::acosh:
      return std::acosh(a);
    case scalar_op::atanh:
      return std::atanh(a);
    case scalar_op::trunc:
      return std::trunc(a);
    case scalar_op::erf:
      return std::erf(a);
    case scalar_op::erfc:
      return std::erfc(a);
    case scalar_op::tgamma:
      return std::tgamma(a);
    case scalar_op::lgamma:
      return std::lgamma(a);
    case scalar_op::digamma:
      return static_cast<Real>(polygamma(0, static_cast<double>(a)));
    case scalar_op::trigamma:
      return static_cast<Real>(polygamma(1, static_cast<double>(a)));
    case scalar_op::floor:
      return std::floor(a);
    case scalar_op::ceil:
      return std::ceil(a);
    case scalar_op::round:
      return std::nearbyint(a);
    case scalar_op::add:
      return a + b;
    case scalar_op::subtract:
      return a - b;
    case scalar_op::multiply:
      return a * b;
    case scalar_op::divide:
      return a / b;
    case scalar_op::copysign:
      return std::copysign(a, b);
    case scalar_op::hypot:
      return std::isnan(a) || std::isnan(b) ? a + b : std::hypot(a, b);
    case scalar_op::atan2:
      return std::atan2(a, b);
    case scalar_op::power:
      return std::pow(a, b);
    case scalar_op::minimum:
      return std::isnan(a) || std::isnan(b) ? a + b : std::fmin(a, b);
    case scalar_op::maximum:
      return std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b);
    case scalar_op::less:
      return a < b;
    case scalar_op::less_equal:
      return a <= b;
    case scalar_op::equal:
      return a == b;
    default:
      fail(error_category::internal, "oracle: {} on floats is not defined", info(kind).name);
  }
}

/// What a field can say: ring operations and division. Rules that need more are checked in f64.
template <>
[[nodiscard]] inline prime_field float_op(scalar_op kind, prime_field a, prime_field b) {
  switch (kind) {
    case scalar_op::negate:
      return -a;
    case scalar_op::add:
      return a + b;
    case scalar_op::subtract:
      return a - b;
    case scalar_op::multiply:
      return a * b;
    case scalar_op::divide:
      return a * b.inverse();
    case scalar_op::reciprocal:
      return a.inverse();
    default:
      fail(error_category::unsupported, "oracle: {} has no meaning in a finite field; use doubles", info(kind).name);
  }
}

/// Towards zero, and to the nearest integer of the type where there is none; 0 for a NaN.
[[nodiscard]] inline std::int64_t truncated(double value, dtype type) {
  using signed_limits = std::numeric_limits<std::int32_t>;
  const std::int64_t lowest = type == dtype::u32 ? 0 : signed_limits::min();
  const std::int64_t highest = type == dtype::u32 ? std::numeric_limits<std::uint32_t>::max() : signed_limits::max();
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(lowest)) return lowest;
  return value >= static_cast<double>(highest) ? highest : static_cast<std::int64_t>(value);
}

/// Whether a NaN that comes of it has its operand's sign, or the one asked for; others have any.
[[nodiscard]] constexpr bool keeps_sign_of_nan(scalar_op kind) {
  return kind == scalar_op::negate || kind == scalar_op::abs || kind == scalar_op::copysign;
}

/// One operation; `type` is that of its first operand, `result` its own.
template <class Real>
[[nodiscard]] Real scalar_apply(scalar_op kind, dtype type, dtype result, Real a, Real b, Real c) {
  if (kind == scalar_op::select) return a == Real(0.0) ? c : b;
  if (kind == scalar_op::convert) {
    if (result == dtype::boolean) return Real(a == Real(0.0) ? 0.0 : 1.0);
    if (is_float(result) || !is_float(type)) return is_float(result) ? a : Real(double(wrapped(to_integer(a), result)));
    if constexpr (is_field<Real>)
      fail(error_category::unsupported, "oracle: a finite field does not truncate");
    else
      return Real(double(truncated(double(a), result)));
  }
  if (kind == scalar_op::reinterpret) {
    if constexpr (is_field<Real>) {
      fail(error_category::unsupported, "oracle: a finite field has no bits");
    } else {
      const std::uint32_t bits = is_float(type) ? std::bit_cast<std::uint32_t>(static_cast<float>(a))
                                                : static_cast<std::uint32_t>(to_integer(a));
      return Real(is_float(result) ? static_cast<double>(std::bit_cast<float>(bits)) : double(wrapped(bits, result)));
    }
  }
  if (!is_float(type)) return Real(double(integer_op(kind, to_integer(a), to_integer(b), type)));
  const Real found = float_op(kind, a, b);
  if constexpr (!is_field<Real>) {
    if (std::isnan(found) && !keeps_sign_of_nan(kind)) return std::numeric_limits<Real>::quiet_NaN();
  }
  return found;
}

/// Called with an operation, the type of its first operand and its first two operands; may change its result.
template <class Real>
using scalar_hook = std::function<void(const scalar_node&, dtype, Real, Real, Real&)>;

/// Evaluates a program for up to `capacity` elements at once; these are the row that row reductions reduce over.
template <class Real>
class scalar_machine {
 public:
  scalar_machine(const scalar_program& program, std::size_t capacity, const scalar_hook<Real>& on_result)
      : program_(program), on_result_(on_result) {
    values_.assign(program.nodes.size(), std::vector<Real>(capacity));
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      if (program.nodes[i].op == scalar_op::constant) values_[i].assign(capacity, Real(program.nodes[i].value));
    }
  }

  /// Calls fill(argument index, row) for each argument the program has, then runs it; returns the result's row.
  template <class Fill>
  const std::vector<Real>& run(std::size_t count, Fill&& fill) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const scalar_node& node = program_.nodes[i];
      if (node.op == scalar_op::constant) continue;
      if (node.op == scalar_op::argument) {
        fill(static_cast<std::size_t>(node.value), values_[i]);
      } else if (is_row_reduction(node.op)) {
        reduce_row(node, values_[node.operands[0]], values_[i], count);
      } else {
        apply(node, values_[i], count);
      }
    }
    return values_.back();
  }
  /// The row of any node, once it ran.
  const std::vector<Real>& value(scalar_ref node) const { return values_[node]; }

 private:
  void apply(const scalar_node& node, std::vector<Real>& result, std::size_t count) {
    const dtype type = program_.nodes[node.operands[0]].type;
    const std::vector<Real>&a = values_[node.operands[0]], &b = values_[node.operands[1]],
          &c = values_[node.operands[2]];
    for (std::size_t k = 0; k < count; ++k) {
      result[k] = scalar_apply(node.op, type, node.type, a[k], b[k], c[k]);
      if (on_result_) on_result_(node, type, a[k], b[k], result[k]);
    }
  }

  void reduce_row(const scalar_node& node, const std::vector<Real>& row, std::vector<Real>& result, std::size_t count) {
    Real total = row[0];
    const scalar_op kind = node.op;
    const scalar_op step = kind == scalar_op::row_sum   ? scalar_op::add
                           : kind == scalar_op::row_max ? scalar_op::maximum
                           : kind == scalar_op::row_min ? scalar_op::minimum
                                                        : scalar_op::multiply;
    for (std::size_t k = 1; k < count; ++k) {
      const Real before = total;
      total = scalar_apply(step, node.type, node.type, total, row[k], row[k]);
      if (on_result_) on_result_(node, node.type, before, row[k], total);
    }
    std::fill_n(result.begin(), count, total);
  }

  const scalar_program& program_;
  const scalar_hook<Real>& on_result_;
  std::vector<std::vector<Real>> values_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
