// SPDX-License-Identifier: MIT
// Typed values: an empty handle whose template argument is the graph that computes it.
#pragma once
#include <meganeura/core/constant.hpp>
#include <meganeura/core/results.hpp>
#include <meganeura/expr/node.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// The largest body of one module, in nodes. Compile time grows with the cube of it; `call` starts a new body.
inline constexpr int max_body_nodes = 96;

namespace detail {
struct another_value {  // whatever it is
  template <class T>
  constexpr another_value(const T&) {}  // NOLINT: implicit
};
template <auto Graph>
inline constexpr bool can_change = false;
}  // namespace detail

/// A value of a model being written: `Graph` is a graph_data, its last node computes the value. Empty, so `auto` and
/// passing by value are always right, and two handles of one type are the same value.
template <auto Graph>
struct expr {
  using value_tag = void;
  static constexpr const auto& graph = Graph;
  static constexpr symbolic_shape shape = *Graph.root().shape;
  static constexpr dtype element_type = Graph.root().type;
  [[nodiscard]] static constexpr detail::facts facts() { return detail::facts_of(Graph.root()); }

  constexpr void operator=(detail::another_value) {
    static_assert(detail::can_change<Graph>,
                  "meganeura: h = f(h): a value's type is what computes it, so each result has a name of its own: auto "
                  "next = f(h)");
  }
};

/// Anything a forward function takes and returns.
template <class T>
concept value = requires {
  typename T::value_tag;
};

namespace detail {

// Joins operand graphs; equal nodes become one, so a residual or a shared q/k/v costs nothing twice.
template <int Capacity>
struct graph_merger {
  typed_node nodes[Capacity]{};
  int size = 0;

  constexpr int add(const typed_node& added) {
    for (int i = 0; i < size; ++i) {
      if (nodes[i] == added) return i;
    }
    nodes[size] = added;
    return size++;
  }

  // Adds what leads to node `root` of `graph` and returns its new place.
  template <int Size>
  constexpr int merge(const graph_data<Size>& graph, int root = Size - 1) {
    bool needed[Size]{};
    needed[root] = true;
    for (int i = root; i >= 0; --i) {
      for (int k = 0; needed[i] && k < graph.nodes[i].operand_count; ++k) needed[graph.nodes[i].operand(k)] = true;
    }
    int places[Size]{};
    for (int i = 0; i <= root; ++i) {
      if (!needed[i]) continue;
      typed_node copy = graph.nodes[i];
      for (int k = 0; k < copy.operand_count; ++k) copy.set_operand(k, places[copy.operand(k)]);
      // Operands mostly share a beginning: the place it has there is tried before the search.
      places[i] = i < size && nodes[i] == copy ? i : add(copy);
    }
    return places[root];
  }
};

template <class T>
inline constexpr int graph_size = 0;
template <auto Graph>
inline constexpr int graph_size<expr<Graph>> = Graph.size;

template <class T>
inline constexpr bool is_expr = false;
template <auto Graph>
inline constexpr bool is_expr<expr<Graph>> = true;

template <class Operand, int Capacity>
constexpr void add_operand(typed_node& root, graph_merger<Capacity>& merger) {
  if constexpr (is_expr<Operand>) root.set_operand(root.operand_count++, merger.merge(Operand::graph));
}

// `Root` over those of its arguments that are values.
template <typed_node Root, class... Arguments>
consteval auto join() {
  graph_merger<(graph_size<Arguments> + ... + 1)> merger;
  typed_node root = Root;
  (add_operand<Arguments>(root, merger), ...);
  merger.add(root);
  return merger;
}

template <auto Graph, int Root>
consteval auto cut() {
  graph_merger<Root + 1> merger;
  merger.merge(Graph, Root);
  return merger;
}

template <int Size, int Capacity>
consteval graph_data<Size> shrink(const graph_merger<Capacity>& merger) {
  graph_data<Size> result;
  for (int i = 0; i < Size; ++i) result.nodes[i] = merger.nodes[i];
  return result;
}

// Variable templates, not alias templates: GCC 12.2 crashes on an alias that computes a class template argument from a
// pack.
template <typed_node Root, class... Arguments>
inline constexpr auto joined = join<Root, Arguments...>();
template <typed_node Root, class... Arguments>
inline constexpr auto fitted = shrink<joined<Root, Arguments...>.size>(joined<Root, Arguments...>);
template <auto Graph, int Root>
inline constexpr auto cut_off = cut<Graph, Root>();
template <auto Graph, int Root>
inline constexpr auto rooted = shrink<cut_off<Graph, Root>.size>(cut_off<Graph, Root>);

// Several values as one graph, and where they are in it.
template <int Capacity, int Count>
struct merged_values {
  graph_merger<Capacity> merger{};
  int places[Count]{};
};
template <class... Values>
consteval auto merge() {
  merged_values<(graph_size<Values> + ...), sizeof...(Values)> result;
  int count = 0;
  ((result.places[count++] = result.merger.merge(Values::graph)), ...);
  return result;
}
template <class... Values>
inline constexpr auto merged = merge<Values...>();

// Stands for a body that has grown too large: the value's type goes on, its nodes are dropped, so that compiling stays
// fast and `trace` has one short error to give.
inline constexpr int too_large = -1;

constexpr typed_node too_large_node(typed_node root) {
  typed_node result;
  result.kind = primitive::argument;
  result.type = root.type;
  result.count = too_large;
  result.shape = root.shape;
  return result;
}

// The value of `Root` applied to those of the arguments that are values; Root's operands are filled in here.
template <typed_node Root, class... Arguments>
constexpr auto apply() {
  static_assert((0 + ... + is_expr<Arguments>) <= max_operands);
  if constexpr (joined<Root, Arguments...>.size > max_body_nodes) {
    return expr<fitted<too_large_node(Root)>>{};
  } else {
    return expr<fitted<Root, Arguments...>>{};
  }
}

// The value of an operand deeper in the graph.
template <auto Graph, int Root>
constexpr auto at_root() {
  return expr<rooted<Graph, Root>>{};
}

// A node by what most have; the rarer fields are set by the caller.
constexpr typed_node make_node(primitive kind, dtype type, const symbolic_shape* shape, int count = 0) {
  typed_node result;
  result.kind = kind;
  result.type = type;
  result.shape = shape;
  result.count = count;
  return result;
}

constexpr typed_node with_name(typed_node base, const symbol* name) {
  base.name = name;
  return base;
}

constexpr typed_node with_function(typed_node base, int function) {
  base.function = static_cast<std::uint8_t>(function);
  return base;
}

// Axis counted from the end when negative; -1 if there is no such axis.
constexpr int normal_axis(int axis, int rank) {
  const int normal = axis < 0 ? axis + rank : axis;
  return normal >= 0 && normal < rank ? normal : -1;
}

template <int Axis, int Rank>
inline constexpr bool axis_exists = normal_axis(Axis, Rank) >= 0;

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI
