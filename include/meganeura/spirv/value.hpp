// SPDX-License-Identifier: MIT
// Typed values of the kernel language: integers of 8 to 32 bits, f32, f16, bf16, boolean and their 2- and 4-vectors,
// with C++ operators.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/spirv/builder.hpp>

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI::spirv {

class kernel;

/// The language below the typed one, for generators that learn the types of their values at run time. Operands of one
/// instruction have one type, but for the comments below. errors: those of kernel::use; invalid_argument for a function
/// of literals alone where there is no kernel to emit it.
namespace untyped {

/// What every typed value is underneath: an id in a kernel, or a literal that no kernel has seen yet. Literals are what
/// makes `x * 1` cost nothing and lets a generator written with plain numbers fold its own index arithmetic.
struct operand {
  kernel* owner = nullptr;
  word id = 0;
  data_type type;
  // Of a literal, repeated over all components: an f16 or bf16 as its f32 pattern, a narrow integer widened.
  word bits = 0;
  [[nodiscard]] bool is_literal() const { return owner == nullptr; }
};
[[nodiscard]] inline operand literal_operand(data_type type, word bits) { return {nullptr, 0, type, bits}; }
/// The number in the type of `like`, floats.
[[nodiscard]] inline operand float_like(const operand& like, float number) {
  return literal_operand(like.type, std::bit_cast<word>(number));
}
/// A u32 in each of the components that `like` has.
[[nodiscard]] inline operand word_like(const operand& like, word bits) {
  return literal_operand({scalar_kind::u32, like.type.components}, bits);
}

enum class binary_op : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  modulo,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  minimum,
  maximum
};
/// With a NaN on either side all but not_equal are false.
enum class comparison : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };

[[nodiscard]] operand binary(binary_op code, const operand& lhs, const operand& rhs);
[[nodiscard]] operand compare(comparison code, const operand& lhs, const operand& rhs);
[[nodiscard]] operand is_nan(const operand& value);
[[nodiscard]] operand negate(const operand& value);
[[nodiscard]] operand bit_not(const operand& value);
[[nodiscard]] operand logical(op code, const operand& lhs,
                              const operand& rhs);  // logical_and, logical_or, logical_equal, logical_not_equal
[[nodiscard]] operand logical_not(const operand& value);
[[nodiscard]] operand select(const operand& condition, const operand& yes, const operand& no);
[[nodiscard]] operand math(glsl code, data_type result, std::initializer_list<operand> arguments);
[[nodiscard]] operand unary(op code, data_type result, const operand& value);
[[nodiscard]] operand convert(data_type to, const operand& value);
[[nodiscard]] operand bitcast(data_type to, const operand& value);
[[nodiscard]] operand splat(data_type to, const operand& scalar);
[[nodiscard]] operand extract(const operand& vector, word component);
[[nodiscard]] operand composite(data_type type, std::initializer_list<operand> parts);
[[nodiscard]] operand accurate_sin_cos(const operand& x, word quarter_turns);
[[nodiscard]] operand accurate_tanh(const operand& x);
[[nodiscard]] word literal_bits(scalar_kind kind, double value);

}  // namespace untyped

namespace detail {

template <scalar_kind Kind>
concept floating_kind = Kind == scalar_kind::f32 || Kind == scalar_kind::f16;

template <class From, class Scalar>
concept gives_scalar = std::same_as<From, Scalar> || requires(const From& from) {
  { from.load() } -> std::same_as<Scalar>;
};

}  // namespace detail

/// A value a kernel computes. Copying copies the name of the value, not an instruction.
template <scalar_kind Kind, int Components>
class value : public untyped::operand {
 public:
  static constexpr scalar_kind kind = Kind;
  static constexpr int components = Components;
  static constexpr data_type static_type{Kind, static_cast<std::uint8_t>(Components)};
  using scalar = value<Kind, 1>;
  static constexpr bool is_float = detail::floating_kind<Kind>;
  static constexpr bool is_integer = spirv::is_integer(Kind);
  static constexpr bool is_boolean = Kind == scalar_kind::boolean;
  static constexpr bool is_number = is_float || is_integer;  // bf16 is only converted

  value() : value(literal(0)) {}
  explicit value(const untyped::operand& untyped) : operand(untyped) { type = static_type; }

