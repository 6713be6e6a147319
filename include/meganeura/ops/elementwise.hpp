// SPDX-License-Identifier: MIT
// Operators and functions element by element, with NumPy broadcasting.
#pragma once
#include <meganeura/expr/map.hpp>

#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

// shapes: trailing axes align, extents are equal or one of them is 1. dtypes: equal; a number (`constant<2.0f>`) takes
// the other operand's, and an integer's only if it is one. Comparisons give conditions, which only `select`,
// `logical_and` and `logical_or` take: bool tensors are never stored. The checks stand in each function, so that a
// compiler's first line is the user's own call.

template <auto A, auto B>
[[nodiscard]] constexpr auto operator+(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: a + b: extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: a + b: dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: a + b: an integer takes whole numbers within its range; cast it to f32");
  return detail::binary<scalar_op::add>(a, b);
}

template <auto A, auto B>
[[nodiscard]] constexpr auto operator-(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: a - b: extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: a - b: dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: a - b: an integer takes whole numbers within its range; cast it to f32");
  return detail::binary<scalar_op::subtract>(a, b);
}

template <auto A, auto B>
[[nodiscard]] constexpr auto operator*(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: a * b: extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: a * b: dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: a * b: an integer takes whole numbers within its range; cast it to f32");
  return detail::binary<scalar_op::multiply>(a, b);
}

template <auto A, auto B>
[[nodiscard]] constexpr auto operator/(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: a / b: extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: a / b: dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: a / b: an integer takes whole numbers within its range; cast it to f32");
  static_assert(!detail::divides_by_zero(A.root(), B.root()), "meganeura: a / b: integers cannot be divided by 0");
  return detail::binary<scalar_op::divide>(a, b);
}

/// The larger of two, element by element; NaN where either is NaN.
template <auto A, auto B>
[[nodiscard]] constexpr auto maximum(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: maximum(a, b): extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: maximum(a, b): dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: maximum(a, b): an integer takes whole numbers within its range; cast it to f32");
  return detail::binary<scalar_op::maximum>(a, b);
}

/// The smaller of two, element by element; NaN where either is NaN.
template <auto A, auto B>
[[nodiscard]] constexpr auto minimum(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: minimum(a, b): extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: minimum(a, b): dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: minimum(a, b): an integer takes whole numbers within its range; cast it to f32");
  return detail::binary<scalar_op::minimum>(a, b);
}

/// a to the power b, a >= 0.
template <auto A, auto B>
[[nodiscard]] constexpr auto power(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: power(a, b): extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: power(a, b): dtypes must agree; cast one operand");
  static_assert(detail::is_float_dtype<detail::common_type<A, B>>, "meganeura: power(a, b): a must be floats; cast it");
  return detail::binary<scalar_op::power>(a, b);
}

/// a < b as a condition for `select`.
template <auto A, auto B>
[[nodiscard]] constexpr auto less(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: less(a, b): extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: less(a, b): dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: less(a, b): an integer takes whole numbers within its range; cast it to f32");
  return detail::binary<scalar_op::less>(a, b);
}

/// a <= b as a condition for `select`.
template <auto A, auto B>
[[nodiscard]] constexpr auto less_equal(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: less_equal(a, b): extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: less_equal(a, b): dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: less_equal(a, b): an integer takes whole numbers within its range; cast it to f32");
  return detail::binary<scalar_op::less_equal>(a, b);
}

/// a == b as a condition for `select`.
template <auto A, auto B>
[[nodiscard]] constexpr auto equal(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: equal(a, b): extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: equal(a, b): dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: equal(a, b): an integer takes whole numbers within its range; cast it to f32");
  return detail::binary<scalar_op::equal>(a, b);
}

/// Both conditions.
template <auto A, auto B>
[[nodiscard]] constexpr auto logical_and(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: logical_and(a, b): extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: logical_and(a, b): dtypes must agree; cast one operand");
  return detail::binary<scalar_op::logical_and>(a, b);
}

