// SPDX-License-Identifier: MIT
// Arithmetic of floats and their bits for functions that are written out: C++ operators over emitted values.
#pragma once
#include <meganeura/spirv/kernel.hpp>

#include <cstdint>
#include <initializer_list>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

using spirv::untyped::binary_op;
using spirv::untyped::comparison;

/// A float or u32 of any number of components with C++ operators; numbers are repeated.
struct lanes {
  spirv::untyped::operand value;

  [[nodiscard]] lanes like(float number) const { return {spirv::untyped::float_like(value, number)}; }
  [[nodiscard]] lanes word(std::uint32_t bits) const { return {spirv::untyped::word_like(value, bits)}; }
  [[nodiscard]] lanes bits() const { return {spirv::untyped::bitcast(bits_type(), value)}; }
  [[nodiscard]] lanes as_float() const { return {spirv::untyped::bitcast(float_type(), value)}; }
  [[nodiscard]] lanes to_float() const { return {spirv::untyped::convert(float_type(), value)}; }
  /// The first 12 bits of the number: a product of two such is exact.
  [[nodiscard]] lanes head() const { return with(binary_op::bit_and, bits(), word(0xfffff000u)).as_float(); }
  [[nodiscard]] lanes function(spirv::glsl code) const { return {spirv::untyped::math(code, value.type, {value})}; }
  [[nodiscard]] lanes abs() const { return with(binary_op::bit_and, bits(), word(0x7fffffffu)).as_float(); }
  /// `other`, or `nan` where this is one.
  [[nodiscard]] lanes or_if_nan(const lanes& other, const lanes& nan) const {
    return word(0x7f800000u).if_less(abs().bits(), nan, other);
  }
  [[nodiscard]] lanes if_less(const lanes& limit, const lanes& yes, const lanes& no) const {
    return {spirv::untyped::select(spirv::untyped::compare(comparison::less, value, limit.value), yes.value, no.value)};
  }

  /// This, but at most `limit`, or at least; a NaN stays one.
  [[nodiscard]] lanes at_most(float limit) const { return like(limit).if_less(*this, like(limit), *this); }
  [[nodiscard]] lanes at_least(float limit) const { return if_less(like(limit), like(limit), *this); }
  [[nodiscard]] lanes with_sign_of(const lanes& other) const {
    const lanes sign = with(binary_op::bit_and, other.bits(), word(0x80000000u));
    return with(binary_op::bit_or, with(binary_op::bit_and, bits(), word(0x7fffffffu)), sign).as_float();
  }

  [[nodiscard]] static lanes with(binary_op code, const lanes& a, const lanes& b) {
    return {spirv::untyped::binary(code, a.value, b.value)};
  }
  [[nodiscard]] friend lanes operator+(const lanes& a, const lanes& b) { return with(binary_op::add, a, b); }
  [[nodiscard]] friend lanes operator-(const lanes& a, const lanes& b) { return with(binary_op::subtract, a, b); }
  [[nodiscard]] friend lanes operator*(const lanes& a, const lanes& b) { return with(binary_op::multiply, a, b); }
  [[nodiscard]] friend lanes operator/(const lanes& a, const lanes& b) { return with(binary_op::divide, a, b); }
  [[nodiscard]] friend lanes operator+(const lanes& a, float b) { return a + a.like(b); }
  [[nodiscard]] friend lanes operator-(const lanes& a, float b) { return a - a.like(b); }
  [[nodiscard]] friend lanes operator*(const lanes& a, float b) { return a * a.like(b); }

 private:
  [[nodiscard]] spirv::data_type bits_type() const { return {spirv::scalar_kind::u32, value.type.components}; }
  [[nodiscard]] spirv::data_type float_type() const { return {spirv::scalar_kind::f32, value.type.components}; }
};

/// coefficients[0] at^n + .. + coefficients[n]
[[nodiscard]] inline lanes polynomial(const lanes& at, std::initializer_list<float> coefficients) {
  lanes sum = at.like(*coefficients.begin());
  for (const float* c = coefficients.begin() + 1; c != coefficients.end(); ++c) sum = sum * at + *c;
  return sum;
}

/// 2^n for whole -126 <= n <= 128, which is infinity.
[[nodiscard]] inline lanes power_of_two(const lanes& n) {
  const spirv::data_type word{spirv::scalar_kind::u32, n.value.type.components};
  const lanes biased{spirv::untyped::convert(word, (n + 127.0f).value)};  // a whole number below 2^8
  return lanes::with(binary_op::shift_left, biased, n.word(23)).as_float();
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
