// SPDX-License-Identifier: MIT
// Where a described node becomes one of each carrier of values. A function of ops/ describes a node by what it knows of
// its operands; here the node becomes part of a type (expr), of a body being traced (traced_value) or of whatever graph
// a carrier of run-time values adds to (expr/value.hpp).
#pragma once
#include <meganeura/expr/expect.hpp>
#include <meganeura/expr/expr.hpp>

#include <initializer_list>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <class... Values>
using all_typed = std::bool_constant<(is_expr<std::remove_cvref_t<Values>> && ...)>;
template <class... Arguments>
using some_run_time = std::bool_constant<((value<Arguments> && !is_expr<Arguments>) || ...)>;

template <class T>
concept axis_like = std::is_convertible_v<T, int>;

// A layer's name: a text that is a constant, or a literal or a std::string of run time.
template <class T>
concept name_like = !value<T> && (std::is_convertible_v<T, const char*> || requires(const T& text) { text.c_str(); });

// Of operands and, if it is named, the layer that is refused.
template <class... Arguments>
std::bool_constant<((is_expr<Arguments> || name_like<Arguments>)&&...)> typed_tag(const Arguments&...);
template <class... Arguments>
some_run_time<Arguments...> run_time_tag(const Arguments&...);

// What stands where a layer's name belongs. (Clang 14.0 has no `auto` that is a double.)
struct no_name {
  template <class T>
    requires(!std::is_convertible_v<T, const char*> && !requires(const T& text) { text.text; })
  constexpr no_name(T) {}  // NOLINT(google-explicit-constructor): a template argument; by reference is none to Clang 14
};

// A shape, wherever it comes from; as an argument it stays a constant if it is one.
constexpr symbolic_shape symbolic_of(const symbolic_shape& shape) { return shape; }
template <class Shape>
constexpr auto as_symbolic(const Shape& shape) {
  if constexpr (is_fixed<Shape>) {
    return shape;
  } else {
    return symbolic_of(shape);
  }
}

template <class First, class... Others>
constexpr const auto& carrier_of(const First& first, const Others&... others) {
  if constexpr (value<First> && !is_expr<First>) {
    return first;
  } else {
    return carrier_of(others...);
  }
}

// ---- broken rules

// What a compiler shows of operands that break a rule: their dtypes and extents.
template <dtype Type, auto... Extents>
struct found {};
template <class T, std::size_t... I>
found<T::facts().type, shown_extent<T::facts().shape[I]>()...> found_with(std::index_sequence<I...>);
template <class... Found>
struct all_found {};
template <class T>
auto what_is(const T&)
    -> decltype(found_with<T>(std::make_index_sequence<static_cast<std::size_t>(T::facts().shape.rank)>{}));
template <class... T>
all_found<decltype(what_is(std::declval<T>()))...> what_is(const T&...);
template <name_like Name, class... T>
auto what_is(const Name&, const T&... operands) -> decltype(what_is(operands...));
template <bool Holds, class Found>
inline constexpr bool rule = Holds;

// Of what a function is given beside types: values and constants.
template <class... T>
inline constexpr bool are_constants = ((is_expr<T> || is_fixed<T>)&&...);

template <class First, class... Others>
constexpr auto first_of(const First& first, const Others&... others) {
  if constexpr (!value<First>) {
    return first_of(others...);
  } else if constexpr (is_expr<First>) {
    if constexpr (First::element_type == dtype::boolean) {  // would be a second error
      return apply<make_node(primitive::constant, dtype::f32, First::graph.root().shape)>();
    } else {
      return first;
    }
  } else {
    return first;
  }
}

template <class T>
constexpr facts shown_facts(const T& argument) {
  if constexpr (value<T>) {
    return argument.facts();
  } else if constexpr (name_like<T>) {
    return {.kind = primitive::call};  // which `refuse` is told besides
  } else {
    return {.kind = primitive::constant, .value = static_cast<double>(argument)};
  }
}

template <class Name>
constexpr const char* text_of(const Name& name) {
  if constexpr (std::is_convertible_v<Name, const char*>) {
    return name;
  } else {
    return name.c_str();
  }
}
template <class First, class... Others>
constexpr const char* layer_among(const First& first, const Others&...) {
  if constexpr (name_like<First>) {
    return text_of(first);
  } else {
    return nullptr;
  }
}

// Ends in error(invalid_argument), or in a compiler's error where a body is being traced.
template <class... Arguments>
[[noreturn]] constexpr void refuse(const char* sentence, const Arguments&... arguments) {
  if constexpr (decltype(typed_tag(arguments...))::value) {
    __builtin_unreachable();  // a static_assert has refused
  } else {
    carrier_of(arguments...).refuse(sentence, {shown_facts(arguments)...}, layer_among(arguments...));
  }
}

// A condition is no number. Scalar functions say so themselves.
constexpr bool takes_conditions(primitive kind) { return kind == primitive::argument || kind == primitive::map; }
template <class T>
constexpr bool is_condition(const auto& argument) {
  if constexpr (value<T>) {
    return argument.type == dtype::boolean;
  } else {
    return false;
  }
}

// ---- values in types

template <class T>
constexpr auto known() {
  if constexpr (is_expr<T>) {
    return T::facts();
  } else {
    return T::value;
  }
}

template <auto Describe, class... Arguments>
inline constexpr node_spec described = Describe(known<Arguments>()...);