/// Either condition.
template <auto A, auto B>
[[nodiscard]] constexpr auto logical_or(expr<A> a, expr<B> b) {
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol>,
                "meganeura: logical_or(a, b): extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: logical_or(a, b): dtypes must agree; cast one operand");
  return detail::binary<scalar_op::logical_or>(a, b);
}

// A function argument is no constant expression in C++20, so a plain number cannot become part of a type: these say so.
namespace detail {
template <class T>
concept number_like = std::is_arithmetic_v<T>;
template <class T>
inline constexpr bool number_in_type = false;
template <class Number, class Operand>
constexpr Operand plain_number(Operand operand) {
  static_assert(number_in_type<Number>,
                "meganeura: x * 2.0f: a number must be part of the type; write x * mn::constant<2.0f>");
  return operand;
}
}  // namespace detail

template <value X, detail::number_like Number>
constexpr auto operator+(X x, Number) {
  return detail::plain_number<Number>(x);
}
template <detail::number_like Number, value X>
constexpr auto operator+(Number, X x) {
  return detail::plain_number<Number>(x);
}
template <value X, detail::number_like Number>
constexpr auto operator-(X x, Number) {
  return detail::plain_number<Number>(x);
}
template <detail::number_like Number, value X>
constexpr auto operator-(Number, X x) {
  return detail::plain_number<Number>(x);
}
template <value X, detail::number_like Number>
constexpr auto operator*(X x, Number) {
  return detail::plain_number<Number>(x);
}
template <detail::number_like Number, value X>
constexpr auto operator*(Number, X x) {
  return detail::plain_number<Number>(x);
}
template <value X, detail::number_like Number>
constexpr auto operator/(X x, Number) {
  return detail::plain_number<Number>(x);
}
template <detail::number_like Number, value X>
constexpr auto operator/(Number, X x) {
  return detail::plain_number<Number>(x);
}

template <auto A>
[[nodiscard]] constexpr auto operator-(expr<A> a) {
  return detail::unary<scalar_op::negate>(a);
}

template <auto A>
[[nodiscard]] constexpr auto abs(expr<A> a) {
  return detail::unary<scalar_op::abs>(a);
}

/// -1, 0 or 1.
template <auto A>
[[nodiscard]] constexpr auto sign(expr<A> a) {
  return detail::unary<scalar_op::sign>(a);
}

/// 1 / x.
template <auto A>
[[nodiscard]] constexpr auto reciprocal(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: reciprocal(x): x must be floats; cast it");
  return detail::unary<scalar_op::reciprocal>(a);
}

template <auto A>
[[nodiscard]] constexpr auto sqrt(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: sqrt(x): x must be floats; cast it");
  return detail::unary<scalar_op::sqrt>(a);
}

/// 1 / sqrt(x).
template <auto A>
[[nodiscard]] constexpr auto rsqrt(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: rsqrt(x): x must be floats; cast it");
  return detail::unary<scalar_op::rsqrt>(a);
}

template <auto A>
[[nodiscard]] constexpr auto exp(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: exp(x): x must be floats; cast it");
  return detail::unary<scalar_op::exp>(a);
}

/// Natural logarithm.
template <auto A>
[[nodiscard]] constexpr auto log(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: log(x): x must be floats; cast it");
  return detail::unary<scalar_op::log>(a);
}

/// Of radians. On a device NaN beyond |a| = 2^24, where neighbouring floats lie further apart than a radian.
template <auto A>
[[nodiscard]] constexpr auto sin(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: sin(x): x must be floats; cast it");
  return detail::unary<scalar_op::sin>(a);
}

/// Of radians; NaN beyond |a| = 2^24, as `sin`.
template <auto A>
[[nodiscard]] constexpr auto cos(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: cos(x): x must be floats; cast it");
  return detail::unary<scalar_op::cos>(a);
}

