// SPDX-License-Identifier: MIT
// Layers that differ, one after the other, named by their place.
#pragma once
#include <meganeura/core/utility.hpp>
#include <meganeura/expr/module.hpp>

#include <cstddef>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <fixed_string Name, int Index, char Separator = '.'>
consteval auto numbered_text() {
  constexpr std::size_t before = sizeof(Name.text) - 1, dot = before == 0 ? 0 : 1;
  constexpr std::size_t digits = decimal(Index).digits();
  char text[before + dot + digits + 1]{};
  for (std::size_t i = 0; i < before; ++i) text[i] = Name.text[i];
  if (dot == 1) text[before] = Separator;
  for (std::size_t i = 0; i < digits; ++i) text[before + dot + i] = decimal(Index).text[i];
  return fixed_string(text);
}

// What is handed on along a row of modules, and how the next one is called: a fold over these nests no instantiations.
template <class X, class Call, bool HandsOn = true>
struct row_value {
  static constexpr bool hands_on = HandsOn;
  X x;
  const Call& call;
};
template <fixed_string Name, class Module>
struct in_row {};
template <class X, class Call, bool HandsOn, fixed_string Name, class Module>
constexpr auto operator>>(const row_value<X, Call, HandsOn>& from, in_row<Name, Module> next) {
  if constexpr (value<X>) {
    const auto result = from.call(from.x, next);
    return row_value<std::remove_const_t<decltype(result)>, Call, HandsOn>{result, from.call};
  } else {
    return row_value<X, Call, false>{from.x, from.call};
  }
}

}  // namespace detail

/// The name of a member of a row, for a call of its own: call<numbered<"layers", 12>, block>(x) has "layers.12", and
/// numbered<"layer", 12, '_'> is "layer_12".
template <fixed_string Name, int Index, char Separator = '.'>
inline constexpr auto numbered = detail::numbered_text<Name, Index, Separator>();

/// Modules one after the other, each applied to what the one before returned; further operands go to all alike, as in
/// `repeat`. Module i is named "Name.i", "" leaves the number: sequential<"layers", stem, block<64>, block<128>>(x).
/// errors: "only the last module may return several values", and those of `call`.
template <fixed_string Name, class... Modules, value X, value... Others>
[[nodiscard]] constexpr auto sequential(X x, Others... others) {
  static_assert(sizeof...(Modules) >= 1, "meganeura: sequential<name, modules...>(x): at least one module");
  const auto apply = [&]<fixed_string Full, class Module>(auto from, detail::in_row<Full, Module>) {
    return call<Full, Module>(from, others...);
  };
  const auto last = [&]<int... I>(std::integer_sequence<int, I...>) {
    return (detail::row_value<X, decltype(apply)>{x, apply} >> ... >> detail::in_row<numbered<Name, I>, Modules>());
  }
  (std::make_integer_sequence<int, static_cast<int>(sizeof...(Modules))>{});
  constexpr bool hands_on = decltype(last)::hands_on;
  static_assert(hands_on, "meganeura: sequential<name, modules...>(x): only the last module may return several values");
  if constexpr (hands_on) {
    return last.x;
  } else {
    return x;
  }
}

/// The loop over layers that differ: Module<0> to Module<Count - 1> as `sequential` has them. With
/// template <int I> struct block { static constexpr auto forward(value auto x) { return linear<"fc", sizes[I]>(x); } };
/// indexed<"layers", 4, block>(x) has "layers.0.fc.weight" and so on. `repeat` compiles faster where all are alike.
template <fixed_string Name, int Count, template <int> class Module, value X, value... Others>
[[nodiscard]] constexpr auto indexed(X x, Others... others) {
  static_assert(Count >= 1, "meganeura: indexed<name, count, module>(x): count must be at least 1");
  return [&]<int... I>(std::integer_sequence<int, I...>) { return sequential<Name, Module<I>...>(x, others...); }
  (std::make_integer_sequence<int, Count>{});
}

}  // namespace meganeura::inline MEGANEURA_ABI
