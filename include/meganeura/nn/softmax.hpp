// SPDX-License-Identifier: MIT
// Softmax and its logarithm along one axis.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
// x less its largest element along the axis; the shift cancels, so no gradient flows through the maximum.
template <int Axis, auto A>
constexpr auto shifted_by_max(expr<A> x) {
  return x - unsqueeze<Axis>(stop_gradient(max<Axis>(x)));
}
}  // namespace detail

namespace modules {

template <int Axis>
struct softmax {
  static constexpr auto forward(value auto x) {
    auto numerator = exp(detail::shifted_by_max<Axis>(detail::widened(x)));
    return cast<decltype(x)::element_type>(numerator / unsqueeze<Axis>(sum<Axis>(numerator)));
  }
};

template <int Axis>
struct log_softmax {
  static constexpr auto forward(value auto x) {
    auto shifted = detail::shifted_by_max<Axis>(detail::widened(x));
    return cast<decltype(x)::element_type>(shifted - unsqueeze<Axis>(log(sum<Axis>(exp(shifted)))));
  }
};

}  // namespace modules

/// exp(x) / sum(exp(x)) along `Axis` (negative: from the end), shifted by the maximum so that it cannot overflow.
/// A row that holds NaN or +inf, or nothing but -inf, is NaN; -inf beside numbers is 0 (as PyTorch's).
/// shapes: unchanged. dtypes: floats, computed in f32. cost: reads and writes x once when fused, 4 flops an element.
template <int Axis = -1, auto A>
[[nodiscard]] constexpr auto softmax(expr<A> x) {
  constexpr int rank = A.root().shape->rank;
  constexpr bool floats = is_float(A.root().type);
  static_assert(detail::axis_exists<Axis, rank>, "meganeura: softmax<axis>(x): x has no such axis");
  static_assert(floats, "meganeura: softmax<axis>(x): x must be floats; cast it");
  if constexpr (detail::axis_exists<Axis, rank> && floats) {
    return call<"", modules::softmax<detail::normal_axis(Axis, rank)>>(x);
  } else {
    return x;
  }
}

/// log(softmax(x)) without the loss of precision of taking the logarithm afterwards; rows that are not finite as there.
template <int Axis = -1, auto A>
[[nodiscard]] constexpr auto log_softmax(expr<A> x) {
  constexpr int rank = A.root().shape->rank;
  constexpr bool floats = is_float(A.root().type);
  static_assert(detail::axis_exists<Axis, rank>, "meganeura: log_softmax<axis>(x): x has no such axis");
  static_assert(floats, "meganeura: log_softmax<axis>(x): x must be floats; cast it");
  if constexpr (detail::axis_exists<Axis, rank> && floats) {
    return call<"", modules::log_softmax<detail::normal_axis(Axis, rank)>>(x);
  } else {
    return x;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