template <auto A>
[[nodiscard]] constexpr auto tanh(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: tanh(x): x must be floats; cast it");
  return detail::unary<scalar_op::tanh>(a);
}

/// 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
template <auto A>
[[nodiscard]] constexpr auto erf(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: erf(x): x must be floats; cast it");
  return detail::unary<scalar_op::erf>(a);
}

template <auto A>
[[nodiscard]] constexpr auto floor(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: floor(x): x must be floats; cast it");
  return detail::unary<scalar_op::floor>(a);
}

template <auto A>
[[nodiscard]] constexpr auto ceil(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: ceil(x): x must be floats; cast it");
  return detail::unary<scalar_op::ceil>(a);
}

/// To the nearest integer, ties to even.
template <auto A>
[[nodiscard]] constexpr auto round(expr<A> a) {
  static_assert(detail::is_float_dtype<A.root().type>, "meganeura: round(x): x must be floats; cast it");
  return detail::unary<scalar_op::round>(a);
}

/// The opposite condition.
template <auto A>
[[nodiscard]] constexpr auto logical_not(expr<A> a) {
  return detail::unary<scalar_op::logical_not>(a);
}

/// condition ? a : b, element by element.
/// errors: "extents must be equal or 1", "dtypes must agree", "the first operand must be a condition".
template <auto C, auto A, auto B>
[[nodiscard]] constexpr auto select(expr<C>, expr<A> a, expr<B> b) {
  static_assert(C.root().type == dtype::boolean,
                "meganeura: select(c, a, b): c must be a condition; compare with less, less_equal or equal");
  constexpr detail::extent_pair pair = detail::mismatch<A, B>;
  constexpr symbolic_shape values = detail::broadcast(*A.root().shape, *B.root().shape);
  constexpr detail::extent_pair whole = detail::broadcast_mismatch(*C.root().shape, values);
  static_assert(detail::extents_agree<pair.axis_from_end, pair.left, pair.right, pair.same_symbol> &&
                    detail::extents_agree<whole.axis_from_end, whole.left, whole.right, whole.same_symbol>,
                "meganeura: select(c, a, b): extents must be equal or 1");
  static_assert(detail::both_fit<A, B>, "meganeura: select(c, a, b): dtypes must agree; cast one operand");
  static_assert(detail::dtype_holds<detail::common_type<A, B>, detail::unfitting_number(A.root(), B.root())>,
                "meganeura: select(c, a, b): an integer takes whole numbers within its range; cast it to f32");
  constexpr dtype type = detail::common_type<A, B>;
  return detail::apply<detail::with_function(
                           detail::make_node(primitive::map, type,
                                             detail::interned_shape<detail::broadcast(*C.root().shape, values)>),
                           static_cast<int>(scalar_op::select)),
                       C, decltype(detail::adapted<type>(a))::graph, decltype(detail::adapted<type>(b))::graph>();
}

/// The same values in another dtype; float to integer truncates towards zero and saturates, a NaN gives 0.
template <dtype Type, auto A>
[[nodiscard]] constexpr auto cast(expr<A> a) {
  static_assert(Type != dtype::boolean, "meganeura: cast<type>(x): bool tensors do not exist; compare instead");
  if constexpr (Type == A.root().type || Type == dtype::boolean) {
    return a;
  } else {
    return detail::apply<detail::make_node(primitive::cast, Type, A.root().shape), A>();
  }
}

namespace detail {
// For composites whose steps leave what f16 holds (squares, exponentials, long sums): they are computed in f32 and cast
// back once, as PyTorch does it.
template <auto A>
constexpr auto widened(expr<A> a) {
  return cast<compute_type(A.root().type)>(a);
}
}  // namespace detail

/// The same values; no gradient flows back.
template <auto A>
[[nodiscard]] constexpr auto stop_gradient(expr<A>) {
  return detail::apply<detail::make_node(primitive::stop_gradient, A.root().type, A.root().shape), A>();
}

}  // namespace meganeura::inline MEGANEURA_ABI
