// SPDX-License-Identifier: MIT
// Named modules, the unit of typing: a body is traced once for each list of operand types.
#pragma once
#include <meganeura/core/utility.hpp>
#include <meganeura/expr/map.hpp>

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
  return graph.size <= max_body_nodes;
}

template <class Module, bool Fits>
inline constexpr bool body_fits = Fits;

template <class Module, int Operands, bool Takes>
inline constexpr bool forward_takes = Takes;

// What forward may return: a value, or several.
template <class T>
inline constexpr bool is_result = value<T>;
template <class Names, class... X>
inline constexpr bool is_result<result_list<Names, X...>> = true;

// Stands for a body that has an error already: a value of this type computes nothing and breaks nothing.
inline constexpr graph_data<1> no_body{{make_node(primitive::constant, dtype::f32, interned_shape<symbolic_shape{}>)}};

// What forward returned as one graph, and what of it are the results.
template <auto Graph>
consteval auto graph_of(expr<Graph>) {
  return Graph;
}
template <class Names, class... X>
consteval auto graph_of(result_list<Names, X...>) {
  return shrink<merged<X...>.merger.size>(merged<X...>.merger);
}
template <auto Graph>
consteval int named_results(expr<Graph>) {
  return 0;
}
template <int Count>
struct body_result_list {
  body_result all[Count]{};
};
template <class Names, class... X>
consteval auto named_results(result_list<Names, X...>) {
  body_result_list<sizeof...(X)> list;
  int count = 0;
  for (body_result& each : list.all) each = {Names::symbols[count], merged<X...>.places[count]}, ++count;
  return list;
}

template <class Module, tensor_type... Operands, int... Indices>
consteval auto trace(std::integer_sequence<int, Indices...>) {
  if constexpr (!requires { Module::forward(placeholder<Operands, Indices>...); }) {
    static_assert(
        forward_takes<Module, sizeof...(Operands), false>,
        "meganeura: forward(x...): a module needs a static function forward that takes one value for each input "
        "of its model, for each operand of its call, or, of a loss, for each result of the model and then each input");
    return expr<no_body>{};
  } else {
    using returned = decltype(Module::forward(placeholder<Operands, Indices>...));
    static_assert(is_result<returned>,
                  "meganeura: forward(x): a module must return a value, or several: results<names...>(values...)");
    if constexpr (is_result<returned>) {
      static_assert(body_fits<Module, holds_whole_body(graph_of(returned{}))>,
                    "meganeura: forward(x): the module's body has more than 96 nodes; move a part of it into a module "
                    "and call it");
      return returned{};
    } else {
      return expr<no_body>{};
    }
  }
}

// Traced once, whatever the number of calls. Symbols are named by the module and its operand types, not by a whole
// graph.
template <class Module, tensor_type... Operands>
inline constexpr auto returned = trace<Module, Operands...>(std::make_integer_sequence<int, sizeof...(Operands)>{});
template <class Module, tensor_type... Operands>
inline constexpr auto body_graph = graph_of(returned<Module, Operands...>);
template <class Module, tensor_type... Operands>
inline constexpr auto body_results = named_results(returned<Module, Operands...>);

template <int Size>
constexpr module_body body_from(const graph_data<Size>& graph, int) {
  return {graph.nodes, Size};
}
template <int Size, int Count>
constexpr module_body body_from(const graph_data<Size>& graph, const body_result_list<Count>& results) {
  return {graph.nodes, Size, results.all, Count};
}
template <class Module, tensor_type... Operands>
inline constexpr module_body body_of = body_from(body_graph<Module, Operands...>, body_results<Module, Operands...>);

template <auto Graph>
inline constexpr tensor_type type_of{Graph.root().type, Graph.root().shape};

constexpr typed_node call_node(primitive kind, const module_body* body, const symbol* name, int count) {
  typed_node result = with_name(make_node(kind, body->result(0).type, body->result(0).shape, count), name);
  result.body = body;
  return result;
}

// The value of a call, or its values by the names that its module gave them.
template <const module_body& Body, auto Call, auto Result>
constexpr auto called(expr<Call> call, expr<Result>) {
  return call;
}
template <const module_body& Body, auto Call, class Names, class... X>
constexpr auto called(expr<Call>, result_list<Names, X...>) {
  return []<int... Index>(std::integer_sequence<int, Index...>) {
    return result_list<
        Names, decltype(apply<make_node(primitive::result, Body.result(Index).type, Body.result(Index).shape, Index),
                              expr<Call>>())...>();
  }
  (std::make_integer_sequence<int, sizeof...(X)>{});
}

