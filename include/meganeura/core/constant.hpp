// SPDX-License-Identifier: MIT
// Constants as function arguments: one call takes sizes and axes known while compiling, and plain ones.
#pragma once
#include <meganeura/core/fixed_string.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// A value as a type; converts into it, also inside constant expressions.
template <auto Value>
struct fixed {
  static constexpr auto value = Value;
  // NOLINTNEXTLINE(google-explicit-constructor): a constant is usable as its value
  [[nodiscard]] constexpr operator decltype(Value)() const { return Value; }
};

/// softmax(x, c<-1>) is softmax<-1>(x).
template <auto Value>
inline constexpr fixed<Value> c{};

namespace detail {
template <class T>
inline constexpr bool is_fixed = false;
template <auto Value>
inline constexpr bool is_fixed<fixed<Value>> = true;
}  // namespace detail

/// A text as a function argument.
template <fixed_string Text>
struct fixed_text {
  static constexpr const symbol& name = detail::symbol_of<Text>;
  static constexpr const char* value = name.text;
  [[nodiscard]] constexpr operator const char*() const { return value; }  // NOLINT(google-explicit-constructor)
};
namespace detail {
template <fixed_string Text>
inline constexpr bool is_fixed<fixed_text<Text>> = true;
}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