  // A C++ number converts where it keeps its value: integers to anything, reals to floats only.
  template <std::integral Number>
    requires(!std::same_as<Number, bool> && !is_boolean)
  value(Number number) : value(literal(static_cast<double>(number))) {}  // NOLINT: implicit by design
  template <std::floating_point Number>
    requires(is_float || Kind == scalar_kind::bf16)
  value(Number number) : value(literal(static_cast<double>(number))) {}  // NOLINT: implicit by design
  template <std::same_as<bool> Number>
    requires(is_boolean)
  value(Number number) : value(literal(number ? 1 : 0)) {}  // NOLINT: implicit by design
  template <class Scalar>
    requires(Components > 1 && detail::gives_scalar<Scalar, scalar>)
  value(const Scalar& repeated)  // NOLINT: implicit by design; a scalar or a place that holds one
      : value(untyped::splat(static_type, static_cast<scalar>(repeated))) {}

  /// One component of a vector, by a C++ number.
  [[nodiscard]] scalar operator[](word component) const requires(Components > 1) {
    return scalar(untyped::extract(*this, component));
  }

  // Hidden friends, so that numbers and variables convert on either side.
  [[nodiscard]] friend value operator+(const value& a, const value& b) requires(is_number) {
    return make(untyped::binary_op::add, a, b);
  }
  [[nodiscard]] friend value operator-(const value& a, const value& b) requires(is_number) {
    return make(untyped::binary_op::subtract, a, b);
  }
  [[nodiscard]] friend value operator*(const value& a, const value& b) requires(is_number) {
    return make(untyped::binary_op::multiply, a, b);
  }
  [[nodiscard]] friend value operator/(const value& a, const value& b) requires(is_number) {
    return make(untyped::binary_op::divide, a, b);
  }
  [[nodiscard]] friend value operator%(const value& a, const value& b) requires(is_integer) {
    return make(untyped::binary_op::modulo, a, b);
  }
  [[nodiscard]] friend value operator&(const value& a, const value& b) requires(is_integer) {
    return make(untyped::binary_op::bit_and, a, b);
  }
  [[nodiscard]] friend value operator|(const value& a, const value& b) requires(is_integer) {
    return make(untyped::binary_op::bit_or, a, b);
  }
  [[nodiscard]] friend value operator^(const value& a, const value& b) requires(is_integer) {
    return make(untyped::binary_op::bit_xor, a, b);
  }
  [[nodiscard]] friend value operator<<(const value& a, const value& b) requires(is_integer) {
    return make(untyped::binary_op::shift_left, a, b);
  }
  [[nodiscard]] friend value operator>>(const value& a, const value& b) requires(is_integer) {
    return make(untyped::binary_op::shift_right, a, b);
  }
  [[nodiscard]] friend value operator-(const value& a) requires(is_number) { return value(untyped::negate(a)); }
  [[nodiscard]] friend value operator~(const value& a) requires(is_integer) { return value(untyped::bit_not(a)); }

  using truth = value<scalar_kind::boolean, Components>;
  [[nodiscard]] friend truth operator<(const value& a, const value& b) requires(is_number) {
    return truth(untyped::compare(untyped::comparison::less, a, b));
  }
  [[nodiscard]] friend truth operator<=(const value& a, const value& b) requires(is_number) {
    return truth(untyped::compare(untyped::comparison::less_equal, a, b));
  }
  [[nodiscard]] friend truth operator>(const value& a, const value& b) requires(is_number) {
    return truth(untyped::compare(untyped::comparison::greater, a, b));
  }
  [[nodiscard]] friend truth operator>=(const value& a, const value& b) requires(is_number) {
    return truth(untyped::compare(untyped::comparison::greater_equal, a, b));
  }
  [[nodiscard]] friend truth operator==(const value& a, const value& b) requires(is_number || is_boolean) {
    return truth(is_boolean ? untyped::logical(op::logical_equal, a, b)
                            : untyped::compare(untyped::comparison::equal, a, b));
  }
  [[nodiscard]] friend truth operator!=(const value& a, const value& b) requires(is_number || is_boolean) {
    return truth(is_boolean ? untyped::logical(op::logical_not_equal, a, b)
                            : untyped::compare(untyped::comparison::not_equal, a, b));
  }
  // Both sides are always evaluated: these are instructions, not control flow.
  [[nodiscard]] friend value operator&&(const value& a, const value& b) requires(is_boolean) {
    return value(untyped::logical(op::logical_and, a, b));
  }
  [[nodiscard]] friend value operator||(const value& a, const value& b) requires(is_boolean) {
    return value(untyped::logical(op::logical_or, a, b));
  }
  [[nodiscard]] friend value operator!(const value& a) requires(is_boolean) { return value(untyped::logical_not(a)); }

