// SPDX-License-Identifier: MIT
// The nodes of a graph that lives in a type: primitives only, flat, comparable.
#pragma once
#include <meganeura/core/dim.hpp>
#include <meganeura/core/dtype.hpp>
#include <meganeura/graph/op.hpp>
#include <meganeura/graph/scalar_op.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

/// What a node of a typed graph does. Everything else is a function that expands into these.
enum class primitive : std::uint8_t {
  argument,  // of the module's forward; the model's inputs in the outermost body
  parameter,
  state,
  constant,
  iota,
  random,
  reciprocal_count,  // one over the number of elements the operand has along some axes: a constant once symbols are
                     // bound
  map,
  cast,
  reduce,
  contract,
  reshape,
  permute,
  slice,
  pad,
  expand,
  flip,
  concat,
  gather,
  scatter_add,
  convolution,
  window_reduce,
  stop_gradient,
  class_index,  // its operand, which should hold 0 .. count-1 or `value`
  call,         // a module's body
  repeat,       // a module's body, several times with parameters of its own each time
};

namespace detail {

// Integers of the rarer primitives; equal lists are one object. Layouts:
//   permute: axes; slice: axis, start, count, step; pad: low[8], high[8]; contract: labels a[8], b[8], result rank;
//   convolution: spatial, stride[3], low[3], high[3], dilation[3], groups; window_reduce: spatial, window, stride, low,
// high
//
// Stored plus one: GCC 12.2 leaves zeros out of arrays in template arguments and then ignores the positions when it
// compares, so that {1, 0, 2} and {1, 2, 0} would be one argument. tests/static/expr_shape.cpp holds the case.
struct natural {
  int plus_one = 1;
  constexpr natural() = default;
  constexpr natural(int value) : plus_one(value + 1) {}
  constexpr operator int() const { return plus_one - 1; }
};

struct integer_list {
  natural values[2 * max_rank + 2]{};
};
// By its numbers and not by the list: GCC 12.2 may take equal class-type arguments for different ones, depending on
// what it has instantiated before. tests/static/expr_shape.cpp holds that case too.
template <int... Values>
inline constexpr integer_list list_of{{Values...}};
template <integer_list List, std::size_t... I>
constexpr const integer_list* intern(std::index_sequence<I...>) {
  return &list_of<List.values[I]...>;
}
template <integer_list List>
inline constexpr const integer_list* interned_list = intern<List>(std::make_index_sequence<2 * max_rank + 2>{});

}  // namespace detail

struct module_body;

inline constexpr int max_operands = 4;

/// Fields a primitive does not use keep their defaults. Pointers go to interned objects, so comparing them compares
/// values.
struct typed_node {
  primitive kind{};
  dtype type = dtype::f32;
  std::uint8_t function = 0;  // scalar_op, reduce_kind or distribution; of calls and leaves: 1 if shared
  std::uint8_t operand_count = 0;
  std::int16_t operands_plus_one[max_operands]{};  // see detail::natural; here zeros stand at the end only
  /// argument: index; repeat: how often; class_index: classes; iota, flip, concat, gather, scatter_add: axis; reduce:
  /// axis bits
  std::int32_t count = 0;
  double value = 0;              // constant, pad, class_index
  const symbol* name = nullptr;  // parameter, state, random, call, repeat
  const detail::integer_list* list = nullptr;
  const module_body* body = nullptr;
  const symbolic_shape* shape = nullptr;  // of the result

  [[nodiscard]] constexpr int operand(int index) const { return operands_plus_one[index] - 1; }
  constexpr void set_operand(int index, int place) { operands_plus_one[index] = static_cast<std::int16_t>(place + 1); }

  friend constexpr bool operator==(const typed_node&, const typed_node&) = default;
};

/// A traced module: its nodes in topological order, the result last.
struct module_body {
  const typed_node* nodes;
  int size;

  [[nodiscard]] constexpr const typed_node& root() const { return nodes[size - 1]; }
};

/// A whole graph as a structural value: the template argument of `expr`.
template <int Size>
struct graph_data {
  typed_node nodes[Size]{};
  static constexpr int size = Size;

  [[nodiscard]] constexpr const typed_node& root() const { return nodes[Size - 1]; }
  /// How many nodes are of that kind, called bodies not included.
  [[nodiscard]] constexpr int count(primitive kind) const {
    int found = 0;
    for (const typed_node& each : nodes) found += each.kind == kind ? 1 : 0;
    return found;
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI
