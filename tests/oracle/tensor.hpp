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

/// The nearest f16 value, ties to even; beyond 65504 infinity.
[[nodiscard]] inline double round_to_half(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(value), -14) - 10);
  const double rounded = std::nearbyint(value / quantum) * quantum;
  return std::fabs(rounded) > 65504 ? std::copysign(INFINITY, value) : rounded;
}

/// The value of an f16 by its bits.
[[nodiscard]] inline double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
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
    if (type == dtype::f16) return static_cast<Real>(round_to_half(static_cast<double>(value)));
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