  [[nodiscard]] friend value select(const value<scalar_kind::boolean, Components>& condition, const value& yes,
                                    const value& no) {
    return value(untyped::select(condition, yes, no));
  }
  [[nodiscard]] friend value min(const value& a, const value& b) requires(is_number) {
    return make(untyped::binary_op::minimum, a, b);
  }
  [[nodiscard]] friend value max(const value& a, const value& b) requires(is_number) {
    return make(untyped::binary_op::maximum, a, b);
  }
  [[nodiscard]] friend value abs(const value& a) requires(is_number) {
    return is_integer && !info(Kind).is_signed ? a : math(is_float ? glsl::f_abs : glsl::s_abs, a);
  }
  [[nodiscard]] friend value sign(const value& a) requires(is_float || info(Kind).is_signed) {
    return math(is_float ? glsl::f_sign : glsl::s_sign, a);
  }
  [[nodiscard]] friend value exp(const value& a) requires(is_float) { return math(glsl::exp, a); }
  [[nodiscard]] friend value exp2(const value& a) requires(is_float) { return math(glsl::exp2, a); }
  [[nodiscard]] friend value log(const value& a) requires(is_float) { return math(glsl::log, a); }
  [[nodiscard]] friend value log2(const value& a) requires(is_float) { return math(glsl::log2, a); }
  [[nodiscard]] friend value sqrt(const value& a) requires(is_float) { return math(glsl::sqrt, a); }
  [[nodiscard]] friend value rsqrt(const value& a) requires(is_float) { return math(glsl::inverse_sqrt, a); }
  [[nodiscard]] friend value floor(const value& a) requires(is_float) { return math(glsl::floor, a); }
  [[nodiscard]] friend value ceil(const value& a) requires(is_float) { return math(glsl::ceil, a); }
  [[nodiscard]] friend value trunc(const value& a) requires(is_float) { return math(glsl::trunc, a); }
  /// To nearest, ties to even.
  [[nodiscard]] friend value round(const value& a) requires(is_float) { return math(glsl::round_even, a); }
  [[nodiscard]] friend value pow(const value& a, const value& b) requires(is_float) {
    return value(untyped::math(glsl::pow, static_type, {a, b}));
  }
  /// a * b + c; rounded once where the device has it, which the caller must not rely on.
  [[nodiscard]] friend value fma(const value& a, const value& b, const value& c) requires(is_float) {
    return value(untyped::math(glsl::fma, static_type, {a, b, c}));
  }
  /// Within 2^-22 of the result and 2^-35 for |x| <= 2^24, NaN beyond, where floats lie further apart than radians
  /// (Payne and Hanek's reduction would cost everybody). Drivers' own are only accurate in absolute terms.
  [[nodiscard]] friend value sin(const value& a) requires(Kind == scalar_kind::f32) {
    return value(untyped::accurate_sin_cos(a, 0));
  }
  [[nodiscard]] friend value cos(const value& a) requires(Kind == scalar_kind::f32) {
    return value(untyped::accurate_sin_cos(a, 1));
  }
  /// Relative error below 1e-6 everywhere; never overflows.
  [[nodiscard]] friend value tanh(const value& a) requires(Kind == scalar_kind::f32) {
    return value(untyped::accurate_tanh(a));
  }
  [[nodiscard]] friend truth is_nan(const value& a) requires(is_float) { return truth(untyped::is_nan(a)); }
  [[nodiscard]] friend truth is_inf(const value& a) requires(is_float) {
    return truth(untyped::unary(op::is_inf, truth::static_type, a));
  }

 private:
  [[nodiscard]] static value literal(double number) {
    untyped::operand result;
    result.type = static_type;
    result.bits = untyped::literal_bits(Kind, number);
    return value(result);
  }
  [[nodiscard]] static value make(untyped::binary_op code, const value& a, const value& b) {
    return value(untyped::binary(code, a, b));
  }
  [[nodiscard]] static value math(glsl code, const value& a) { return value(untyped::math(code, static_type, {a})); }
};

