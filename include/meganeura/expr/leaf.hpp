// SPDX-License-Identifier: MIT
// Values without operands: parameters, states, constants, coordinates, random numbers.
#pragma once
#include <meganeura/expr/carrier.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// A literal as a template argument; Clang 14 takes floats only inside a class.
struct number {
  double value;
  // One constructor a type: in a template argument Clang 14 refuses float -> double before a constructor.
  constexpr number(double from) : value(from) {}
  constexpr number(float from) : value(static_cast<double>(from)) {}
  constexpr number(int from) : value(from) {}
  friend constexpr bool operator==(const number&, const number&) = default;
};

constexpr node_spec constant_spec(double value, dtype type) {
  return {.kind = primitive::constant, .type = type, .value = value};
}

constexpr typed_node constant_node(double value, dtype type) {
  typed_node result = make_node(primitive::constant, type, interned_shape<symbolic_shape{}>);
  result.value = value;
  return result;
}

// Its arguments are what a compiler shows.
template <dtype Type, number Value>
inline constexpr bool dtype_holds = holds(Type, Value.value);

template <number Value, dtype Type>
constexpr auto constant_leaf() {
  static_assert(dtype_holds<Type, Value>, "meganeura: constant<value, dtype>: " MEGANEURA_NOT_HELD);
  return apply<constant_node(Value.value, Type)>();
}

constexpr typed_node with_list(typed_node base, const integer_list* list) {
  base.list = list;
  return base;
}

template <primitive Kind, fixed_string Name, symbolic_shape Shape, dtype Type, const integer_list* Begin = nullptr,
          int Function = 0>
constexpr auto named_leaf() {
  static_assert(text_fits<Name, is_name(Name)>,
                "meganeura: parameter, state or random<name, dims>: a name is neither empty nor holds a zero byte");
  constexpr typed_node named = with_name(make_node(Kind, Type, interned_shape<Shape>), &symbol_of<Name>);
  return apply<with_list(with_function(named, Function), Begin)>();
}

template <symbolic_shape Shape, int Axis>
constexpr auto coordinate_leaf() {
  static_assert(axis_exists<Axis, Shape.rank>, "meganeura: coordinates<dims, axis>: the shape has no such axis");
  return apply<make_node(primitive::iota, dtype::i32, interned_shape<Shape>, normal_axis(Axis, Shape.rank))>();
}

// The same leaves where `x` is, for bodies whose sizes are arguments. A full name is the path of the calls around.
template <fixed_string Name, class X>
constexpr auto parameter_of(X x, const symbolic_shape& shape, dtype type, const initializer& begin) {
  return x.added(
      {.kind = primitive::parameter, .type = type, .shape = shape, .name = &symbol_of<Name>, .list = packed(begin)});
}
// How a layer's bias begins beside a weight of that fan_in, which is the bias's as well.
constexpr initializer bias_of(initializer begin, std::int64_t fan_in) {
  if (begin.fan == initial_fan::in) {
    begin.fan = initial_fan::one;
    begin.square /= static_cast<double>(fan_in);
  }
  return begin;
}
template <fixed_string Name, class X>
constexpr auto state_of(X x, const symbolic_shape& shape, dtype type, const initializer& begin) {
  return x.added(
      {.kind = primitive::state, .type = type, .shape = shape, .name = &symbol_of<Name>, .list = packed(begin)});
}
template <fixed_string Name, class X>
constexpr auto random_of(X x, const symbolic_shape& shape, distribution kind = distribution::uniform) {
  return x.added(
      {.kind = primitive::random, .shape = shape, .function = static_cast<int>(kind), .name = &symbol_of<Name>});
}
template <class X>
constexpr auto number_of(X x, double value, dtype type = dtype::f32) {
  return x.added(constant_spec(value, type));
}
template <class X>
constexpr auto coordinates_of(X x, const symbolic_shape& shape, int axis) {
  return x.added({.kind = primitive::iota, .type = dtype::i32, .shape = shape, .count = axis});
}