// Of a call, a parameter or a state. (A random stream's `function` is its distribution: it is shared by its call.)
constexpr bool is_shared(const typed_node& n) { return n.kind != primitive::random && n.function == 1; }
template <class Graph>
constexpr int layer_place(const Graph& graph) {  // of the call whose result the last node is, or of the last node
  return graph.root().kind == primitive::result ? graph.root().operand(0) : graph.size - 1;
}
constexpr bool can_share(const typed_node& n) {
  return n.kind == primitive::call || n.kind == primitive::repeat || n.kind == primitive::parameter ||
         n.kind == primitive::state;
}

template <auto Graph>
consteval auto marked_shared() {
  auto marked = Graph;
  marked.nodes[layer_place(marked)].function = 1;
  return marked;
}
template <auto Graph>
inline constexpr auto shared_graph = marked_shared<Graph>();

constexpr node_spec describe_tap(const facts& x, const symbol* name) {
  return {.kind = primitive::tap, .type = x.type, .shape = x.shape, .name = name};
}

// A number as text; <string> is none of the front end's.
struct decimal {
  char text[12]{};
  constexpr explicit decimal(int number) {
    int digits = 1;
    for (int rest = number; rest >= 10; rest /= 10) ++digits;
    for (; digits-- > 0; number /= 10) text[digits] = static_cast<char>('0' + number % 10);
  }
  [[nodiscard]] constexpr std::size_t digits() const {
    std::size_t count = 0;
    while (text[count] != '\0') ++count;
    return count;
  }
};

// The operands are the caller's: their own names are not behind this one.
template <class Module, class Carrier, class... X>
constexpr auto run_within(const Carrier& carrier, const char* name, const X&... lifted) {
  return carrier.within(name, [&] { return Module::forward(lifted...); });
}

template <auto... Graphs>
inline constexpr bool no_conditions = ((Graphs.root().type != dtype::boolean) && ... && true);

}  // namespace detail

/// Several values as what a forward function returns: `return results<"logits", "hidden">(y, h);`. A run gives them by
/// name or as `auto [logits, hidden] = s.run(...)`, and so does a module's call: `auto [h, c] = call<"cell", lstm>(x,
/// h, c)`. errors: "one name for each value", "names differ".
template <fixed_string... Names, class... X>
[[nodiscard]] constexpr auto results(X... values) {
  static_assert(sizeof...(Names) == sizeof...(X) && sizeof...(X) >= 1,
                "meganeura: results<names...>(values...): one name for each value, and at least one");
  static_assert((detail::is_name(Names) && ...) && detail::name_list<Names...>::differ(),
                "meganeura: results<names...>(values...): names differ, and none is empty");
  static_assert((value<X> && ...), "meganeura: results<names...>(values...): a result is a value");
  return result_list<detail::name_list<Names...>, X...>(values...);
}

/// Module::forward(operands...) as one node; `Name` stands before the names of its parameters, "" adds nothing. A
/// module is a struct with `static constexpr auto forward(value auto...)`. On values of run time it is run then and
/// there, and the name may be an argument: call<block>("layers." + std::to_string(i), x).
template <fixed_string Name, class Module, value... X>
[[nodiscard]] constexpr auto call(X... operands) {
  static_assert(detail::text_fits<Name, detail::is_prefix(Name)>,
                "meganeura: call<name, module>(x...): the name holds a zero byte");
  if constexpr (detail::all_typed<X...>::value && sizeof...(X) > max_operands) {
    static_assert(detail::forward_takes<Module, sizeof...(X), false>,
                  "meganeura: call<name, module>(x...): at most 4 operands");
    return expr<detail::no_body>{};
  } else if constexpr (detail::all_typed<X...>::value) {
    static_assert(detail::no_conditions<X::graph...>,
                  "meganeura: call<name, module>(x...): conditions cannot be passed; compare inside");
    constexpr const module_body& body = detail::body_of<Module, detail::type_of<X::graph>...>;
    return detail::called<body>(
        detail::apply<detail::call_node(primitive::call, &body, &detail::symbol_of<Name>, 1), X...>(),
        detail::returned<Module, detail::type_of<X::graph>...>);
  } else {
    return call<Module>(Name.text, operands...);
  }
}
template <class Module, detail::name_like Name, value... X>
[[nodiscard]] constexpr auto call(const Name& name, X... operands) {
  if constexpr (detail::all_typed<X...>::value) {
    static_assert(detail::forward_takes<Module, sizeof...(X), false>,
                  "meganeura: call<module>(name, x...): of values of types the name is a part as well; write "
                  "call<\"name\", module>(x...)");
    return expr<detail::no_body>{};
  } else {
    const auto& carrier = detail::carrier_of(operands...);
    return detail::run_within<Module>(carrier, detail::text_of(name), carrier.lifted(operands)...);
  }
}
template <class Module, value First, value... Others>
constexpr auto call(First x, const Others&...) {
  static_assert(sizeof(First) == 0,
                "meganeura: call<name, module>(x...): a name comes first, that of what is inside; \"\" adds nothing");
  return x;
}

