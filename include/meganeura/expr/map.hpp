// SPDX-License-Identifier: MIT
// Scalar functions of whole tensors: broadcasting, dtypes and the foldings that need no device.
#pragma once
#include <meganeura/expr/leaf.hpp>

namespace meganeura::inline MEGANEURA_ABI::detail {

// Its arguments are what a compiler shows.
template <extent_pair Extents>
inline constexpr bool extents_agree = Extents.agrees();

template <bool Rule>
inline constexpr bool holds_of = Rule;

constexpr bool are_of_one_type(const facts& a, const facts& b) { return a.shape == b.shape && a.type == b.type; }
constexpr bool floats_of_one_type(const facts& a, const facts& b) { return a.type == b.type && is_float(a.type); }

template <dtype Left, dtype Right>
inline constexpr bool dtypes_agree = Left == Right;
template <dtype Type>
inline constexpr bool is_float_dtype = is_float(Type);
template <dtype Type>
inline constexpr bool is_number_dtype = Type != dtype::boolean;

// A number takes the dtype of what it meets.
constexpr dtype common_type(const facts& a, const facts& b) { return a.is_number() ? b.type : a.type; }
constexpr bool both_fit(const facts& a, const facts& b) { return a.type == b.type || a.is_number() || b.is_number(); }

// Of the numbers among two operands one that the other's dtype does not hold, otherwise 0.
constexpr number unfitting_number(const facts& a, const facts& b) {
  if (a.is_number() && !holds(common_type(a, b), a.value)) return a.value;
  if (b.is_number() && !holds(common_type(a, b), b.value)) return b.value;
  return 0.0;
}

constexpr bool divides_by_zero(const facts& a, const facts& b) {
  return b.is_number() && b.value == 0 && !is_float(common_type(a, b));
}

// A function argument is no constant expression in C++20, so a plain number cannot become part of a type; beside a
// value of run time it is a number like another.
template <class T>
concept number_like = std::is_arithmetic_v<T>;
template <class A, class B>
concept operands = (value<A> && (value<B> || number_like<B>)) || (number_like<A> && value<B>);
template <class A, class B>
inline constexpr bool number_beside_type = (number_like<A> && is_expr<B>) || (number_like<B> && is_expr<A>);
template <class A, class B>
constexpr facts facts_beside(const A& a, const B& b) {
  if constexpr (number_like<A>) {
    return {.kind = primitive::constant, .type = b.facts().type, .value = static_cast<double>(a)};
  } else {
    return a.facts();
  }
}

// `a` where it meets `b`: a number in b's dtype.
template <class A, class B>
constexpr auto adapted(A a, B b) {
  if constexpr (all_typed<A, B>::value) {
    constexpr facts from = A::facts();
    constexpr dtype type = common_type(from, B::facts());
    if constexpr (from.is_number() && from.type != type && type != dtype::boolean) {
      return apply<constant_node(from.value, type)>();
    } else {
      return a;
    }
  } else {
    const auto& carrier = carrier_of(a, b);
    const facts from = facts_beside(a, b);
    const dtype type = common_type(from, facts_beside(b, a));
    if constexpr (number_like<A>) {
      return carrier.added(constant_spec(from.value, type));
    } else {
      const bool changes = from.is_number() && from.type != type && type != dtype::boolean;
      return changes ? carrier.added(constant_spec(from.value, type)) : carrier.lifted(a);
    }
  }
}

constexpr node_spec describe_unary(const facts& a, scalar_op function) {
  if (function == scalar_op::negate && a.is_number() && holds(a.type, -a.value)) {
    return constant_spec(-a.value, a.type);
  }
  const dtype type = info(function).is.logical ? dtype::boolean : a.type;
  return {.kind = primitive::map, .type = type, .shape = a.shape, .function = static_cast<int>(function)};
}

constexpr node_spec describe_binary(const facts& a, const facts& b, scalar_op function) {
  const scalar_flags is = info(function).is;
  const dtype type = is.compares || is.logical ? dtype::boolean : a.type;
  if (is.arithmetic && a.is_number() && b.is_number() && is_float(type)) {
    return constant_spec(evaluate_real(function, a.value, b.value, 0), type);
  }
  return {.kind = primitive::map,
          .type = type,
          .shape = broadcast(a.shape, b.shape),
          .function = static_cast<int>(function)};
}

constexpr node_spec describe_select(const facts& condition, const facts& a, const facts& b) {
  return {.kind = primitive::map,
          .type = a.type,
          .shape = broadcast(condition.shape, broadcast(a.shape, b.shape)),
          .function = static_cast<int>(scalar_op::select)};
}

constexpr node_spec describe_cast(const facts& a, dtype type) {
  if (type == a.type) return {};
  return {.kind = primitive::cast, .type = type, .shape = a.shape};
}

constexpr node_spec describe_stop_gradient(const facts& a) {
  return node_of(op::stop_gradient, a.type, a.shape, no_attribute{});
}

template <scalar_op Function, value A>
constexpr auto unary(A a) {
  return make<describe_unary>(a, c<Function>);
}

template <scalar_op Function, class A, class B>
constexpr auto binary(A a, B b) {
  if constexpr (!number_beside_type<A, B>) {
    return make<describe_binary>(adapted(a, b), adapted(b, a), c<Function>);
  } else if constexpr (value<A>) {  // refused by MEGANEURA_CHECK_OPERANDS
    return a;
  } else {
    return b;
  }
}

// The same of two arguments of a function.
template <class A, class B>
constexpr extent_pair mismatch(const A& a, const B& b) {
  return broadcast_mismatch(facts_beside(a, b).shape, facts_beside(b, a).shape);
}
template <class A, class B>
  requires operands<A, B>
constexpr dtype common_type(const A& a, const B& b) { return common_type(facts_beside(a, b), facts_beside(b, a)); }
template <class A, class B>
  requires operands<A, B>
constexpr bool both_fit(const A& a, const B& b) { return both_fit(facts_beside(a, b), facts_beside(b, a)); }
template <class A, class B>
  requires operands<A, B>
constexpr number unfitting_number(const A& a, const B& b) {
  return unfitting_number(facts_beside(a, b), facts_beside(b, a));
}

}  // namespace meganeura::inline MEGANEURA_ABI::detail
