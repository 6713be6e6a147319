// SPDX-License-Identifier: MIT
// Operators and functions element by element, with NumPy broadcasting.
#pragma once
#include <meganeura/expr/map.hpp>

namespace meganeura::inline MEGANEURA_ABI {

// shapes: trailing axes align, extents are equal or one of them is 1. dtypes: equal; a number (`constant<2.0f>`, or a
// plain 2.0f beside a value of run time) takes the other operand's, and an integer's only if it is one. Comparisons
// give conditions, which only `select`, `logical_and`, `logical_or`, `logical_not` and `cast` take: bool tensors are
// never stored. A mask that is stored, or comes from a file, is numbers: `cast` makes it and `select` takes it. The
// checks stand in each function, so that a compiler's first line is the user's own call.

template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto operator+(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("a + b", a, b)
  MEGANEURA_CHECK_NUMBERS("a + b", a, b)
  return detail::binary<scalar_op::add>(a, b);
}

template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto operator-(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("a - b", a, b)
  MEGANEURA_CHECK_NUMBERS("a - b", a, b)
  return detail::binary<scalar_op::subtract>(a, b);
}

template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto operator*(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("a * b", a, b)
  MEGANEURA_CHECK_NUMBERS("a * b", a, b)
  return detail::binary<scalar_op::multiply>(a, b);
}

template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto operator/(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("a / b", a, b)
  MEGANEURA_CHECK_NUMBERS("a / b", a, b)
  MEGANEURA_CHECK(!detail::divides_by_zero(detail::facts_beside(a, b), detail::facts_beside(b, a)),
                  !detail::divides_by_zero(detail::facts_beside(a, b), detail::facts_beside(b, a)),
                  "meganeura: a / b: integers cannot be divided by 0", a, b)
  return detail::binary<scalar_op::divide>(a, b);
}

/// The larger of two, element by element; NaN where either is NaN. gradient: to the larger, halves where they are
/// equal; beside a number (a constant) 0 there, as relu's.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto maximum(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("maximum(a, b)", a, b)
  MEGANEURA_CHECK_NUMBERS("maximum(a, b)", a, b)
  return detail::binary<scalar_op::maximum>(a, b);
}

/// The smaller of two, element by element; NaN where either is NaN. gradient: as maximum's.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto minimum(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("minimum(a, b)", a, b)
  MEGANEURA_CHECK_NUMBERS("minimum(a, b)", a, b)
  return detail::binary<scalar_op::minimum>(a, b);
}

/// a to the power b; of a negative a NaN, unless b is a whole number. gradient: by b NaN of a negative a, as PyTorch's.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto power(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("power(a, b)", a, b)
  MEGANEURA_CHECK(is_float(detail::common_type(a, b)), (detail::is_float_dtype<detail::common_type(a, b)>),
                  "meganeura: power(a, b): a must be floats; cast it", a, b)
  return detail::binary<scalar_op::power>(a, b);
}

/// a < b as a condition for `select`.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto less(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("less(a, b)", a, b)
  MEGANEURA_CHECK_NUMBERS("less(a, b)", a, b)
  return detail::binary<scalar_op::less>(a, b);
}

/// a <= b as a condition for `select`.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto less_equal(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("less_equal(a, b)", a, b)
  MEGANEURA_CHECK_NUMBERS("less_equal(a, b)", a, b)
  return detail::binary<scalar_op::less_equal>(a, b);
}

/// a == b as a condition for `select`.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto equal(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("equal(a, b)", a, b)
  MEGANEURA_CHECK_NUMBERS("equal(a, b)", a, b)
  return detail::binary<scalar_op::equal>(a, b);
}

/// Both conditions.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto logical_and(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("logical_and(a, b)", a, b)
  MEGANEURA_CHECK_CONDITIONS("logical_and(a, b)", a, b)
  return detail::binary<scalar_op::logical_and>(a, b);
}

/// Either condition.
template <class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto logical_or(A a, B b) {
  MEGANEURA_CHECK_OPERANDS("logical_or(a, b)", a, b)
  MEGANEURA_CHECK_CONDITIONS("logical_or(a, b)", a, b)
  return detail::binary<scalar_op::logical_or>(a, b);
}

template <value A>
[[nodiscard]] constexpr auto operator-(A a) {
  MEGANEURA_EXPECT(a.facts().type != dtype::boolean, "meganeura: -x: a condition is no number; select(condition, a, b)",
                   a)
  return detail::unary<scalar_op::negate>(a);
}