using boolean = value<scalar_kind::boolean, 1>;
using u32 = value<scalar_kind::u32, 1>;
using u32x2 = value<scalar_kind::u32, 2>;
using u32x4 = value<scalar_kind::u32, 4>;
using i32 = value<scalar_kind::i32, 1>;
using i32x2 = value<scalar_kind::i32, 2>;
using i32x4 = value<scalar_kind::i32, 4>;
using f32 = value<scalar_kind::f32, 1>;
using f32x2 = value<scalar_kind::f32, 2>;
using f32x4 = value<scalar_kind::f32, 4>;
using f16 = value<scalar_kind::f16, 1>;
using f16x2 = value<scalar_kind::f16, 2>;
using f16x4 = value<scalar_kind::f16, 4>;
// These are loaded, stored and converted wherever there is storage of their width; all else asks the device for Int8 or
// Int16, of bf16 unless it has that type.
using u8 = value<scalar_kind::u8, 1>;
using u8x2 = value<scalar_kind::u8, 2>;
using u8x4 = value<scalar_kind::u8, 4>;
using i8 = value<scalar_kind::i8, 1>;
using i8x2 = value<scalar_kind::i8, 2>;
using i8x4 = value<scalar_kind::i8, 4>;
using u16 = value<scalar_kind::u16, 1>;
using u16x2 = value<scalar_kind::u16, 2>;
using u16x4 = value<scalar_kind::u16, 4>;
using i16 = value<scalar_kind::i16, 1>;
using i16x2 = value<scalar_kind::i16, 2>;
using i16x4 = value<scalar_kind::i16, 4>;
using bf16 = value<scalar_kind::bf16, 1>;
using bf16x2 = value<scalar_kind::bf16, 2>;
using bf16x4 = value<scalar_kind::bf16, 4>;

template <class T>
concept kernel_value = std::same_as<T, value<T::kind, T::components>>;

/// By value, as C++ does: float to integer truncates, integers wrap around, boolean to number gives 0 or 1, f32 to f16
/// and bf16 rounds to nearest, ties to even.
template <kernel_value To, scalar_kind Kind, int Components>
[[nodiscard]] To convert(const value<Kind, Components>& from) {
  static_assert(To::components == Components, "meganeura: convert<T>(x): T and x must have equally many components");
  return To(untyped::convert(To::static_type, from));
}
/// The same bits as another type of the same size; f16x2 and u32, u8x4 and u32 included.
template <kernel_value To, scalar_kind Kind, int Components>
[[nodiscard]] To bitcast(const value<Kind, Components>& from) {
  return To(untyped::bitcast(To::static_type, from));
}
template <scalar_kind Kind>
[[nodiscard]] value<Kind, 2> vector(const value<Kind, 1>& x, const value<Kind, 1>& y) {
  return value<Kind, 2>(untyped::composite({Kind, 2}, {x, y}));
}
template <scalar_kind Kind>
[[nodiscard]] value<Kind, 4> vector(const value<Kind, 1>& x, const value<Kind, 1>& y, const value<Kind, 1>& z,
                                    const value<Kind, 1>& w) {
  return value<Kind, 4>(untyped::composite({Kind, 4}, {x, y, z, w}));
}
/// Two f32 as two f16 in one word (first in the low half), and back; no 16-bit feature is needed.
[[nodiscard]] inline u32 pack_half(const f32x2& x) {
  return u32(untyped::math(glsl::pack_half_2x16, u32::static_type, {x}));
}
[[nodiscard]] inline f32x2 unpack_half(const u32& x) {
  return f32x2(untyped::math(glsl::unpack_half_2x16, f32x2::static_type, {x}));
}
[[nodiscard]] inline u32 bit_count(const u32& x) { return u32(untyped::unary(op::bit_count, u32::static_type, x)); }
/// The upper and lower words of the 64-bit product, for counter-based random numbers.
[[nodiscard]] u32x2 multiply_extended(const u32& a, const u32& b);  // [0] low, [1] high

}  // namespace meganeura::inline MEGANEURA_ABI::spirv
