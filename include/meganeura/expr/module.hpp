// SPDX-License-Identifier: MIT
// Named modules, the unit of typing: a body is traced once for each list of operand types.
#pragma once
#include <meganeura/expr/map.hpp>

#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

struct tensor_type {
  dtype type;
  const symbolic_shape* shape;
  friend constexpr bool operator==(const tensor_type&, const tensor_type&) = default;
};

template <tensor_type Type, int Index>
inline constexpr auto placeholder = apply<make_node(primitive::argument, Type.type, Type.shape, Index)>();

template <class Graph>
constexpr bool holds_whole_body(const Graph& graph) {
  for (const typed_node& each : graph.nodes) {
    if (each.kind == primitive::argument && each.count == too_large) return false;
  }
  return true;
}

template <class Module, bool Fits>
inline constexpr bool body_fits = Fits;

template <class Module, class... Operands>
concept takes = requires(Operands... operands) {
  Module::forward(operands...);
};

template <class Module, int Operands, bool Takes>
inline constexpr bool forward_takes = Takes;

// Stands for a body that has an error already: a value of this type computes nothing and breaks nothing.
inline constexpr graph_data<1> no_body{{make_node(primitive::constant, dtype::f32, interned_shape<symbolic_shape{}>)}};

template <class Module, tensor_type... Operands, int... Indices>
consteval auto trace(std::integer_sequence<int, Indices...>) {
  if constexpr (!takes<Module, decltype(placeholder<Operands, Indices>)...>) {
    static_assert(
        forward_takes<Module, sizeof...(Operands), false>,
        "meganeura: forward(x...): a module needs a static function forward that takes one value for each input "
        "of its model, or for each operand of its call");
    return no_body;
  } else {
    using result = decltype(Module::forward(placeholder<Operands, Indices>...));
    static_assert(value<result>, "meganeura: forward(x): a module must return a value");
    if constexpr (value<result>) {
      static_assert(body_fits<Module, holds_whole_body(result::graph)>,
                    "meganeura: forward(x): the module's body has more than 96 nodes; move a part of it into a module "
                    "and call it");
      return result::graph;
    } else {
      return no_body;
    }
  }
}

// Traced once, whatever the number of calls. Symbols are named by the module and its operand types, not by a whole
// graph.
template <class Module, tensor_type... Operands>
inline constexpr auto body_graph = trace<Module, Operands...>(std::make_integer_sequence<int, sizeof...(Operands)>{});
template <class Module, tensor_type... Operands>
inline constexpr module_body body_of{body_graph<Module, Operands...>.nodes, body_graph<Module, Operands...>.size};

template <auto Graph>
inline constexpr tensor_type type_of{Graph.root().type, Graph.root().shape};

constexpr typed_node call_node(primitive kind, const module_body* body, const symbol* name, int count) {
  typed_node result = with_name(make_node(kind, body->root().type, body->root().shape, count), name);
  result.body = body;
  return result;
}

// Of a call, a parameter or a state. (A random stream's `function` is its distribution: it is shared by its call.)
constexpr bool is_shared(const typed_node& n) { return n.kind != primitive::random && n.function == 1; }
constexpr bool can_share(const typed_node& n) {
  return n.kind == primitive::call || n.kind == primitive::repeat || n.kind == primitive::parameter ||
         n.kind == primitive::state;
}

template <auto Graph>
consteval auto marked_shared() {
  auto marked = Graph;
  marked.nodes[marked.size - 1].function = 1;
  return marked;
}
template <auto Graph>
inline constexpr auto shared_graph = marked_shared<Graph>();

template <class Name>
constexpr const char* text_of(const Name& name) {
  if constexpr (std::is_convertible_v<Name, const char*>) {
    return name;
  } else {
    return name.c_str();
  }
}

// A number as text; <string> is none of the front end's.
struct decimal {
  char text[12]{};
  constexpr explicit decimal(int number) {
    int digits = 1;
    for (int rest = number; rest >= 10; rest /= 10) ++digits;
    for (; digits-- > 0; number /= 10) text[digits] = static_cast<char>('0' + number % 10);
  }
};

