// SPDX-License-Identifier: MIT
// Softmax and its logarithm along one axis.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
// x less its largest element along the axis; the shift cancels, so no gradient flows through the maximum.
constexpr auto shifted_by_max(value auto x, int axis) { return x - unsqueeze(stop_gradient(max(x, axis)), axis); }
}  // namespace detail

namespace layers {

struct softmax {
  static constexpr auto forward(value auto x, int axis) {
    const auto numerator = exp(detail::shifted_by_max(detail::widened(x), axis));
    return detail::narrowed(numerator / unsqueeze(sum(numerator, axis), axis), x);
  }
};

struct log_softmax {
  static constexpr auto forward(value auto x, int axis) {
    const auto shifted = detail::shifted_by_max(detail::widened(x), axis);
    return detail::narrowed(shifted - unsqueeze(log(sum(exp(shifted), axis)), axis), x);
  }
};

}  // namespace layers

/// exp(x) / sum(exp(x)) along `axis` (negative: from the end), shifted by the maximum so that it cannot overflow:
/// softmax<-1>(x), or softmax(x, -1).
/// A row that holds NaN or +inf, or nothing but -inf, is NaN; -inf beside numbers is 0 (as PyTorch's).
/// shapes: unchanged. dtypes: floats, computed in f32. cost: reads and writes x once when fused, 4 flops an element.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto softmax(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: softmax<axis>(x): x has no such axis", x)
  MEGANEURA_EXPECT_FLOATS("softmax<axis>(x)", x)
  return detail::layer<layers::softmax>(fixed_text<"">{}, x, axis);
}
template <int Axis = -1, value A>
[[nodiscard]] constexpr auto softmax(A x) {
  return softmax(x, c<Axis>);
}

/// log(softmax(x)) without the loss of precision of taking the logarithm afterwards; rows that are not finite as there.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto log_softmax(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: log_softmax<axis>(x): x has no such axis", x)
  MEGANEURA_EXPECT_FLOATS("log_softmax<axis>(x)", x)
  return detail::layer<layers::log_softmax>(fixed_text<"">{}, x, axis);
}
template <int Axis = -1, value A>
[[nodiscard]] constexpr auto log_softmax(A x) {
  return log_softmax(x, c<Axis>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
