// SPDX-License-Identifier: MIT
// Scalar functions of whole tensors: broadcasting, dtypes and the foldings that need no device.
#pragma once
#include <meganeura/expr/leaf.hpp>

namespace meganeura::inline MEGANEURA_ABI::detail {

// The first axis, counted from the end, whose extents do not broadcast; {0, 1, 1, true} if all do.
struct extent_pair {
  int axis_from_end = 0;
  std::int64_t left = 1;
  std::int64_t right = 1;
  bool same_symbol = true;
  friend constexpr bool operator==(const extent_pair&, const extent_pair&) = default;
};

constexpr bool is_one(const dim& extent) { return extent == dim{1}; }

constexpr extent_pair broadcast_mismatch(const symbolic_shape& a, const symbolic_shape& b) {
  for (int i = 0; i < a.rank && i < b.rank; ++i) {
    const dim &left = a.last(i), &right = b.last(i);
    if (left == right || is_one(left) || is_one(right)) continue;
    return {i, left.coefficient, right.coefficient, left.name == right.name};
  }
  return {};
}

template <int AxisFromEnd, std::int64_t Left, std::int64_t Right, bool SameSymbol>
inline constexpr bool extents_agree = (Left == Right && SameSymbol);

template <dtype Left, dtype Right>
inline constexpr bool dtypes_agree = Left == Right;

// NumPy's rule; where extents do not agree (already reported) the left one.
constexpr symbolic_shape broadcast(const symbolic_shape& a, const symbolic_shape& b) {
  symbolic_shape result = a.rank >= b.rank ? a : b;
  const symbolic_shape& shorter = a.rank >= b.rank ? b : a;
  for (int i = 0; i < shorter.rank; ++i) {
    if (is_one(result.last(i))) result[result.rank - 1 - i] = shorter.last(i);
  }
  return result;
}

template <auto Graph>
inline constexpr bool is_constant = Graph.root().kind == primitive::constant;

template <auto Graph, scalar_op Function>
inline constexpr bool is_map_of = Graph.root().kind == primitive::map&& Graph.root().function ==
                                  static_cast<int>(Function);

// A number takes the dtype of what it meets.
template <dtype Type, auto Graph>
constexpr auto adapted(expr<Graph> a) {
  if constexpr (is_constant<Graph> && Graph.root().type != Type && Type != dtype::boolean) {
    return apply<constant_node(Graph.root().value, Type)>();
  } else {
    return a;
  }
}

template <auto A, auto B>
inline constexpr dtype common_type = is_constant<A> ? B.root().type : A.root().type;

template <auto A, auto B>
inline constexpr bool both_fit = dtypes_agree<A.root().type, B.root().type> || is_constant<A> || is_constant<B>;

// Of the numbers among two operands one that the other's dtype does not hold, otherwise 0. No templates: every operator
// asks, and models are long types.
constexpr number unfitting_number(const typed_node& a, const typed_node& b) {
  const dtype type = a.kind == primitive::constant ? b.type : a.type;
  if (a.kind == primitive::constant && !holds(type, a.value)) return a.value;
  if (b.kind == primitive::constant && !holds(type, b.value)) return b.value;
  return 0.0;
}

constexpr bool divides_by_zero(const typed_node& a, const typed_node& b) {
  return b.kind == primitive::constant && b.value == 0 && !is_float(a.kind == primitive::constant ? b.type : a.type);
}

template <dtype Type>
inline constexpr bool is_float_dtype = is_float(Type);

template <scalar_op Function, auto A>
constexpr auto unary(expr<A>) {
  if constexpr (Function == scalar_op::negate && is_map_of<A, Function>) {
    return at_root<A, A.root().operand(0)>();  // -(-x)
  } else if constexpr (Function == scalar_op::negate && is_constant<A> && holds(A.root().type, -A.root().value)) {
    return apply<constant_node(-A.root().value, A.root().type)>();
  } else {
    return apply<with_function(make_node(primitive::map, A.root().type, A.root().shape), static_cast<int>(Function)),
                 A>();
  }
}

template <scalar_op Function, auto A, auto B>
constexpr auto same_type_binary(expr<A>, expr<B>) {
  constexpr scalar_flags is = info(Function).is;
  constexpr dtype type = is.compares || is.logical ? dtype::boolean : A.root().type;
  if constexpr (is.arithmetic && is_constant<A> && is_constant<B> && is_float(type)) {
    return apply<constant_node(evaluate_real(Function, A.root().value, B.root().value, 0), type)>();
  } else {
    return apply<with_function(
                     make_node(primitive::map, type, interned_shape<broadcast(*A.root().shape, *B.root().shape)>),
                     static_cast<int>(Function)),
                 A, B>();
  }
}

template <scalar_op Function, auto A, auto B>
constexpr auto binary(expr<A> a, expr<B> b) {
  return same_type_binary<Function>(adapted<common_type<A, B>>(a), adapted<common_type<A, B>>(b));
}

template <auto A, auto B>
inline constexpr extent_pair mismatch = broadcast_mismatch(*A.root().shape, *B.root().shape);

}  // namespace meganeura::inline MEGANEURA_ABI::detail