namespace detail {

// Whether what the module returns can be its first operands again.
template <class... X>
constexpr bool closes(const module_body& body) {
  constexpr tensor_type operands[]{type_of<X::graph>...};
  if (body.result_count > static_cast<int>(sizeof...(X))) return false;
  for (int i = 0; i < body.result_count; ++i) {
    if (operands[i] != tensor_type{body.result(i).type, body.result(i).shape}) return false;
  }
  return true;
}

template <class Carrier>
constexpr void take_results(Carrier* operands, const Carrier& result) {
  operands[0] = result;
}
template <class Carrier, class Names, class... X>
constexpr void take_results(Carrier* operands, const result_list<Names, X...>& results) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { ((operands[I] = results.template get<I>()), ...); }
  (std::index_sequence_for<X...>{});
}

template <class Module, int Count, class Carrier, class... X>
constexpr auto repeated(const Carrier& carrier, const char* name, const X&... x) {
  Carrier operands[]{x...};
  const auto turn = [&]<std::size_t... I>(int index, std::index_sequence<I...>) {
    return call<Module>(decimal(index).text, operands[I]...);
  };
  const std::index_sequence_for<X...> all{};
  return carrier.within(name, [&] {
    for (int i = 0; i + 1 < Count; ++i) take_results(operands, turn(i, all));
    return turn(Count - 1, all);
  });
}

}  // namespace detail

/// Module applied `Count` times, each result the first operand of the next, several results the first operands; further
/// operands go to all alike. Parameters of turn i are named "Name.i.": typed once, run `Count` times.
/// errors: "the module must return what it takes".
template <fixed_string Name, int Count, class Module, value First, value... Others>
[[nodiscard]] constexpr auto repeat(First x, Others... others) {
  static_assert(Count >= 1, "meganeura: repeat<name, count, module>(x): count must be at least 1");
  if constexpr (detail::all_typed<First, Others...>::value) {
    constexpr const module_body& body =
        detail::body_of<Module, detail::type_of<First::graph>, detail::type_of<Others::graph>...>;
    constexpr bool closed = detail::closes<First, Others...>(body);
    static_assert(closed, "meganeura: repeat<name, count, module>(x): the module must return what it takes");
    if constexpr (closed) {
      return detail::called<body>(
          detail::apply<detail::call_node(primitive::repeat, &body, &detail::symbol_of<Name>, Count), First,
                        Others...>(),
          detail::returned<Module, detail::type_of<First::graph>, detail::type_of<Others::graph>...>);
    } else {
      return x;
    }
  } else {
    const auto& carrier = detail::carrier_of(x, others...);
    return detail::repeated<Module, Count>(carrier, Name.text, carrier.lifted(x), carrier.lifted(others)...);
  }
}

/// The same weights as another layer of this name, on purpose: shared(linear<"encode", 64>(b)) beside
/// linear<"encode", 64>(a), or shared(parameter<"embed.weight", dims<rows, width>>) beside embedding<"embed", ..>. All
/// names inside the layer must occur elsewhere in the model, exactly once without `shared`; where values are of run
/// time, at most once, so that a loop may share all its turns.
/// errors: "x must be the result of a layer", and in the model "there is none".
template <value X>
[[nodiscard]] constexpr auto shared(X x) {
  if constexpr (!detail::all_typed<X>::value) {
    return x.shared();
  } else {
    constexpr bool is_layer = detail::can_share(X::graph.nodes[detail::layer_place(X::graph)]);
    static_assert(is_layer, "meganeura: shared(x): x must be the result of a layer, a call, a parameter or a state");
    if constexpr (is_layer) {
      return expr<detail::shared_graph<X::graph>>{};
    } else {
      return x;
    }
  }
}

template <class Names, value... X>
[[nodiscard]] constexpr auto shared(result_list<Names, X...> several) {
  if constexpr (!detail::all_typed<X...>::value) {
    (void)several.template get<0>().shared();  // a layer is known by its first result
    return several;
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return result_list<Names, decltype(shared(several.template get<I>()))...>(shared(several.template get<I>())...);
    }
    (std::index_sequence_for<X...>{});
  }
}

/// x, which can be read by this name behind the path of the calls around it, where a session or a trainer is asked to:
/// program_options::taps. Where it is not, this costs nothing.
/// errors: "a name is neither empty nor holds a zero byte", "x is a condition".
template <fixed_string Name, value X>
[[nodiscard]] constexpr auto tap(X x) {
  static_assert(detail::text_fits<Name, detail::is_name(Name)>,
                "meganeura: tap<name>(x): a name is neither empty nor holds a zero byte");
  MEGANEURA_EXPECT(x.facts().type != dtype::boolean,
                   "meganeura: tap<name>(x): x is a condition, which is never stored; tap select(condition, a, b)", x)
  return detail::make<detail::describe_tap>(x, c<&detail::symbol_of<Name>>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
