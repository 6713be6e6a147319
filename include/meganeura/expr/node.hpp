// SPDX-License-Identifier: MIT
// The nodes of a graph that lives in a type: primitives only, flat, comparable.
#pragma once
#include <meganeura/core/dim.hpp>
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/initializer.hpp>
#include <meganeura/core/same_bits.hpp>
#include <meganeura/core/utility.hpp>
#include <meganeura/graph/geometry.hpp>
#include <meganeura/graph/op.hpp>
#include <meganeura/graph/scalar_op.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

/// What a node of a typed graph does. Everything else is a function that expands into these.
enum class primitive : std::uint8_t {
  argument,  // of the module's forward; the model's inputs in the outermost body
  parameter,
  state,
  constant,
  iota,
  random,
  element_count,  // of the operand along some axes, an integer, or one over it, a float: a constant once symbols are
                  // bound
  map,
  cast,
  reshape,
  permute,
  slice,
  expand,
  flip,
  node,     // of the run-time graph by its parts: `function` is its op, `list` its attribute
  indices,  // its first operand, which should hold what `function`, an index_use, says
  assign,   // its first operand; the state that is the second one becomes the third
  by_mode,  // its first operand in training, the second in evaluation
  tap,      // its operand, which can be read by `name`
  call,     // a module's body; its value is the first result
  repeat,   // a module's body, several times with parameters of its own each time
  result,   // the result `count` of a call or repeat whose body has several
};

/// What integers are read as. class_label: 0 .. count-1, or `value`, which is left out. ctc_label: 0 .. count-1, the
/// first of each row, as many as the second operand says. Lengths, 0 .. count-1: ctc_frames, ctc_labels, step_count.
/// key_length: 0 .. the last extent of the second operand.
enum class index_use : std::uint8_t { class_label, ctc_label, ctc_frames, ctc_labels, key_length, step_count };

namespace detail {

constexpr bool is_leaf(primitive kind) { return kind == primitive::parameter || kind == primitive::state; }
// By the path of the calls around it and a name of its own.
constexpr bool is_named(primitive kind) { return is_leaf(kind) || kind == primitive::random || kind == primitive::tap; }

// Stored plus one: GCC 12.2 leaves zeros out of arrays in template arguments and then ignores the positions when it
// compares, so that {1, 0, 2} and {1, 2, 0} would be one argument. tests/static/expr_shape.cpp holds the case.
struct natural {
  std::int64_t plus_one = 1;
  constexpr natural() = default;
  constexpr natural(std::int64_t value) : plus_one(value + 1) {}
  constexpr operator std::int64_t() const { return plus_one - 1; }
};

// What the rarer primitives carry besides their operands, with those of graph/geometry.hpp.
struct axis_order {
  int axes[max_rank]{};
  static constexpr void each(auto& self, auto visit) { visit("axes", self.axes); }
};
struct slice_range {
  std::int64_t axis = 0, start = 0, from_end = 0, step = 1;  // from_end 1: start elements before the end
  static constexpr void each(auto& self, auto visit) {
    visit("axis", self.axis), visit("start", self.start), visit("from_end", self.from_end), visit("step", self.step);
  }
};

// One of these as a list of numbers; equal lists are one object.
struct integer_list {
  natural values[2 * max_rank + 1]{};
  friend constexpr bool operator==(const integer_list&, const integer_list&) = default;
};
template <class Number>
constexpr void each_number(Number& number, auto visit) {
  visit(number);
}
template <class Number, std::size_t N>
constexpr void each_number(Number (&numbers)[N], auto visit) {
  for (Number& each : numbers) visit(each);
}
template <class Structure>
constexpr integer_list packed(const Structure& from) {
  integer_list result;
  int count = 0;
  const auto pack = [&](const auto& number) {
    if constexpr (std::is_same_v<decltype(number), const double&>) {
      result.values[count++] = __builtin_bit_cast(std::int64_t, number);
    } else {
      result.values[count++] = static_cast<std::int64_t>(number);
    }
  };
  Structure::each(from, [&](const char*, const auto& member) { each_number(member, pack); });
  return result;
}
template <class Structure>
constexpr Structure unpacked(const integer_list& from) {
  Structure result{};
  int count = 0;
  const auto unpack = [&](auto& number) {
    using type = std::remove_reference_t<decltype(number)>;
    if constexpr (std::is_same_v<type, double>) {
      number = __builtin_bit_cast(double, std::int64_t{from.values[count++]});
    } else {
      number = static_cast<type>(std::int64_t{from.values[count++]});
    }
  };
  Structure::each(result, [&](const char*, auto& member) { each_number(member, unpack); });
  return result;
}

// An initializer is never all zeros, which would be no list: that is a leaf which says nothing.
constexpr integer_list packed(const initializer& from) {
  return {{1 + static_cast<int>(from.draw), static_cast<int>(from.fan), __builtin_bit_cast(std::int64_t, from.centre),
           __builtin_bit_cast(std::int64_t, from.square), 2 * (from.zero_row + 1) + (from.saved ? 0 : 1)}};
}
template <>
constexpr initializer unpacked<initializer>(const integer_list& from) {
  return {static_cast<initial_draw>(from.values[0] - 1),
          static_cast<initial_fan>(std::int64_t{from.values[1]}),
          __builtin_bit_cast(double, std::int64_t{from.values[2]}),
          __builtin_bit_cast(double, std::int64_t{from.values[3]}),
          from.values[4] % 2 == 0,
          std::int64_t{from.values[4]} / 2 - 1};
}

// By its numbers and not by the list: GCC 12.2 may take equal class-type arguments for different ones, depending on
// what it has instantiated before. tests/static/expr_shape.cpp holds that case too.
template <std::int64_t... Values>
inline constexpr integer_list list_of{{Values...}};
template <integer_list List, std::size_t... I>
constexpr const integer_list* intern(std::index_sequence<I...>) {
  return &list_of<List.values[I]...>;
}
// Zeros at the end are left out, which compilers would write too.
constexpr std::size_t used_numbers(const integer_list& list) {
  std::size_t used = 2 * max_rank + 1;
  while (used > 0 && list.values[used - 1] == 0) --used;
  return used;
}
template <integer_list List>
inline constexpr const integer_list* interned_list = intern<List>(std::make_index_sequence<used_numbers(List)>{});

}  // namespace detail

