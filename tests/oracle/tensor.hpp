// SPDX-License-Identifier: MIT
// Tensors of the oracle: a dtype, a shape and one value an element, whatever number type the oracle computes in.
#pragma once
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/shape.hpp>

#include <oracle/prime_field.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::oracle {

/// Integers live in Real as well: those beyond 2^24 need Real = double to stay exact.
template <class Real>
struct tensor {
  dtype type = dtype::f32;
  shape extents;
  std::vector<Real> values;

  tensor() = default;
  explicit tensor(const shape& size, dtype kind = dtype::f32, Real fill = Real(0.0))
      : type(kind), extents(size), values(static_cast<std::size_t>(size.elements()), fill) {}
  tensor(const shape& size, std::vector<Real> list, dtype kind = dtype::f32)
      : type(kind), extents(size), values(std::move(list)) {}

  [[nodiscard]] Real& operator[](std::int64_t flat) { return values[static_cast<std::size_t>(flat)]; }
  [[nodiscard]] const Real& operator[](std::int64_t flat) const { return values[static_cast<std::size_t>(flat)]; }
};

/// By leaf or output name.
template <class Real>
using tensors = std::map<std::string, tensor<Real>>;

/// How the bits of a float lie, below its sign: told again here, for the library's table to be compared with.
struct float_layout {
  int exponent_bits, fraction_bits;
  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] int least_exponent() const { return 1 - bias(); }
};
[[nodiscard]] inline float_layout layout_of(dtype type) {
  if (type == dtype::f32) return {8, 23};
  if (type == dtype::f16) return {5, 10};
  if (type == dtype::bf16) return {8, 7};
  fail(error_category::internal, "oracle: the bits of {} were asked for", to_string(type));
}

/// The nearest number of a float dtype, ties to even; beyond the greatest infinity.
[[nodiscard]] inline double nearest(double value, dtype type) {
  if (value == 0 || !std::isfinite(value)) return value;
  const float_layout l = layout_of(type);
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(value), l.least_exponent()) - l.fraction_bits);
  const double rounded = std::nearbyint(value / quantum) * quantum;
  return std::ilogb(rounded) > l.bias() ? std::copysign(INFINITY, value) : rounded;
}
[[nodiscard]] inline double round_to_half(double value) { return nearest(value, dtype::f16); }

/// The number of an element's bits, and the bits of the nearest number.
[[nodiscard]] inline double value_of_bits(std::uint32_t bits, dtype type) {
  if (type == dtype::i32) return static_cast<std::int32_t>(bits);
  if (type == dtype::i8) return static_cast<std::int8_t>(bits);
  if (!is_float(type)) return bits;
  const float_layout l = layout_of(type);
  const int exponent = static_cast<int>(bits >> l.fraction_bits) & ((1 << l.exponent_bits) - 1);
  const int fraction = static_cast<int>(bits & ((1u << l.fraction_bits) - 1));
  const double sign = (bits >> (l.exponent_bits + l.fraction_bits) & 1) != 0 ? -1 : 1;
  if (exponent > 2 * l.bias()) return std::copysign(fraction != 0 ? NAN : INFINITY, sign);
  const int whole = exponent == 0 ? fraction : fraction + (1 << l.fraction_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - l.bias() - l.fraction_bits);
}
[[nodiscard]] inline double half_value(std::uint16_t bits) { return value_of_bits(bits, dtype::f16); }
[[nodiscard]] inline std::uint32_t bits_of_value(double value, dtype type) {
  if (!is_float(type)) return static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
  const float_layout l = layout_of(type);
  const double size = std::fabs(nearest(value, type));
  const std::uint32_t sign = std::uint32_t{std::signbit(value)} << (l.exponent_bits + l.fraction_bits);
  const std::uint32_t infinity = ((1u << l.exponent_bits) - 1) << l.fraction_bits;
  if (std::isnan(size)) return sign | infinity | 1u << (l.fraction_bits - 1);
  if (std::isinf(size)) return sign | infinity;
  const int exponent = size == 0 ? l.least_exponent() : std::max(std::ilogb(size), l.least_exponent());
  const auto whole = static_cast<std::uint32_t>(std::ldexp(size, l.fraction_bits - exponent));  // its leading 1 carries
  return sign | ((static_cast<std::uint32_t>(exponent + l.bias() - 1) << l.fraction_bits) + whole);
}

template <class Real>
[[nodiscard]] std::int64_t to_integer(Real value) {
  if constexpr (std::is_same_v<Real, prime_field>) {
    return value.integer();
  } else {
    return static_cast<std::int64_t>(value);
  }
}

/// What a tensor of `type` keeps of a value.
template <class Real>
[[nodiscard]] Real stored(Real value, dtype type) {
  if constexpr (!std::is_same_v<Real, prime_field>) {
    if (is_narrow(type) && is_float(type)) return static_cast<Real>(nearest(static_cast<double>(value), type));
    if (type == dtype::u8) return static_cast<Real>(static_cast<std::uint8_t>(to_integer(value)));
    if (type == dtype::i8) return static_cast<Real>(static_cast<std::int8_t>(to_integer(value)));
  }
  return value;
}

template <class To, class From>
[[nodiscard]] tensor<To> converted(const tensor<From>& from) {
  tensor<To> result(from.extents, from.type);
  for (std::size_t i = 0; i < from.values.size(); ++i) result.values[i] = static_cast<To>(from.values[i]);
  return result;
}

/// Uniform in [low, high), the same on every machine; integers for i32 and u32; any residue in the prime field.
template <class Real = double>
[[nodiscard]] tensor<Real> random_tensor(const shape& extents, std::uint64_t seed, double low = -1, double high = 1,
                                         dtype type = dtype::f32);

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