template <auto... Graphs>
inline constexpr bool no_conditions = ((Graphs.root().type != dtype::boolean) && ... && true);

}  // namespace detail

/// Module::forward(operands...) as one node; `Name` stands before the names of its parameters, "" adds nothing. A
/// module is a struct with `static constexpr auto forward(value auto...)`. On values of run time it is run then and
/// there, and the name may be an argument: call<block>("layers." + std::to_string(i), x).
template <fixed_string Name, class Module, value... X>
[[nodiscard]] constexpr auto call(X... operands) {
  static_assert(detail::text_fits<Name, detail::is_prefix(Name)>,
                "meganeura: call<name, module>(x...): the name holds a zero byte");
  if constexpr (detail::all_typed<X...>::value) {
    static_assert(sizeof...(X) <= max_operands, "meganeura: call<name, module>(x...): at most 4 operands");
    static_assert(detail::no_conditions<X::graph...>,
                  "meganeura: call<name, module>(x...): conditions cannot be passed; compare inside");
    return detail::apply<detail::call_node(primitive::call, &detail::body_of<Module, detail::type_of<X::graph>...>,
                                           &detail::symbol_of<Name>, 1),
                         X...>();
  } else {
    return call<Module>(Name.text, operands...);
  }
}
template <class Module, detail::name_like Name, value... X>
[[nodiscard]] constexpr auto call(const Name& name, X... operands) {
  const auto& carrier = detail::carrier_of(operands...);
  [[maybe_unused]] const auto scope = carrier.scope(detail::text_of(name));
  return Module::forward(carrier.lifted(operands)...);
}

/// Module applied `Count` times, each result the first operand of the next; further operands go to all alike.
/// Parameters of turn i are named "Name.i.": typed once, run `Count` times.
/// errors: "the module must return what it takes".
template <fixed_string Name, int Count, class Module, value First, value... Others>
[[nodiscard]] constexpr auto repeat(First x, Others... others) {
  static_assert(Count >= 1, "meganeura: repeat<name, count, module>(x): count must be at least 1");
  if constexpr (detail::all_typed<First, Others...>::value) {
    constexpr const module_body& body =
        detail::body_of<Module, detail::type_of<First::graph>, detail::type_of<Others::graph>...>;
    constexpr detail::tensor_type result{body.root().type, body.root().shape};
    constexpr bool closed = result == detail::type_of<First::graph>;
    static_assert(closed, "meganeura: repeat<name, count, module>(x): the module must return what it takes");
    if constexpr (closed) {
      return detail::apply<detail::call_node(primitive::repeat, &body, &detail::symbol_of<Name>, Count), First,
                           Others...>();
    } else {
      return x;
    }
  } else {
    const auto& carrier = detail::carrier_of(x, others...);
    [[maybe_unused]] const auto scope = carrier.scope(Name.text);
    auto result = carrier.lifted(x);
    for (int turn = 0; turn < Count; ++turn) {
      result = call<Module>(detail::decimal(turn).text, result, others...);
    }
    return result;
  }
}

/// The same weights as another layer of this name, on purpose: shared(linear<"encode", 64>(b)) beside
/// linear<"encode", 64>(a), or shared(parameter<"embed.weight", dims<rows, width>>) beside embedding<"embed", ..>. All
/// names inside the layer must occur elsewhere in the model, exactly once without `shared`. Values of run time share
/// whatever has one name.
/// errors: "x must be the result of a layer", and in the model "there is none".
template <value X>
[[nodiscard]] constexpr auto shared(X x) {
  if constexpr (!detail::all_typed<X>::value) {
    return x;
  } else {
    static_assert(detail::can_share(X::graph.root()),
                  "meganeura: shared(x): x must be the result of a layer, a call, a parameter or a state");
    if constexpr (detail::can_share(X::graph.root())) {
      return expr<detail::shared_graph<X::graph>>{};
    } else {
      return x;
    }
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
