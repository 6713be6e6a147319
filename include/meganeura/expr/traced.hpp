// SPDX-License-Identifier: MIT
// Layers of the library: plain code over values and sizes, run once while compiling for each list of operand types, and
// as it stands on values of run time.
#pragma once
#include <meganeura/expr/module.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// The largest body of a layer, in nodes: each costs a compiler time, used or not.
inline constexpr int max_layer_nodes = 96;

// A body while it is written.
struct traced_body {
  struct entry {
    node_spec spec;
    int operands[max_operands]{};
    int operand_count = 0;
    friend constexpr bool operator==(const entry&, const entry&) = default;
  };
  entry nodes[max_layer_nodes]{};
  int size = 0;
  int result = 0;

  constexpr int add(const entry& added) {
    for (int i = 0; i < size; ++i) {
      if (nodes[i] == added) return i;
    }
    nodes[size] = added;
    return size++;
  }
};

// A value of it.
class traced_value {
 public:
  using value_tag = void;
  constexpr traced_value() = default;
  constexpr traced_value(traced_body& body, int place) : body_(&body), place_(place) {}

  [[nodiscard]] constexpr int place() const { return place_; }
  [[nodiscard]] constexpr detail::facts facts() const {
    const node_spec& spec = body_->nodes[place_].spec;
    return {spec.kind, spec.function, spec.type, spec.shape, spec.value};
  }
  [[nodiscard]] constexpr traced_value added(const node_spec& spec, const traced_value* operands = nullptr,
                                             int count = 0) const {
    traced_body::entry entry{.spec = spec, .operand_count = count};
    for (int i = 0; i < count; ++i) entry.operands[i] = operands[i].place_;
    return {*body_, body_->add(entry)};
  }
  [[nodiscard]] constexpr traced_value lifted(traced_value same) const { return same; }
  template <auto Graph>
  [[nodiscard]] constexpr traced_value lifted(expr<Graph>) const {
    int places[Graph.size]{};
    for (int i = 0; i < Graph.size; ++i) {
      traced_body::entry entry{.spec = spec_of(Graph.nodes[i]), .operand_count = Graph.nodes[i].operand_count};
      for (int k = 0; k < entry.operand_count; ++k) entry.operands[k] = places[Graph.nodes[i].operand(k)];
      places[i] = body_->add(entry);
    }
    return {*body_, places[Graph.size - 1]};
  }
  // Names are for layers that a module calls; a layer inside of another has none.
  template <class Body>
  [[nodiscard]] constexpr auto within(const char* name, const Body& body) const {
    if (*name != '\0') refuse("a layer inside of a layer has no name; call both from a module", {});
    return body();
  }
  /// Declared only: where a rule of a layer's own body is broken, the compiler's message shows the sentence.
  [[noreturn]] void refuse(const char* sentence, std::initializer_list<detail::facts> operands,
                           const char* layer = nullptr) const;

 private:
  traced_body* body_ = nullptr;
  int place_ = 0;
};

// ---- a layer's body as a graph

// An operand of a layer, by its type alone.
template <tensor_type Type>
struct typed_argument {};
template <class T>
inline constexpr bool is_argument = false;
template <tensor_type Type>
inline constexpr bool is_argument<typed_argument<Type>> = true;

template <class T>
struct abstracted {
  using type = T;
};
template <auto Graph>
struct abstracted<expr<Graph>> {
  using type = typed_argument<type_of<Graph>>;
};

template <tensor_type Type>
constexpr void add_argument(traced_body& body, typed_argument<Type>) {
  body.add({.spec = {.kind = primitive::argument, .type = Type.type, .shape = *Type.shape, .count = body.size}});
}
template <class Constant>
constexpr void add_argument(traced_body&, Constant) {}

template <class Argument>
constexpr auto argument_at(traced_body& body, int place) {
  if constexpr (is_argument<Argument>) {
    return traced_value(body, place);
  } else {
    return Argument::value;
  }
}