struct module_body;

inline constexpr int max_operands = 4;

/// Fields a primitive does not use keep their defaults. Pointers go to interned objects, so comparing them compares
/// values.
struct typed_node {
  primitive kind{};
  dtype type = dtype::f32;
  std::uint8_t function = 0;  // scalar_op, op, distribution or index_use; of calls and leaves: 1 if shared
  std::uint8_t operand_count = 0;
  std::uint64_t operand_places = 0;  // 16 bits each: compilers write a number shorter than an array
  /// argument, result: index; repeat: how often; indices: how many there are; iota, flip: axis; element_count: axis
  /// bits
  std::int32_t count = 0;
  double value = 0;                            // constant, indices
  const symbol* name = nullptr;                // parameter, state, random, tap, call, repeat
  const detail::integer_list* list = nullptr;  // a leaf's initializer; what is packed
  const module_body* body = nullptr;
  const symbolic_shape* shape = nullptr;  // of the result

  /// What `list` holds; numbers that are all zero have no list.
  [[nodiscard]] constexpr detail::integer_list numbers() const { return list ? *list : detail::integer_list{}; }
  [[nodiscard]] constexpr int operand(int index) const {
    return static_cast<int>(operand_places >> (16 * index) & 0xffff);
  }
  constexpr void set_operand(int index, int place) {
    operand_places &= ~(std::uint64_t{0xffff} << (16 * index));
    operand_places |= static_cast<std::uint64_t>(place) << (16 * index);
  }

  friend constexpr bool operator==(const typed_node& a, const typed_node& b) {
    return a.kind == b.kind && a.type == b.type && a.function == b.function && a.operand_count == b.operand_count &&
           a.operand_places == b.operand_places && a.count == b.count && same_bits(a.value, b.value) &&
           a.name == b.name && a.list == b.list && a.body == b.body && a.shape == b.shape;
  }
};

namespace detail {

// A primitive about to be applied: what typed_node says by pointers to interned objects, by value. Every function of
// ops/ makes one from what it knows of its operands, and each carrier of values adds it to its own graph.
struct node_spec {
  primitive kind{};  // `argument`: nothing is to be done, the result is the operand
  dtype type = dtype::f32;
  symbolic_shape shape{};  // of the result
  int function = 0;
  std::int64_t count = 0;
  double value = 0;
  const symbol* name = nullptr;
  const module_body* body = nullptr;
  integer_list list{};

  friend constexpr bool operator==(const node_spec& a, const node_spec& b) {
    return a.kind == b.kind && a.type == b.type && a.shape == b.shape && a.function == b.function &&
           a.count == b.count && same_bits(a.value, b.value) && a.name == b.name && a.body == b.body &&
           a.list == b.list;
  }
};

// A primitive that is all there is to say: op, operands, attribute and result.
template <class Attribute>
constexpr node_spec node_of(op kind, dtype type, const symbolic_shape& shape, const Attribute& value) {
  return {
      .kind = primitive::node, .type = type, .shape = shape, .function = static_cast<int>(kind), .list = packed(value)};
}

constexpr node_spec spec_of(const typed_node& n) {
  return {n.kind, n.type, *n.shape, n.function, n.count, n.value, n.name, n.body, n.numbers()};
}

// What is known of an operand.
struct facts {
  primitive kind{};
  int function = 0;
  dtype type = dtype::f32;
  symbolic_shape shape{};
  double value = 0;

  [[nodiscard]] constexpr bool is_number() const { return kind == primitive::constant; }
};

// A note alone: the value is the operand.
constexpr node_spec describe_indices(const facts& of, index_use use, std::int64_t count, std::int32_t left_out = 0) {
  return {.kind = primitive::indices,
          .type = of.type,
          .shape = of.shape,
          .function = static_cast<int>(use),
          .count = count,
          .value = static_cast<double>(left_out)};
}

/// The same of a primitive whose traits know the result.
template <op Kind, class Attribute, class... Facts>
constexpr node_spec node_of(const Attribute& value, const Facts&... operands) {
  const tensor_facts from[] = {{operands.type, operands.shape}...};
  const tensor_facts made = primitive_traits<Kind>::result(value, from);
  return node_of(Kind, made.type, made.shape, value);
}

constexpr facts facts_of(const typed_node& n) { return {n.kind, n.function, n.type, *n.shape, n.value}; }

}  // namespace detail

namespace detail {
struct body_result {
  const symbol* name;
  int place;  // among the nodes
};
}  // namespace detail

/// A traced module: its nodes in topological order, and which of them are its results. Without names it has one, the
/// last node.
struct module_body {
  const typed_node* nodes;
  int size;
  const detail::body_result* named = nullptr;
  int result_count = 1;

  [[nodiscard]] constexpr int place(int result) const { return named ? named[result].place : size - 1; }
  [[nodiscard]] constexpr const typed_node& result(int index) const { return nodes[place(index)]; }
  [[nodiscard]] constexpr const char* result_name(int index) const {
    return named ? named[index].name->text : "output";
  }
};

/// A body and the scope that its names stand in.
struct scoped_body {
  const char* scope;
  const module_body* body;
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