constexpr typed_node typed_from(const node_spec& spec, const symbolic_shape* shape, const integer_list* list) {
  typed_node result;
  result.kind = spec.kind;
  result.type = spec.type;
  result.function = static_cast<std::uint8_t>(spec.function);
  result.count = static_cast<std::int32_t>(spec.count);
  result.value = spec.value;
  result.name = spec.name;
  result.list = list;
  result.body = spec.body;
  result.shape = shape;
  return result;
}

template <integer_list List>
constexpr const integer_list* interned_or_none() {
  if constexpr (List == integer_list{}) {
    return nullptr;
  } else {
    return interned_list<List>;
  }
}

template <auto Describe, class... Arguments>
inline constexpr typed_node described_node = typed_from(described<Describe, Arguments...>,
                                                        interned_shape<described<Describe, Arguments...>.shape>,
                                                        interned_or_none<described<Describe, Arguments...>.list>());

template <auto Graph, scalar_op Function>
inline constexpr bool is_map_of = Graph.root().kind == primitive::map&& Graph.root().function ==
                                  static_cast<int>(Function);

constexpr integer_list composed(const integer_list& outer, const integer_list& inner, int rank) {
  integer_list result;
  for (int i = 0; i < rank; ++i) result.values[i] = inner.values[outer.values[i]];
  return result;
}

constexpr bool is_identity(const integer_list& axes, int rank) {
  for (int i = 0; i < rank; ++i) {
    if (axes.values[i] != i) return false;
  }
  return true;
}

template <typed_node Node, integer_list Axes>
constexpr typed_node reordered() {
  typed_node result = Node;
  result.list = interned_list<Axes>;
  return result;
}

// A node of one operand; what undoes or repeats its operand takes that one's operand instead.
template <typed_node Node, auto A>
constexpr auto apply_simplified() {
  constexpr bool repeats = A.root().kind == Node.kind;
  if constexpr (Node.kind == primitive::map && Node.function == static_cast<int>(scalar_op::negate) &&
                is_map_of<A, scalar_op::negate>) {
    return at_root<A, A.root().operand(0)>();  // -(-x)
  } else if constexpr (Node.kind == primitive::reshape && *Node.shape == *A.root().shape) {
    return expr<A>{};
  } else if constexpr (Node.kind == primitive::reshape && repeats) {
    return apply_simplified<Node, decltype(at_root<A, A.root().operand(0)>())::graph>();
  } else if constexpr (Node.kind == primitive::permute && is_identity(Node.numbers(), Node.shape->rank)) {
    return expr<A>{};
  } else if constexpr (Node.kind == primitive::permute && repeats) {
    return apply_simplified<reordered<Node, composed(Node.numbers(), A.root().numbers(), Node.shape->rank)>(),
                            decltype(at_root<A, A.root().operand(0)>())::graph>();
  } else {
    return apply<Node, expr<A>>();
  }
}

// ---- values that are not

// What a description takes an argument for.
template <class T>
constexpr auto plain(const T& argument) {
  if constexpr (value<T>) {
    return argument.facts();
  } else if constexpr (is_fixed<T>) {
    return T::value;
  } else {
    return argument;
  }
}

template <class Carrier>
struct operand_list {
  Carrier values[max_operands]{};
  int count = 0;

  template <class T>
  constexpr void add(const Carrier& like, const T& argument) {
    if constexpr (value<T>) values[count++] = like.lifted(argument);
  }
};

template <auto Describe, class... Arguments>
constexpr auto run_time_value(const Arguments&... arguments) {
  const auto& carrier = carrier_of(arguments...);
  using type = std::remove_cvref_t<decltype(carrier)>;
  const node_spec spec = Describe(plain(arguments)...);
  MEGANEURA_CHECK_FITTING((takes_conditions(spec.kind) || !(is_condition<Arguments>(plain(arguments)) || ...)), carrier)
  operand_list<type> operands;
  if (spec.kind != primitive::constant) (operands.add(carrier, arguments), ...);
  return spec.kind == primitive::argument ? operands.values[0] : carrier.added(spec, operands.values, operands.count);
}

// The value of the node that `Describe` gives for the arguments: facts for values, the rest as it is. Constants
// (fixed) where values are types. Values come first.
template <auto Describe, class First, class... Others>
constexpr auto make(const First& first, const Others&... others) {
  if constexpr (some_run_time<First, Others...>::value) {
    return run_time_value<Describe>(first, others...);
  } else if constexpr (!are_constants<First, Others...>) {
    MEGANEURA_CHECK_CONSTANTS((are_constants<First, Others...>))
    return first_of(first, others...);
  } else {
    constexpr typed_node node = described_node<Describe, First, Others...>;
    constexpr bool fits = takes_conditions(node.kind) ||
                          !(is_condition<First>(First::facts()) || ... || is_condition<Others>(known<Others>()));
    MEGANEURA_CHECK_FITTING(fits, first)
    if constexpr (!fits) {
      return apply<make_node(primitive::constant, dtype::f32, node.shape)>();  // no further error
    } else if constexpr (node.kind == primitive::argument) {
      return first;
    } else if constexpr (node.kind == primitive::constant) {
      return apply<node>();
    } else if constexpr (!(is_expr<Others> || ...)) {
      return apply_simplified<node, First::graph>();
    } else {
      return apply<node, First, Others...>();
    }
  }
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