/// gradient: 0 at 0.
template <value A>
[[nodiscard]] constexpr auto abs(A a) {
  MEGANEURA_EXPECT(a.facts().type != dtype::boolean,
                   "meganeura: abs(x): a condition is no number; select(condition, a, b)", a)
  return detail::unary<scalar_op::abs>(a);
}

/// -1, 0 or 1.
template <value A>
[[nodiscard]] constexpr auto sign(A a) {
  MEGANEURA_EXPECT(a.facts().type != dtype::boolean,
                   "meganeura: sign(x): a condition is no number; select(condition, a, b)", a)
  return detail::unary<scalar_op::sign>(a);
}

/// 1 / x.
template <value A>
[[nodiscard]] constexpr auto reciprocal(A a) {
  MEGANEURA_EXPECT_FLOATS("reciprocal(x)", a)
  return detail::unary<scalar_op::reciprocal>(a);
}

template <value A>
[[nodiscard]] constexpr auto sqrt(A a) {
  MEGANEURA_EXPECT_FLOATS("sqrt(x)", a)
  return detail::unary<scalar_op::sqrt>(a);
}

/// 1 / sqrt(x).
template <value A>
[[nodiscard]] constexpr auto rsqrt(A a) {
  MEGANEURA_EXPECT_FLOATS("rsqrt(x)", a)
  return detail::unary<scalar_op::rsqrt>(a);
}

template <value A>
[[nodiscard]] constexpr auto exp(A a) {
  MEGANEURA_EXPECT_FLOATS("exp(x)", a)
  return detail::unary<scalar_op::exp>(a);
}

/// Natural logarithm.
template <value A>
[[nodiscard]] constexpr auto log(A a) {
  MEGANEURA_EXPECT_FLOATS("log(x)", a)
  return detail::unary<scalar_op::log>(a);
}

/// Of radians. On a device NaN beyond |a| = 2^24, where neighbouring floats lie further apart than a radian.
template <value A>
[[nodiscard]] constexpr auto sin(A a) {
  MEGANEURA_EXPECT_FLOATS("sin(x)", a)
  return detail::unary<scalar_op::sin>(a);
}

/// Of radians; NaN beyond |a| = 2^24, as `sin`.
template <value A>
[[nodiscard]] constexpr auto cos(A a) {
  MEGANEURA_EXPECT_FLOATS("cos(x)", a)
  return detail::unary<scalar_op::cos>(a);
}

template <value A>
[[nodiscard]] constexpr auto tanh(A a) {
  MEGANEURA_EXPECT_FLOATS("tanh(x)", a)
  return detail::unary<scalar_op::tanh>(a);
}

/// 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
template <value A>
[[nodiscard]] constexpr auto erf(A a) {
  MEGANEURA_EXPECT_FLOATS("erf(x)", a)
  return detail::unary<scalar_op::erf>(a);
}

template <value A>
[[nodiscard]] constexpr auto floor(A a) {
  MEGANEURA_EXPECT_FLOATS("floor(x)", a)
  return detail::unary<scalar_op::floor>(a);
}

template <value A>
[[nodiscard]] constexpr auto ceil(A a) {
  MEGANEURA_EXPECT_FLOATS("ceil(x)", a)
  return detail::unary<scalar_op::ceil>(a);
}

/// To the nearest integer, ties to even.
template <value A>
[[nodiscard]] constexpr auto round(A a) {
  MEGANEURA_EXPECT_FLOATS("round(x)", a)
  return detail::unary<scalar_op::round>(a);
}

/// Towards zero.
template <value A>
[[nodiscard]] constexpr auto trunc(A a) {
  MEGANEURA_EXPECT_FLOATS("trunc(x)", a)
  return detail::unary<scalar_op::trunc>(a);
}

/// The opposite condition.
template <value A>
[[nodiscard]] constexpr auto logical_not(A a) {
  MEGANEURA_CHECK(a.facts().type == dtype::boolean, a.facts().type == dtype::boolean,
                  "meganeura: logical_not(a): a must be a condition; compare with less, less_equal or equal", a)
  return detail::unary<scalar_op::logical_not>(a);
}

namespace detail {
// Of the condition and the values; those of the values are reported by themselves.
template <value C, class A, class B>
constexpr extent_pair select_mismatch(const C& condition, const A& a, const B& b) {
  return broadcast_mismatch(condition.facts().shape, broadcast(facts_beside(a, b).shape, facts_beside(b, a).shape));
}
// A condition as it is; of numbers, whether they are not 0.
template <value C>
constexpr auto as_condition(C x) {
  if constexpr (!is_expr<C>) {
    return x.facts().type == dtype::boolean ? x : unary<scalar_op::logical_not>(binary<scalar_op::equal>(x, 0));
  } else if constexpr (C::facts().type == dtype::boolean) {
    return x;
  } else {
    return unary<scalar_op::logical_not>(binary<scalar_op::equal>(x, apply<constant_node(0, C::facts().type)>()));
  }
}
}  // namespace detail

/// condition ? a : b, element by element; numbers are a mask that holds where they are not 0.
/// errors: "extents must be equal or 1", "dtypes must agree".
template <value C, class A, class B>
  requires detail::operands<A, B>
[[nodiscard]] constexpr auto select(C condition, A a, B b) {
  MEGANEURA_CHECK(detail::select_mismatch(condition, a, b).agrees(),
                  (detail::extents_agree<detail::select_mismatch(condition, a, b)>),
                  "meganeura: select(c, a, b): extents must be equal or 1", a, b, condition)
  MEGANEURA_CHECK_OPERANDS("select(c, a, b)", a, b)
  MEGANEURA_CHECK_RANGE("select(c, a, b)", a, b)
  return detail::make<detail::describe_select>(detail::as_condition(condition), detail::adapted(a, b),
                                               detail::adapted(b, a));
}

namespace detail {
// 1 where a condition holds and 0 elsewhere, as numbers.
template <value A, class Type>
constexpr auto counted(A condition, Type type) {
  if constexpr (is_expr<A>) {
    return select(condition, apply<constant_node(1, Type::value)>(), apply<constant_node(0, Type::value)>());
  } else {
    return select(condition, number_of(condition, 1, type), number_of(condition, 0, type));
  }
}
}  // namespace detail

/// The same values in another dtype; float to integer truncates towards zero and saturates, a NaN gives 0. A condition
/// gives 1 and 0.
template <value A, class Type>
[[nodiscard]] constexpr auto cast(A a, Type type) {
  MEGANEURA_EXPECT(type != dtype::boolean, "meganeura: cast<type>(x): bool tensors do not exist; compare instead", a)
  if constexpr (!detail::is_expr<A>) {
    return a.facts().type == dtype::boolean ? detail::counted(a, type) : detail::make<detail::describe_cast>(a, type);
  } else if constexpr (A::facts().type == dtype::boolean) {
    return detail::counted(a, type);
  } else {
    return detail::make<detail::describe_cast>(a, type);
  }
}
template <dtype Type, value A>
[[nodiscard]] constexpr auto cast(A a) {
  return cast(a, c<Type>);
}

namespace detail {
constexpr node_spec describe_widened(const facts& a) { return describe_cast(a, compute_type(a.type)); }

// For composites whose steps leave what f16 holds (squares, exponentials, long sums): they are computed in f32 and cast
// back once, as PyTorch does it.
template <value A>
constexpr auto widened(A a) {
  return make<describe_widened>(a);
}
template <value A, value B>
constexpr auto narrowed(A a, B like) {
  if constexpr (is_expr<A>) {
    return make<describe_cast>(a, c<B::facts().type>);
  } else {
    return make<describe_cast>(a, like.facts().type);
  }
}
}  // namespace detail

/// The same values; no gradient flows back.
template <value A>
[[nodiscard]] constexpr auto stop_gradient(A a) {
  return detail::make<detail::describe_stop_gradient>(a);
}

namespace detail {
template <std::size_t Operand>
inline constexpr bool has_number = false;
// What a comparison gives that a compiler has refused.
struct no_number {
  constexpr operator bool() const { return false; }  // NOLINT(google-explicit-constructor): for `if`
};
}  // namespace detail

template <class C, class A, class B>
  requires(!value<C> && std::is_convertible_v<C, bool> && detail::operands<A, B>)
constexpr auto select(C, A a, B b) {
  static_assert(std::is_same_v<C, detail::no_number>,
                "meganeura: select(c, a, b): c is known while the model is written: c ? f(x) : g(x), or if constexpr; "
                "a condition compares values by less, less_equal or equal");
  return detail::first_of(a, b);
}

// No run has happened where a model is written: C++ cannot choose by its numbers.
MEGANEURA_COMPARISON(<, "less(a, b)")
MEGANEURA_COMPARISON(>, "less(b, a)")
MEGANEURA_COMPARISON(<=, "less_equal(a, b)")
MEGANEURA_COMPARISON(>=, "less_equal(b, a)")

}  // namespace meganeura::inline MEGANEURA_ABI
