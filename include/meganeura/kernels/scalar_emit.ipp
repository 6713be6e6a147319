// SPDX-License-Identifier: MIT
// Definitions for kernels/scalar_emit.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/kernels/scalar_emit.hpp>
#include <meganeura/kernels/special_functions.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

MEGANEURA_INLINE scalar_value literal(dtype type, double value) {
  scalar_value result;
  result.type = value_type(type);
  switch (info(type).kind) {
    case number_kind::condition:
      result.bits = value != 0 ? 1u : 0u;
      break;
    case number_kind::signed_integer:  // beyond the range: the nearest number it has
      result.bits =
          static_cast<std::uint32_t>(static_cast<std::int32_t>(std::clamp(value, lowest(type), highest(type))));
      break;
    case number_kind::unsigned_integer:  // modulo 2^32, as C++ converts an int64
      result.bits = static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
      break;
    case number_kind::floating:
      result.bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
  return result;
}

MEGANEURA_INLINE std::optional<double> literal_value(const scalar_value& value) {
  if (!value.is_literal()) return {};
  if (value.type.is_float()) return static_cast<double>(std::bit_cast<float>(value.bits));
  if (value.type.kind == spirv::scalar_kind::i32) return static_cast<double>(static_cast<std::int32_t>(value.bits));
  return static_cast<double>(value.bits);
}

MEGANEURA_INLINE scalar_value widened(const scalar_value& value, int components) {
  if (value.type.components == components) return value;
  return spirv::untyped::splat({value.type.kind, static_cast<std::uint8_t>(components)}, value);
}

MEGANEURA_INLINE scalar_value component(const scalar_value& value, int index) {
  return value.type.components == 1 ? value : spirv::untyped::extract(value, static_cast<std::uint32_t>(index));
}

MEGANEURA_INLINE scalar_value grouped(spirv::kernel& owner, const std::array<scalar_value, 4>& parts) {
  const spirv::data_type type{parts[0].type.kind, 4};
  spirv::words ids;
  bool repeated = true;
  for (const scalar_value& part : parts) {
    repeated = repeated && part.is_literal() && part.bits == parts[0].bits;
    ids.push_back(owner.use(part));
  }
  if (repeated) return widened(parts[0], 4);
  const auto id = owner.builder().emit_pure(spirv::op::composite_construct, owner.builder().type(type), ids);
  owner.note_parts(id, parts);
  return owner.wrap(type, id);
}

MEGANEURA_INLINE scalar_value converted(const scalar_value& value, spirv::data_type to) {
  to.components = value.type.components;
  return spirv::untyped::convert(to, value);
}

namespace detail {

using spirv::untyped::binary_op;
using spirv::untyped::comparison;
using spirv::untyped::float_like;
using spirv::untyped::word_like;

// What is computed in; a condition counts as u32.
[[nodiscard]] inline dtype dtype_of(const scalar_value& value) {
  if (value.type.is_float()) return dtype::f32;
  return value.type.kind == spirv::scalar_kind::i32 ? dtype::i32 : dtype::u32;
}

[[nodiscard]] inline bool is_float_zero(const scalar_value& value) {
  return value.is_literal() && value.type.kind == spirv::scalar_kind::f32 && value.bits << 1 == 0;
}

// What drivers make of a literal zero, whatever a kernel says of NaN, infinities and the sign of zero (lavapipe of Mesa
// 22.3.6): x + 0 is x, 0 - x is -x, x * 0 and 0 / x are 0, x / 0 is undefined, a choice between 1 and -0 gives 0 (or -1
// and 0 gives -0), x times a choice between 1 and 0 is a choice between x and 0, and `x < 0 ? 0 : sqrt(x)` is
// sqrt(max(x, 0)). Each is written so that no float is zero, component by component in a vector of which one is known.
class beside_zero {
 public:
  explicit beside_zero(const scalar_value& x) : x_(x), bits_(spirv::untyped::bitcast(word_like(x, 0).type, x)) {}

  /// x + 0: x but for -0.
  [[nodiscard]] scalar_value plus_zero() const {
    const scalar_value is_minus_zero = compare(comparison::equal, bits_, word(sign_bit));
    return spirv::untyped::select(is_minus_zero, float_like(x_, 0), x_);
  }
  /// x * zero: a zero of the product's sign, NaN for an infinity or NaN.
  [[nodiscard]] scalar_value times(const scalar_value& zero) const { return signed_zero(zero, magnitude()); }
  /// zero / x: a zero of the quotient's sign, NaN for a zero or NaN; 0 - 1 is above all magnitudes.
  [[nodiscard]] scalar_value divides(const scalar_value& zero) const {
    return signed_zero(zero, spirv::untyped::binary(binary_op::subtract, magnitude(), word(1)));
  }

 private:
  static constexpr std::uint32_t sign_bit = 0x80000000u, infinity = 0x7f800000u, nan = 0x7fc00000u;
  [[nodiscard]] scalar_value word(std::uint32_t bits) const { return word_like(x_, bits); }
  [[nodiscard]] scalar_value magnitude() const {
    return spirv::untyped::binary(binary_op::bit_and, bits_, word(~sign_bit));
  }
  [[nodiscard]] scalar_value signed_zero(const scalar_value& zero, const scalar_value& size) const {
    using spirv::untyped::binary;
    const scalar_value sign = binary(binary_op::bit_xor, bits_, word(zero.bits));
    const scalar_value open = compare(comparison::greater_equal, size, word(infinity));
    return spirv::untyped::bitcast(
        x_.type, spirv::untyped::select(open, word(nan), binary(binary_op::bit_and, sign, word(sign_bit))));
  }

  scalar_value x_, bits_;
};

[[nodiscard]] inline bool is_unit_or_zero(const scalar_value& yes, const scalar_value& no) {
  const bool floats = yes.is_literal() && no.is_literal() && yes.type.kind == spirv::scalar_kind::f32;
  return floats && (yes.bits ^ no.bits) << 1 == 0x7f000000u && (is_float_zero(yes) || is_float_zero(no));
}

// See beside_zero.
[[nodiscard]] inline scalar_value emit_select(const scalar_value& condition, const scalar_value& yes,
                                              const scalar_value& no) {
  if (condition.is_literal() || !is_unit_or_zero(yes, no)) return spirv::untyped::select(condition, yes, no);
  const auto word = [&](std::uint32_t bits) { return word_like(yes, bits); };
  constexpr std::uint32_t mask = 0x40000000u;  // makes a 2 of the zero and an infinity of the 1
  const scalar_value chosen = spirv::untyped::select(condition, word(yes.bits ^ mask), word(no.bits ^ mask));
  return spirv::untyped::bitcast(yes.type, spirv::untyped::binary(binary_op::bit_xor, chosen, word(mask)));
}

// a^n by squaring: exact where the products are, and right for negative a.
[[nodiscard]] inline scalar_value emit_integer_power(const scalar_value& a, int exponent) {
  int left = std::abs(exponent);
  scalar_value square = a, result = float_like(a, 1.0f);
  for (; left != 0; left >>= 1) {
    if (left & 1) result = spirv::untyped::binary(binary_op::multiply, result, square);
    if (left > 1) square = spirv::untyped::binary(binary_op::multiply, square, square);
  }
  return exponent < 0 ? spirv::untyped::binary(binary_op::divide, float_like(a, 1.0f), result) : result;
}

// accurate_power is for finite a > 0; scalar_op.hpp tells the rest.
[[nodiscard]] inline scalar_value emit_power(const scalar_value& a, const scalar_value& b) {
  using namespace spirv::untyped;
  const std::optional<double> exponent = literal_value(b);
  const bool known_whole = exponent && *exponent == std::trunc(*exponent);
  if (known_whole && std::fabs(*exponent) <= 64) return emit_integer_power(a, static_cast<int>(*exponent));
  if (exponent && *exponent == 0.5) return math(spirv::glsl::sqrt, a.type, {a});
  if (exponent && *exponent == -0.5) return math(spirv::glsl::inverse_sqrt, a.type, {a});
  const auto choose = [](const scalar_value& condition, const scalar_value& yes, const scalar_value& no) {
    return spirv::untyped::select(condition, yes, no);
  };
  const scalar_value zero = float_like(a, 0), one = float_like(a, 1);
  const scalar_value infinity = float_like(a, std::numeric_limits<float>::infinity());
  const scalar_value nan = float_like(a, std::numeric_limits<float>::quiet_NaN());
  const scalar_value size =
      a.is_literal() ? float_like(a, std::fabs(std::bit_cast<float>(a.bits))) : math(spirv::glsl::f_abs, a.type, {a});
  const scalar_value falls = compare(comparison::less, b, zero), is_negative = compare(comparison::less, a, zero);
  scalar_value result = choose(compare(comparison::equal, size, one), one, accurate_power(size, b));  // b = inf, too
  result = choose(compare(comparison::equal, a, zero), choose(falls, infinity, zero), result);
  result = choose(compare(comparison::equal, size, infinity), choose(falls, zero, infinity), result);
  if (exponent) {
    const bool odd = std::fmod(std::fabs(*exponent), 2.0) == 1.0;
    if (!known_whole || odd) result = choose(is_negative, known_whole ? spirv::untyped::negate(result) : nan, result);
  } else {  // what is no multiple of 2 is odd; an infinity is one
    const auto is_whole = [&](const scalar_value& x) {
      return compare(comparison::equal, x, math(spirv::glsl::trunc, x.type, {x}));
    };
    const scalar_value is_even = is_whole(binary(binary_op::multiply, b, float_like(b, 0.5f)));
    const scalar_value below_zero = choose(is_whole(b), choose(is_even, result, spirv::untyped::negate(result)), nan);
    result = choose(is_negative, below_zero, result);
  }
  result = choose(logical(spirv::op::logical_or, is_nan(a), is_nan(b)), nan, result);
  const scalar_value is_one = logical(spirv::op::logical_or, compare(comparison::equal, b, zero),
                                      compare(comparison::equal, a, one));  // x^0 and 1^x, whatever x is
  return choose(is_one, one, result);
}

// FSign leaves NaN open; a difference of two choices, because a choice between -1 and 0 gives -0 (see beside_zero).
[[nodiscard]] inline scalar_value emit_float_sign(const scalar_value& a) {
  using namespace spirv::untyped;
  const scalar_value zero = float_like(a, 0), one = float_like(a, 1);
  const scalar_value below = spirv::untyped::select(compare(comparison::less, a, zero), one, zero);
  const scalar_value above = spirv::untyped::select(compare(comparison::greater, a, zero), one, zero);
  return binary(binary_op::subtract, above, below);
}

// SPIR-V leaves open what a float beyond the integer's range becomes.
[[nodiscard]] inline scalar_value emit_truncated(const scalar_value& a, dtype type) {
  using namespace spirv::untyped;
  const bool is_signed = meganeura::is_signed(type);
  const auto limit = static_cast<float>(highest(type) + 1);
  const auto number = [&](double value) { return widened(literal(type, value), a.type.components); };
  const auto word = [&](std::uint32_t bits) { return word_like(a, bits); };
  const scalar_value bits = bitcast(word(0).type, a);  // as integers, negative floats lie above all others
  const scalar_value size = is_signed ? binary(binary_op::bit_and, bits, word(0x7fffffffu)) : bits;
  const scalar_value fits = compare(comparison::less, size, word(std::bit_cast<std::uint32_t>(limit)));
  const scalar_value inside = converted(spirv::untyped::select(fits, a, float_like(a, 0)), value_type(type));
  scalar_value outside = number(0);
  if (is_signed) {
    const scalar_value below = compare(comparison::less_equal, a, float_like(a, -limit));
    outside = spirv::untyped::select(below, number(lowest(type)), outside);
  }
  const scalar_value above = compare(comparison::greater_equal, a, float_like(a, limit));
  outside = spirv::untyped::select(above, number(highest(type)), outside);
  return spirv::untyped::select(fits, inside, outside);
}

[[nodiscard]] inline scalar_value emit_by_component(spirv::kernel& owner, const scalar_node& node,
                                                    std::span<const scalar_value> operands) {
  std::array<scalar_value, 4> parts;
  for (int i = 0; i < 4; ++i) {
    scalar_value each[3];
    for (std::size_t k = 0; k < operands.size(); ++k) each[k] = component(operands[k], i);
    parts[static_cast<std::size_t>(i)] = emit(owner, node, {each, operands.size()});
  }
  return grouped(owner, parts);
}

// SPIR-V leaves x / 0 and the quotient that overflows open: those are x * 0 and x * -1 here.
[[nodiscard]] inline scalar_value emit_integer_divide(const scalar_value& a, const scalar_value& b) {
  using namespace spirv::untyped;
  const bool is_signed = a.type.kind == spirv::scalar_kind::i32;
  const auto number = [&](double value) {
    return widened(literal(is_signed ? dtype::i32 : dtype::u32, value), a.type.components);
  };
  if (b.is_literal() && b.bits != 0 && !(is_signed && b.bits == ~0u)) return binary(binary_op::divide, a, b);
  if (b.is_literal()) return binary(binary_op::multiply, a, b);
  scalar_value open = compare(comparison::equal, b, number(0));
  if (is_signed) open = logical(spirv::op::logical_or, open, compare(comparison::equal, b, number(-1)));
  const scalar_value quotient = binary(binary_op::divide, a, spirv::untyped::select(open, number(1), b));
  return spirv::untyped::select(open, binary(binary_op::multiply, a, b), quotient);
}

// SPIR-V leaves a shift by 32 and more open, and with it one by a negative number.
[[nodiscard]] inline scalar_value emit_shift(const scalar_value& a, const scalar_value& b, bool left) {
  using namespace spirv::untyped;
  const auto word = [&](std::uint32_t bits) { return word_like(b, bits); };
  const scalar_value by = bitcast(word(0).type, b), fits = compare(comparison::less, by, word(32));
  if (left) {
    const scalar_value zero = widened(literal(dtype_of(a), 0), a.type.components);
    return spirv::untyped::select(fits, binary(binary_op::shift_left, a, by), zero);
  }
  const scalar_value whole = binary(binary_op::shift_right, a, word(31));
  const scalar_value beyond = binary(binary_op::shift_right, whole, word(1));  // -1 of a negative i32
  return spirv::untyped::select(fits, binary(binary_op::shift_right, a, by), beyond);
}

// Of operands of one width, as many as the operation has.
[[nodiscard]] inline scalar_value emit_operation(spirv::kernel& owner, const scalar_node& node, const scalar_value& a,
                                                 const scalar_value& b, const scalar_value& c) {
  using namespace spirv::untyped;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const bool real = a.type.is_float();
  const auto function = [&](spirv::glsl code) { return math(code, a.type, {a}); };
  switch (node.op) {
    case scalar_op::negate:
      return negate(a);
    case scalar_op::abs:
      return a.type.kind == spirv::scalar_kind::u32 ? a : function(real ? spirv::glsl::f_abs : spirv::glsl::s_abs);
    case scalar_op::sign:
      if (a.type.kind == spirv::scalar_kind::u32) {
        return spirv::untyped::convert(
            a.type, compare(comparison::not_equal, a, widened(literal(dtype::u32, 0), a.type.components)));
      }
      return real ? emit_float_sign(a) : function(spirv::glsl::s_sign);
    case scalar_op::reciprocal:
      return binary(binary_op::divide, float_like(a, 1.0f), a);
    case scalar_op::sqrt:  // of -(-a): see beside_zero
      return math(spirv::glsl::sqrt, a.type, {negate(negate(a))});
    case scalar_op::rsqrt:
      return function(spirv::glsl::inverse_sqrt);
    case scalar_op::cbrt:
      return accurate_cbrt(a);
    case scalar_op::exp:
      return accurate_exp(a);
    case scalar_op::exp2:
      return accurate_exp2(a);
    case scalar_op::expm1:
      return accurate_expm1(a);
    case scalar_op::log:
      return accurate_log(a);
    case scalar_op::log2:
      return scaled_log2(lanes{a}, 1, 0).value;
    case scalar_op::log10:
      return scaled_log2(lanes{a}, 0x1.344p-2f, 0x1.3509f8p-18f).value;
    case scalar_op::log1p:
      return accurate_log1p(a);
    case scalar_op::sin:
    case scalar_op::cos:
      if (a.type.components > 1) return emit_by_component(owner, node, {&a, 1});
      return accurate_sin_cos(a, node.op == scalar_op::sin ? 0 : 1);
    case scalar_op::tanh:
      return accurate_tanh(a);
    case scalar_op::tan:
      if (a.type.components > 1) return emit_by_component(owner, node, {&a, 1});
      return binary(binary_op::divide, accurate_sin_cos(a, 0), accurate_sin_cos(a, 1));
    case scalar_op::asin:
    case scalar_op::acos:
      return accurate_arc(a, node.op == scalar_op::asin);
    case scalar_op::atan:
      return accurate_atan2(a, float_like(a, 1));
    case scalar_op::sinh:
      return accurate_sinh(a);
    case scalar_op::cosh:
      return accurate_cosh(a);
    case scalar_op::asinh:
      return accurate_asinh(a);
    case scalar_op::acosh:
      return accurate_acosh(a);
    case scalar_op::atanh:
      return accurate_atanh(a);
    case scalar_op::erf:
      return accurate_erf(a);
    case scalar_op::erfc:
      return accurate_erfc(a);
    case scalar_op::tgamma:
      return accurate_tgamma(a);
    case scalar_op::lgamma:
      return accurate_lgamma(a);
    case scalar_op::digamma:
      return accurate_digamma(a);
    case scalar_op::trigamma:
      return accurate_trigamma(a);
    case scalar_op::floor:
      return function(spirv::glsl::floor);
    case scalar_op::ceil:
      return function(spirv::glsl::ceil);
    case scalar_op::round:
      return function(spirv::glsl::round_even);
    case scalar_op::trunc:
      return function(spirv::glsl::trunc);
    case scalar_op::logical_not:
      return logical_not(a);
    case scalar_op::convert:
      if (real && is_integer(node.type)) return emit_truncated(a, node.type);
      if (a.type.kind == spirv::scalar_kind::boolean && is_float(node.type)) {
        const auto number = [&](double value) { return widened(literal(dtype::f32, value), a.type.components); };
        return emit_select(a, number(1), number(0));
      }
      return converted(a, value_type(node.type));
    case scalar_op::reinterpret:
      return a.type.kind == value_type(node.type).kind
                 ? a
                 : bitcast(widened(literal(node.type, 0), a.type.components).type, a);
    case scalar_op::add:
      if (is_float_zero(a)) return a.bits ? b : beside_zero(b).plus_zero();
      if (is_float_zero(b)) return b.bits ? a : beside_zero(a).plus_zero();
      return binary(binary_op::add, a, b);
    case scalar_op::subtract:
      if (is_float_zero(a)) return a.bits ? negate(b) : beside_zero(negate(b)).plus_zero();
      if (is_float_zero(b)) return b.bits ? beside_zero(a).plus_zero() : a;
      return binary(binary_op::subtract, a, b);
    case scalar_op::multiply:
      if (is_float_zero(a)) return beside_zero(b).times(a);
      if (is_float_zero(b)) return beside_zero(a).times(b);
      return binary(binary_op::multiply, a, b);
    case scalar_op::divide:
      if (!a.type.is_float()) return emit_integer_divide(a, b);
      if (is_float_zero(a)) return beside_zero(b).divides(a);
      if (is_float_zero(b)) {  // times an infinity of its sign
        return binary(binary_op::multiply, a, float_like(a, std::copysign(infinity, std::bit_cast<float>(b.bits))));
      }
      return binary(binary_op::divide, a, b);
    case scalar_op::bitwise_and:
      return binary(binary_op::bit_and, a, b);
    case scalar_op::bitwise_or:
      return binary(binary_op::bit_or, a, b);
    case scalar_op::bitwise_xor:
      return binary(binary_op::bit_xor, a, b);
    case scalar_op::shift_left:
    case scalar_op::shift_right:
      return emit_shift(a, b, node.op == scalar_op::shift_left);
    case scalar_op::copysign:
      return lanes{a}.with_sign_of({b}).value;
    case scalar_op::hypot:
      return accurate_hypot(a, b);
    case scalar_op::atan2:
      return accurate_atan2(a, b);
    case scalar_op::power:
      return emit_power(a, b);
    case scalar_op::minimum:
      return binary(binary_op::minimum, a, b);
    case scalar_op::maximum:
      return binary(binary_op::maximum, a, b);
    case scalar_op::less:  // a driver would know x < x, and so a literal zero that is not written beside_zero
      if (!a.is_literal() && a.id == b.id) return widened(literal(dtype::boolean, 0), a.type.components);
      return compare(comparison::less, a, b);
    case scalar_op::less_equal:
      return compare(comparison::less_equal, a, b);
    case scalar_op::equal:
      return compare(comparison::equal, a, b);
    case scalar_op::logical_and:
      return logical(spirv::op::logical_and, a, b);
    case scalar_op::logical_or:
      return logical(spirv::op::logical_or, a, b);
    case scalar_op::select:
      return emit_select(a, b, c);
    case scalar_op::argument:
    case scalar_op::constant:
    case scalar_op::row_sum:
    case scalar_op::row_max:
    case scalar_op::row_min:
    case scalar_op::row_product:
      break;
  }
  fail(error_category::internal, "scalar {} has no instruction", info(node.op).name);
}

}  // namespace detail

MEGANEURA_INLINE scalar_value emit(spirv::kernel& owner, const scalar_node& node,
                                   std::span<const scalar_value> operands) {
  if (operands.empty() || operands.size() > 3) {
    fail(error_category::internal, "scalar {} with {} operands", info(node.op).name, operands.size());
  }
  int width = 1;
  bool literals = true, mixed = false;
  for (const scalar_value& each : operands) {
    mixed = mixed || owner.parts_of(each) != nullptr;
    width = std::max(width, static_cast<int>(each.type.components));
    literals = literals && each.is_literal();
  }
  double numbers[3]{};
  scalar_value wide[3];
  for (std::size_t i = 0; i < operands.size(); ++i) {
    wide[i] = widened(operands[i], width);
    if (literals) numbers[i] = *literal_value(operands[i]);
  }
  if (literals) {
    const dtype from = detail::dtype_of(operands[0]);
    return widened(literal(node.type, evaluate(node.op, numbers[0], numbers[1], numbers[2], node.type, from)), width);
  }
  if (mixed) return detail::emit_by_component(owner, node, operands);  // see beside_zero
  // Rounded after every operation: a value comes out the same in each kernel that computes it, fused or not.
  scalar_value result;
  owner.precise([&] { result = detail::emit_operation(owner, node, wide[0], wide[1], wide[2]); });
  return result;
}

MEGANEURA_INLINE scalar_value combine(spirv::kernel& owner, scalar_op reduction, const scalar_value& a,
                                      const scalar_value& b) {
  const scalar_value operands[] = {a, b};
  return emit(owner, {.op = info(reduction).step, .type = detail::dtype_of(a)}, operands);
}

MEGANEURA_INLINE scalar_value identity(scalar_op reduction, dtype type) {
  return literal(type, evaluate(scalar_op::convert, info(reduction).start, 0, 0, type));
}

MEGANEURA_INLINE std::vector<scalar_value> emit_nodes(spirv::kernel& owner, const scalar_program& program,
                                                      const std::function<scalar_value(int)>& argument) {
  std::vector<scalar_value> values;
  values.reserve(program.nodes.size());
  for (const scalar_node& node : program.nodes) {
    if (node.op == scalar_op::argument) {
      values.push_back(argument(static_cast<int>(node.value)));
    } else if (node.op == scalar_op::constant) {
      values.push_back(literal(node.type, node.value));
    } else {
      scalar_value operands[3];
      const int arity = info(node.op).arity;
      for (int i = 0; i < arity; ++i) operands[i] = values[node.operands[i]];
      values.push_back(emit(owner, node, {operands, static_cast<std::size_t>(arity)}));
    }
  }
  return values;
}

MEGANEURA_INLINE scalar_value emit(spirv::kernel& owner, const scalar_program& program,
                                   const std::function<scalar_value(int)>& argument) {
  return emit_nodes(owner, program, argument).back();
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
