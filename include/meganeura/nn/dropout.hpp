// SPDX-License-Identifier: MIT
// Dropout.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// Zero with probability `Probability`, else x / (1 - Probability). It always drops: leave it out of the model that is
/// evaluated. `Stream` names the random numbers, so that two dropouts of one body are independent.
template <fixed_string Stream, detail::number Probability, auto A>
[[nodiscard]] constexpr auto dropout(expr<A> x) {
  static_assert(Probability.value >= 0 && Probability.value < 1,
                "meganeura: dropout<stream, probability>(x): the probability must be in [0, 1)");
  auto kept = less_equal(constant<Probability>, random<Stream, *A.root().shape>);
  return select(kept, x * constant<1 / (1 - Probability.value)>, constant<0.0f>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