template <class Layer, class... Arguments, std::size_t... I>
consteval traced_body trace_layer(std::index_sequence<I...>) {
  traced_body body;
  (add_argument(body, Arguments{}), ...);
  int places[sizeof...(Arguments)]{};
  int count = 0;
  ((places[I] = count, count += is_argument<Arguments>), ...);
  body.result = Layer::forward(argument_at<Arguments>(body, places[I])...).place();
  return body;
}

template <class Layer, class... Arguments>
inline constexpr traced_body traced_layer = trace_layer<Layer, Arguments...>(std::index_sequence_for<Arguments...>{});

// What the result needs, operands first from left to right: the order in which expressions are joined.
struct traced_order {
  int nodes[max_layer_nodes]{};
  int places_plus_one[max_layer_nodes]{};
  int size = 0;

  constexpr traced_order(const traced_body& body, int node) { visit(body, node); }

 private:
  constexpr void visit(const traced_body& body, int node) {
    if (places_plus_one[node] != 0) return;
    for (int k = 0; k < body.nodes[node].operand_count; ++k) visit(body, body.nodes[node].operands[k]);
    nodes[size] = node;
    places_plus_one[node] = ++size;
  }
};

template <class Layer, class... Arguments>
inline constexpr traced_order layer_order{traced_layer<Layer, Arguments...>, traced_layer<Layer, Arguments...>.result};

template <class Layer, class... Arguments, std::size_t... I>
consteval auto layer_graph(std::index_sequence<I...>) {
  constexpr const traced_body& body = traced_layer<Layer, Arguments...>;
  constexpr const traced_order& order = layer_order<Layer, Arguments...>;
  graph_data<order.size> graph{
      {typed_from(body.nodes[order.nodes[I]].spec, interned_shape<body.nodes[order.nodes[I]].spec.shape>,
                  interned_or_none<body.nodes[order.nodes[I]].spec.list>())...}};
  for (int i = 0; i < order.size; ++i) {
    const traced_body::entry& from = body.nodes[order.nodes[i]];
    for (int k = 0; k < from.operand_count; ++k) {
      graph.nodes[i].set_operand(k, order.places_plus_one[from.operands[k]] - 1);
    }
    graph.nodes[i].operand_count = static_cast<std::uint8_t>(from.operand_count);
  }
  return graph;
}

template <class Layer, class... Arguments>
inline constexpr auto layer_nodes =
    layer_graph<Layer, Arguments...>(std::make_index_sequence<layer_order<Layer, Arguments...>.size>{});
template <class Layer, class... Arguments>
inline constexpr module_body layer_body{layer_nodes<Layer, Arguments...>.nodes, layer_nodes<Layer, Arguments...>.size};

// What a layer's body takes an argument of run time for.
template <class Carrier, class T>
constexpr auto body_argument(const Carrier& carrier, const T& argument) {
  if constexpr (value<T>) {
    return carrier.lifted(argument);
  } else if constexpr (is_fixed<T>) {
    return T::value;
  } else {
    return argument;
  }
}

// Layer::forward(arguments...), values and sizes in any order, under a name: one call where values are types.
template <class Layer, class Name, class... Arguments>
constexpr auto layer(const Name& name, const Arguments&... arguments) {
  if constexpr (some_run_time<Arguments...>::value) {
    const auto& carrier = carrier_of(arguments...);
    return run_within<Layer>(carrier, text_of(name), body_argument(carrier, arguments)...);
  } else if constexpr (!are_constants<Name, Arguments...>) {
    MEGANEURA_CHECK_CONSTANTS((are_constants<Name, Arguments...>))
    return first_of(arguments...);
  } else {
    constexpr const module_body& body = layer_body<Layer, typename abstracted<Arguments>::type...>;
    return apply<call_node(primitive::call, &body, &Name::name, 1), Arguments...>();
  }
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