// What is said of a parameter or a state besides its shape: its dtype, or how it begins.
struct leaf_trait {
  enum : std::uint8_t { is_type, is_begin } what;
  dtype type = dtype::f32;
  initializer begin{};
  constexpr leaf_trait(dtype from) : what(is_type), type(from) {}
  constexpr leaf_trait(const initializer& from) : what(is_begin), begin(from) {}
};

struct leaf_traits {
  int types = 0, begins = 0;
  dtype type = dtype::f32;
  initializer begin{};
  constexpr void add(const leaf_trait& trait) {
    if (trait.what == leaf_trait::is_type) {
      ++types, type = trait.type;
    } else {
      ++begins, begin = trait.begin;
    }
  }
};
template <leaf_trait... Traits>
consteval leaf_traits joined_traits() {
  leaf_traits all;
  (all.add(Traits), ...);
  return all;
}

template <primitive Kind, fixed_string Name, symbolic_shape Shape, leaf_trait... Traits>
constexpr auto leaf_with() {
  constexpr leaf_traits all = joined_traits<Traits...>();
  static_assert(all.types <= 1 && all.begins <= 1,
                "meganeura: parameter or state<name, dims, ...>: at most one dtype and one initializer");
  static_assert(
      Kind == primitive::parameter || all.begin.draw == initial_draw::none,
      "meganeura: state<name, dims, initializer>: a state begins as a constant, init::zeros, ones or constant");
  return named_leaf<Kind, Name, Shape, all.type,
                    interned_or_none<all.begins == 0 ? integer_list{} : packed(all.begin)>()>();
}

}  // namespace detail

/// A trained tensor, owned by the parameters object, and what it may say of itself: its dtype, f32 otherwise, and how
/// `init` begins it, fan_in_uniform otherwise: parameter<"scale", dims<4>, dtype::f16, init::ones>. Its full name is
/// the path of the calls around it and `Name`, joined with dots. Equal values are one value: parameter<"w", s> written
/// twice in one forward is one tensor, and both places train it. Elsewhere in the model the same tensor is
/// shared(parameter<..>): tied weights. errors: "a name is neither empty nor holds a zero byte".
template <fixed_string Name, symbolic_shape Shape, detail::leaf_trait... Traits>
inline constexpr auto parameter = detail::leaf_with<primitive::parameter, Name, Shape, Traits...>();

/// A tensor that is kept from step to step beside the parameters, under a name like theirs: zeros at first or the
/// constant it is given, as a parameter's; read as it was before the step, written by `assign`.
template <fixed_string Name, symbolic_shape Shape, detail::leaf_trait... Traits>
inline constexpr auto state = detail::leaf_with<primitive::state, Name, Shape, Traits...>();

/// A number: `x * constant<2.0f>`. It takes the dtype of what it is combined with, which an integer has to have.
/// errors: "the dtype does not hold that number".
template <detail::number Value, dtype Type = dtype::f32>
inline constexpr auto constant = detail::constant_leaf<Value, Type>();

/// The index along `Axis` at every element of `Shape`, as i32.
template <symbolic_shape Shape, int Axis>
inline constexpr auto coordinates = detail::coordinate_leaf<Shape, Axis>();

/// Random numbers of a stream: uniform in [0, 1) or normal with deviation 1; others every step. Equal values are one
/// value: random<"noise", s> written twice in one forward is one draw, the same numbers in both places, and
/// a - b of the two is 0. Two draws have two names. errors: as `parameter`.
template <fixed_string Stream, symbolic_shape Shape, distribution Kind = distribution::uniform>
inline constexpr auto random =
    detail::named_leaf<primitive::random, Stream, Shape, dtype::f32, nullptr, static_cast<int>(Kind)>();

}  // namespace meganeura::inline MEGANEURA_ABI
