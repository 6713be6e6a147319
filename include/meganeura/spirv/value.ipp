// SPDX-License-Identifier: MIT
// Definitions of value.hpp: literal folding, instruction choice, and the functions drivers do not compute accurately.
#pragma once
#include <meganeura/spirv/kernel.hpp>

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::spirv {

namespace untyped {

[[nodiscard]] inline operand literal_float(data_type type, float value) {
  return literal_operand(type, std::bit_cast<word>(value));
}

MEGANEURA_INLINE word literal_bits(scalar_kind kind, double value) {
  if (kind == scalar_kind::boolean) return value != 0 ? 1 : 0;
  if (!is_integer(kind)) return std::bit_cast<word>(static_cast<float>(value));
  // -1 as u32 is more often a mistake in index arithmetic than a mask.
  const word bits = info(kind).bits;
  const bool is_signed = info(kind).is_signed;
  const double above = std::exp2(static_cast<double>(is_signed ? bits - 1 : bits)), least = is_signed ? -above : 0;
  if (!(value >= least && value < above)) {
    fail(error_category::invalid_argument, "the number {} does not fit {} of {} bits", value,
         is_signed ? "a signed integer" : "an unsigned integer", bits);
  }
  return is_signed ? static_cast<word>(static_cast<std::int32_t>(value)) : static_cast<word>(value);
}

// The kernel that owns either operand; both literal is handled by the callers.
template <class... Operands>
[[nodiscard]] kernel& owner_of(const Operands&... operands) {
  kernel* owner = nullptr;
  ((owner = owner == nullptr ? operands.owner : owner), ...);
  if (owner == nullptr)
    fail(error_category::invalid_argument, "this operation needs at least one value that is not a literal");
  return *owner;
}

[[nodiscard]] inline operand emit_pure(kernel& owner, op code, data_type type,
                                       std::initializer_list<operand> operands) {
  words parts;
  auto& builder = owner.builder();
  const bool converts = code == op::u_convert || code == op::s_convert || code == op::f_convert;
  if (!converts) builder.require_arithmetic(type.kind);
  for (const operand& each : operands) {
    if (!converts) builder.require_arithmetic(each.type.kind);
    parts.push_back(owner.use(each));
  }
  const bool exact = owner.is_precise() && type.is_float() && code >= op::f_negate && code <= op::f_div;
  return owner.wrap(type, builder.emit_pure(code, builder.type(type), parts, exact));
}

[[nodiscard]] inline word fold_unsigned(binary_op code, word a, word b) {
  switch (code) {
    case binary_op::add:
      return a + b;
    case binary_op::subtract:
      return a - b;
    case binary_op::multiply:
      return a * b;
    case binary_op::divide:
      return a / b;
    case binary_op::modulo:
      return a % b;
    case binary_op::bit_and:
      return a & b;
    case binary_op::bit_or:
      return a | b;
    case binary_op::bit_xor:
      return a ^ b;
    case binary_op::shift_left:
      return a << (b & 31u);
    case binary_op::shift_right:
      return a >> (b & 31u);
    case binary_op::minimum:
      return a < b ? a : b;
    case binary_op::maximum:
      return a > b ? a : b;
  }
  return 0;
}

[[nodiscard]] inline word fold_signed(binary_op code, word a, word b) {
  const auto x = static_cast<std::int32_t>(a);
  const auto y = static_cast<std::int32_t>(b);
  switch (code) {
    case binary_op::divide:
      return static_cast<word>(static_cast<std::int64_t>(x) / y);
    case binary_op::modulo:
      return static_cast<word>(static_cast<std::int64_t>(x) % y);
    case binary_op::shift_right:
      return static_cast<word>(x >> (b & 31u));
    case binary_op::minimum:
      return x < y ? a : b;
    case binary_op::maximum:
      return x > y ? a : b;
    case binary_op::add:
    case binary_op::subtract:
    case binary_op::multiply:
    case binary_op::bit_and:
    case binary_op::bit_or:
    case binary_op::bit_xor:
    case binary_op::shift_left:
      break;
  }
  return fold_unsigned(code, a, b);  // two's complement: the same bits
}

[[nodiscard]] inline float fold_float(binary_op code, float a, float b) {
  switch (code) {
    case binary_op::add:
      return a + b;
    case binary_op::subtract:
      return a - b;
    case binary_op::multiply:
      return a * b;
    case binary_op::divide:
      return a / b;
    case binary_op::minimum:
      return std::isnan(a) || a < b ? a : b;
    case binary_op::maximum:
      return std::isnan(a) || a > b ? a : b;
    case binary_op::modulo:
    case binary_op::bit_and:
    case binary_op::bit_or:
    case binary_op::bit_xor:
    case binary_op::shift_left:
    case binary_op::shift_right:
      break;
  }
  fail(error_category::internal, "operation {} of words was asked for on floats", static_cast<int>(code));
}

[[nodiscard]] inline std::optional<operand> fold_literals(binary_op code, const operand& a, const operand& b) {
  if (!a.is_literal() || !b.is_literal()) return {};
  const bool divides = code == binary_op::divide || code == binary_op::modulo;
  if (!a.type.is_float() && divides && b.bits == 0)
    fail(error_category::invalid_argument, "integer division of the literal {} by zero", a.bits);
  if (is_integer(a.type.kind)) {
    const word bits =
        info(a.type.kind).is_signed ? fold_signed(code, a.bits, b.bits) : fold_unsigned(code, a.bits, b.bits);
    return literal_operand(a.type, detail::rounded(a.type.kind, bits));
  }
  const float result = fold_float(code, std::bit_cast<float>(a.bits), std::bit_cast<float>(b.bits));
  return literal_float(a.type, result);
}

// x op literal for integers: identities, zeros, and shifts and masks for powers of two.
[[nodiscard]] inline std::optional<operand> simplify_integer(binary_op code, const operand& x, word literal) {
  const bool is_unsigned = x.type.kind == scalar_kind::u32;
  const bool power = is_unsigned && std::has_single_bit(literal);
  const auto small = [&](word bits) { return literal_operand(x.type, bits); };
  const auto exponent = [&] { return small(static_cast<word>(std::countr_zero(literal))); };
  switch (code) {
    case binary_op::add:
    case binary_op::subtract:
    case binary_op::bit_or:
    case binary_op::bit_xor:
    case binary_op::shift_left:
    case binary_op::shift_right:
      if (literal == 0) return x;
      return {};
    case binary_op::multiply:
      if (literal == 0) return small(0);
      if (literal == 1) return x;
      if (power) return emit_pure(owner_of(x), op::shift_left_logical, x.type, {x, exponent()});
      return {};
    case binary_op::divide:
      if (literal == 0)
        fail(error_category::invalid_argument, "integer division of a kernel value by the literal zero");
      if (literal == 1) return x;
      if (power) return emit_pure(owner_of(x), op::shift_right_logical, x.type, {x, exponent()});
      return {};
    case binary_op::modulo:
      if (literal == 0)
        fail(error_category::invalid_argument, "integer remainder of a kernel value by the literal zero");
      if (literal == 1) return small(0);
      if (power) return emit_pure(owner_of(x), op::bitwise_and, x.type, {x, small(literal - 1)});
      return {};
    case binary_op::bit_and:
      if (literal == 0) return small(0);
      if (literal == detail::rounded(x.type.kind, ~0u)) return x;
      return {};
    case binary_op::minimum:
    case binary_op::maximum:
      return {};
  }
  return {};
}

[[nodiscard]] inline bool is_commutative(binary_op code) {
  return code == binary_op::add || code == binary_op::multiply || code == binary_op::bit_and ||
         code == binary_op::bit_or || code == binary_op::bit_xor;
}

[[nodiscard]] inline std::optional<operand> simplify(binary_op code, const operand& a, const operand& b) {
  if (auto folded = fold_literals(code, a, b)) return folded;
  if (!b.is_literal()) {
    if (a.is_literal() && is_commutative(code)) return simplify(code, b, a);
    const bool keeps_zero = code == binary_op::divide || code == binary_op::modulo || code == binary_op::shift_left ||
                            code == binary_op::shift_right;  // 0 / x, 0 % x, 0 << x, 0 >> x
    if (a.is_literal() && !a.type.is_float() && a.bits == 0 && keeps_zero) return a;
    return {};
  }
  if (!a.type.is_float()) return simplify_integer(code, a, b.bits);
  const float literal = std::bit_cast<float>(b.bits);
  // x + 0 is left alone: it turns -0 into +0.
  if (literal == 1.0f && (code == binary_op::multiply || code == binary_op::divide)) return a;
  return {};
}

// FMin and FMax leave the result open when an operand is a NaN, and NMin and NMax drop it; here it is the result. The
// right one is taken if it wins or is a NaN, and the left one if that is. The test for NaN is spelled out: NVIDIA's
// driver 580 takes `select(!(x <= c), x, c)` for a maximum and drops a NaN.
[[nodiscard]] inline operand float_extremum(binary_op code, const operand& lhs, const operand& rhs) {
  const bool is_maximum = code == binary_op::maximum;
  if (lhs.is_literal()) return float_extremum(code, rhs, lhs);
  if (rhs.is_literal()) {
    if (std::isnan(std::bit_cast<float>(rhs.bits))) return rhs;
    const operand wins = compare(is_maximum ? comparison::greater : comparison::less, lhs, rhs);
    return select(logical(op::logical_or, wins, is_nan(lhs)), lhs, rhs);
  }
  const operand loses = compare(is_maximum ? comparison::less : comparison::greater, lhs, rhs);
  return select(logical(op::logical_or, loses, is_nan(rhs)), rhs, lhs);
}

MEGANEURA_INLINE operand binary(binary_op code, const operand& lhs, const operand& rhs) {
  if (auto simple = simplify(code, lhs, rhs)) return *simple;
  kernel& owner = owner_of(lhs, rhs);
  const int column = lhs.type.is_float() ? 0 : !info(lhs.type.kind).is_signed ? 1 : 2;
  if (code == binary_op::minimum || code == binary_op::maximum) {
    if (column == 0) return float_extremum(code, lhs, rhs);
    constexpr glsl table[2][2] = {{glsl::u_min, glsl::s_min}, {glsl::u_max, glsl::s_max}};
    return math(table[code == binary_op::maximum ? 1 : 0][column - 1], lhs.type, {lhs, rhs});
  }
  if (code == binary_op::modulo && column == 2) {  // OpSRem of a negative operand is undefined in Vulkan
    return binary(binary_op::subtract, lhs, binary(binary_op::multiply, binary(binary_op::divide, lhs, rhs), rhs));
  }
  constexpr op table[][3] = {{op::f_add, op::i_add, op::i_add},
                             {op::f_sub, op::i_sub, op::i_sub},
                             {op::f_mul, op::i_mul, op::i_mul},
                             {op::f_div, op::u_div, op::s_div},
                             {op::u_mod, op::u_mod, op::u_mod},
                             {op::bitwise_and, op::bitwise_and, op::bitwise_and},
                             {op::bitwise_or, op::bitwise_or, op::bitwise_or},
                             {op::bitwise_xor, op::bitwise_xor, op::bitwise_xor},
                             {op::shift_left_logical, op::shift_left_logical, op::shift_left_logical},
                             {op::shift_right_logical, op::shift_right_logical, op::shift_right_arithmetic}};
  return emit_pure(owner, table[static_cast<int>(code)][column], lhs.type, {lhs, rhs});
}

MEGANEURA_INLINE operand compare(comparison code, const operand& lhs, const operand& rhs) {
  const data_type result{scalar_kind::boolean, lhs.type.components};
  if (lhs.is_literal() && rhs.is_literal()) {
    const bool is_signed = info(lhs.type.kind).is_signed;
    const auto number = [&](const operand& x) -> double {
      if (x.type.is_float()) return static_cast<double>(std::bit_cast<float>(x.bits));
      return is_signed ? static_cast<double>(static_cast<std::int32_t>(x.bits)) : static_cast<double>(x.bits);
    };
    const double a = number(lhs);
    const double b = number(rhs);
    const bool outcomes[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    return literal_operand(result, outcomes[static_cast<int>(code)] ? 1u : 0u);
  }
  const int column = lhs.type.is_float() ? 0 : !info(lhs.type.kind).is_signed ? 1 : 2;
  constexpr op table[][3] = {{op::f_ord_equal, op::i_equal, op::i_equal},
                             {op::f_unord_not_equal, op::i_not_equal, op::i_not_equal},
                             {op::f_ord_less_than, op::u_less_than, op::s_less_than},
                             {op::f_ord_less_than_equal, op::u_less_than_equal, op::s_less_than_equal},
                             {op::f_ord_greater_than, op::u_greater_than, op::s_greater_than},
                             {op::f_ord_greater_than_equal, op::u_greater_than_equal, op::s_greater_than_equal}};
  return emit_pure(owner_of(lhs, rhs), table[static_cast<int>(code)][column], result, {lhs, rhs});
}

MEGANEURA_INLINE operand is_nan(const operand& value) {
  const data_type result{scalar_kind::boolean, value.type.components};
  if (!value.is_literal()) return emit_pure(*value.owner, op::is_nan, result, {value});
  return literal_operand(result, std::isnan(std::bit_cast<float>(value.bits)) ? 1u : 0u);
}

MEGANEURA_INLINE operand negate(const operand& value) {
  if (value.is_literal()) {
    if (value.type.is_float()) return literal_operand(value.type, value.bits ^ 0x80000000u);
    return literal_operand(value.type, detail::rounded(value.type.kind, 0u - value.bits));
  }
  return emit_pure(*value.owner, value.type.is_float() ? op::f_negate : op::s_negate, value.type, {value});
}

MEGANEURA_INLINE operand bit_not(const operand& value) {
  if (value.is_literal()) return literal_operand(value.type, detail::rounded(value.type.kind, ~value.bits));
  return emit_pure(*value.owner, op::bitwise_not, value.type, {value});
}

MEGANEURA_INLINE operand logical(op code, const operand& lhs, const operand& rhs) {
  if (lhs.is_literal() && !rhs.is_literal()) return logical(code, rhs, lhs);
  if (rhs.is_literal()) {
    const bool known = rhs.bits != 0;
    if (code == op::logical_and) return known ? lhs : rhs;
    if (code == op::logical_or) return known ? rhs : lhs;
    return known == (code == op::logical_equal) ? lhs : logical_not(lhs);
  }
  return emit_pure(owner_of(lhs, rhs), code, lhs.type, {lhs, rhs});
}

MEGANEURA_INLINE operand logical_not(const operand& value) {
  if (value.is_literal()) return literal_operand(value.type, value.bits != 0 ? 0u : 1u);
  return emit_pure(*value.owner, op::logical_not, value.type, {value});
}

MEGANEURA_INLINE operand select(const operand& condition, const operand& yes, const operand& no) {
  if (condition.is_literal()) return condition.bits != 0 ? yes : no;
  return emit_pure(owner_of(condition, yes, no), op::select, yes.type, {condition, yes, no});
}

MEGANEURA_INLINE operand math(glsl code, data_type result, std::initializer_list<operand> arguments) {
  kernel* owner = nullptr;
  for (const operand& each : arguments) owner = owner == nullptr ? each.owner : owner;
  if (owner == nullptr)
    fail(error_category::invalid_argument, "a kernel function was called with literals only; compute it in C++");
  auto& builder = owner->builder();
  builder.require_arithmetic(result.kind);
  words parts{builder.glsl_std_450(), static_cast<word>(code)};
  for (const operand& each : arguments) parts.push_back(owner->use(each));
  return owner->wrap(result, builder.emit_pure(op::ext_inst, builder.type(result), parts));
}

MEGANEURA_INLINE operand unary(op code, data_type result, const operand& value) {
  return emit_pure(owner_of(value), code, result, {value});
}

// bf16 is the upper half of an f32.
[[nodiscard]] inline operand from_upper_half(const operand& half) {
  const operand bits = unary(op::u_convert, {scalar_kind::u32, half.type.components}, half);
  return bitcast({scalar_kind::f32, half.type.components}, binary(binary_op::shift_left, bits, word_like(bits, 16)));
}

// The bits of the nearest bf16 in the upper half of a word, anything below. Conversions of where bf16 is a type may
// round in either direction, and NVIDIA's driver 580 does.
[[nodiscard]] inline operand nearest_upper_half(const operand& x) {
  const operand bits = bitcast({scalar_kind::u32, x.type.components}, x);
  const auto number = [&](word value) { return word_like(x, value); };
  const operand odd = binary(binary_op::bit_and, binary(binary_op::shift_right, bits, number(16)), number(1));
  const operand rounded = binary(binary_op::add, bits, binary(binary_op::add, odd, number(0x7fff)));
  const operand size = binary(binary_op::bit_and, bits, number(0x7fffffffu));
  const operand quiet = binary(binary_op::bit_or, bits, number(0x00400000u));
  return select(compare(comparison::greater, size, number(0x7f800000u)), quiet, rounded);
}

[[nodiscard]] inline operand to_bf16(const operand& single) {
  const data_type result{scalar_kind::bf16, single.type.components};
  const operand bits = nearest_upper_half(single);
  if (!owner_of(single).builder().has_bfloat16())
    return unary(op::u_convert, result, binary(binary_op::shift_right, bits, word_like(single, 16)));
  const operand exact = binary(binary_op::bit_and, bits, word_like(single, 0xffff0000u));
  return unary(op::f_convert, result, bitcast(single.type, exact));
}

[[nodiscard]] inline operand convert_literal(data_type to, const operand& literal) {
  const data_type from = literal.type;
  const operand value = literal_operand(from, detail::rounded(from.kind, literal.bits));
  if (from.is_float() && !to.is_float()) {
    const double number = static_cast<double>(std::bit_cast<float>(value.bits));
    const double whole = std::isnan(number) ? 0 : std::trunc(number);
    return literal_operand(to, literal_bits(to.kind, whole));
  }
  if (from.is_float() == to.is_float()) return literal_operand(to, detail::rounded(to.kind, value.bits));
  const double number = info(from.kind).is_signed ? static_cast<double>(static_cast<std::int32_t>(value.bits))
                                                  : static_cast<double>(value.bits);
  return literal_operand(to, detail::rounded(to.kind, literal_bits(to.kind, number)));
}

// Between a narrow integer, or a bf16, and all that is not 32 bits wide there is that in the middle.
[[nodiscard]] inline operand convert_narrow(data_type to, const operand& value) {
  const scalar_kind from = value.type.kind;
  const auto middle = [&](scalar_kind kind) { return data_type{kind, to.components}; };
  if (from == scalar_kind::bf16) {
    const bool native = value.owner->builder().has_bfloat16();
    return convert(to, native ? unary(op::f_convert, middle(scalar_kind::f32), value) : from_upper_half(value));
  }
  if (to.kind == scalar_kind::bf16) return to_bf16(convert(middle(scalar_kind::f32), value));
  if (is_narrow_integer(from)) {
    const bool is_signed = info(from).is_signed;
    if (to.kind == scalar_kind::u32 || (to.kind == scalar_kind::i32 && is_signed))
      return unary(conversion_of_integers(from), to, value);
    const data_type wide = middle(is_signed ? scalar_kind::i32 : scalar_kind::u32);
    return convert(to, unary(conversion_of_integers(from), wide, value));
  }
  const bool is_wide = from == scalar_kind::u32 || from == scalar_kind::i32;
  const data_type wide = middle(info(to.kind).is_signed ? scalar_kind::i32 : scalar_kind::u32);
  return unary(conversion_of_integers(to.kind), to, is_wide ? value : convert(wide, value));
}

MEGANEURA_INLINE operand convert(data_type to, const operand& value) {
  const data_type from = value.type;
  if (from.kind == to.kind) return value;
  if (from.kind == scalar_kind::boolean && !is_narrow_integer(to.kind) && to.kind != scalar_kind::bf16) {
    return select(value, literal_operand(to, literal_bits(to.kind, 1)), literal_operand(to, 0));
  }
  if (value.is_literal() && to.kind == scalar_kind::boolean)
    return compare(comparison::not_equal, value, literal_operand(from, 0));
  if (value.is_literal()) return convert_literal(to, value);
  const auto is_special = [](scalar_kind kind) { return is_narrow_integer(kind) || kind == scalar_kind::bf16; };
  if (is_special(from.kind) || is_special(to.kind)) return convert_narrow(to, value);
  if (to.kind == scalar_kind::boolean) return compare(comparison::not_equal, value, literal_operand(from, 0));
  if (from.is_float() && to.is_float()) return unary(op::f_convert, to, value);
  if (from.is_float()) return unary(to.kind == scalar_kind::u32 ? op::convert_f_to_u : op::convert_f_to_s, to, value);
  if (to.is_float()) return unary(from.kind == scalar_kind::u32 ? op::convert_u_to_f : op::convert_s_to_f, to, value);
  return unary(op::bitcast, to, value);
}

MEGANEURA_INLINE operand bitcast(data_type to, const operand& value) {
  if (to == value.type) return value;
  if (to.bytes() != value.type.bytes())
    fail(error_category::invalid_argument, "bitcast between {} and {} bytes was asked for", value.type.bytes(),
         to.bytes());
  const bool same_parts = to.components == value.type.components && info(to.kind).bits == 32;
  if (value.is_literal() && same_parts) return literal_operand(to, value.bits);
  return unary(op::bitcast, to, value);
}

MEGANEURA_INLINE operand splat(data_type to, const operand& scalar) {
  if (scalar.is_literal()) return literal_operand(to, scalar.bits);
  if (to.components == 2) return emit_pure(*scalar.owner, op::composite_construct, to, {scalar, scalar});
  return emit_pure(*scalar.owner, op::composite_construct, to, {scalar, scalar, scalar, scalar});
}

MEGANEURA_INLINE operand extract(const operand& vector, word component) {
  const data_type scalar{vector.type.kind, 1};
  if (component >= vector.type.components)
    fail(error_category::invalid_argument, "component {} of a {}-vector was asked for", component,
         vector.type.components);
  if (vector.is_literal()) return literal_operand(scalar, vector.bits);
  kernel& owner = *vector.owner;
  owner.builder().require_arithmetic(scalar.kind);
  if (const operand* known = owner.parts_of(vector)) return known[component];
  const word parts[] = {owner.use(vector), component};
  return owner.wrap(scalar, owner.builder().emit_pure(op::composite_extract, owner.builder().type(scalar), parts));
}

MEGANEURA_INLINE operand composite(data_type type, std::initializer_list<operand> parts) {
  kernel* owner = nullptr;
  bool repeated = true;
  for (const operand& each : parts) {
    owner = owner == nullptr ? each.owner : owner;
    repeated = repeated && each.is_literal() && each.bits == parts.begin()->bits;
  }
  if (repeated) return literal_operand(type, parts.begin()->bits);
  if (owner == nullptr)
    fail(error_category::invalid_argument, "a vector of different literals needs at least one computed component");
  return emit_pure(*owner, op::composite_construct, type, parts);
}

// a = n pi/2 + r for 0 <= a <= 2^24 with |r| < 0.79; gives r and what n is modulo 4. pi/2 lies in three pieces of 12
// bits and a rest (Cody and Waite 1980), n in two numbers of 12 bits, `coarse` * 4096 and `fine`: their products are
// exact in f32, and so is every difference until r itself is rounded. Off by at most 2^-35 and a rounding of r.
[[nodiscard]] inline std::pair<f32, i32> reduce_quarter_turns(const f32& a) {
  constexpr float pieces[] = {0x1.92p+0f, 0x1.fb4p-12f, 0x1.444p-24f, 0x1.68c234p-39f};
  const f32 coarse = round(a * f32(0x1.45f306p-13f));  // 2 / pi / 4096
  const auto thousands = [&](int i) { return coarse * f32(4096 * pieces[i]); };
  f32 r = a - thousands(0) - thousands(1);
  const f32 third = thousands(2);
  const f32 fine = round((r - third) * f32(0x1.45f306p-1f));
  r = r - fine * f32(pieces[0]) - third - fine * f32(pieces[1]) - fine * f32(pieces[2]);
  return {r - (thousands(3) + fine * f32(pieces[3])), convert<i32>(fine)};
}

// Polynomials interpolate at Chebyshev nodes on |r| <= 0.8; relative errors 1.4e-8 (sine) and 1.4e-9 (cosine).
MEGANEURA_INLINE operand accurate_sin_cos(const operand& value, word quarter_turns) {
  const data_type type = value.type;
  if (value.is_literal()) {
    const double number = static_cast<double>(std::bit_cast<float>(value.bits));
    return literal_float(type, static_cast<float>(quarter_turns == 0 ? std::sin(number) : std::cos(number)));
  }
  if (type.components > 1)
    fail(error_category::unsupported, "sin and cos of a vector were asked for; apply them to its components");
  const f32 x(value), a = abs(x);
  kernel& owner = *value.owner;
  f32 r;
  i32 n;
  owner.precise([&] { std::tie(r, n) = reduce_quarter_turns(a); });
  const f32 z = r * r;
  const f32 sine = r + r * z * ((f32(-0.0001957844360731542f) * z + 0.00833270326256752f) * z - 0.166666641831398f);
  const f32 cosine =
      f32(1.0f) -
      (f32(0.5f) * z - z * z * ((f32(2.4538474463042803e-05f) * z - 0.0013888258254155517f) * z + 0.0416666641831398f));
  const u32 quadrant = bitcast<u32>(n) + quarter_turns;
  const f32 magnitude = select((quadrant & 1u) == 0u, sine, cosine);
  const u32 turned = quadrant << 30u;  // the sine of -x is minus that of x
  const u32 sign = (quarter_turns == 0 ? turned ^ bitcast<u32>(x) : turned) & 0x80000000u;
  const f32 result = bitcast<f32>(bitcast<u32>(magnitude) ^ sign);
  return select(a <= f32(0x1p24f), result, f32(std::numeric_limits<float>::quiet_NaN()));
}

// Odd polynomial below 0.648 (relative error 2e-8), above it 1 - 2/(exp(2|x|) + 1), which has no cancellation left
// there.
MEGANEURA_INLINE operand accurate_tanh(const operand& value) {
  if (value.is_literal()) return literal_float(value.type, std::tanh(std::bit_cast<float>(value.bits)));
  const data_type type = value.type;
  const auto number = [&](float x) { return literal_float(type, x); };
  const auto times = [&](const operand& a, const operand& b) { return binary(binary_op::multiply, a, b); };
  const auto plus = [&](const operand& a, const operand& b) { return binary(binary_op::add, a, b); };
  const operand z = times(value, value);
  operand series = number(-0.005937062669545412f);
  for (const float c : {0.02088334783911705f, -0.05382600799202919f, 0.13332599401474f, -0.333333283662796f})
    series = plus(times(series, z), number(c));
  const operand near_zero = plus(value, times(times(value, z), series));
  const operand magnitude = math(glsl::f_abs, type, {value});
  // exp is taken of at most 20: above 9.01 the result is 1 in f32 anyway.
  const operand doubled = binary(binary_op::minimum, plus(magnitude, magnitude), number(20.0f));
  const operand fraction =
      binary(binary_op::divide, number(2.0f), plus(math(glsl::exp, type, {doubled}), number(1.0f)));
  const operand far = times(binary(binary_op::subtract, number(1.0f), fraction), math(glsl::f_sign, type, {value}));
  const operand is_near = compare(comparison::less, magnitude, number(0.648f));
  const operand result = select(is_near, near_zero, far);
  return select(compare(comparison::greater, z, number(0)), result, value);  // else a zero, nearly one, or NaN
}

}  // namespace untyped

MEGANEURA_INLINE u32x2 multiply_extended(const u32& a, const u32& b) {
  if (a.is_literal() && b.is_literal())
    fail(error_category::invalid_argument, "multiply_extended was called with literals only; compute it in C++");
  kernel& owner = untyped::owner_of(a, b);
  auto& builder = owner.builder();
  const word scalar = builder.type(u32::static_type);
  const word members[] = {scalar, scalar};
  const word pair = builder.declare(op::type_struct, members, false);
  const word parts[] = {owner.use(a), owner.use(b)};
  const word product = builder.emit_pure(op::u_mul_extended, pair, parts);
  const word low[] = {product, 0};
  const word high[] = {product, 1};
  return vector(u32(owner.wrap(u32::static_type, builder.emit_pure(op::composite_extract, scalar, low))),
                u32(owner.wrap(u32::static_type, builder.emit_pure(op::composite_extract, scalar, high))));
}

}  // namespace meganeura::inline MEGANEURA_ABI::spirv
