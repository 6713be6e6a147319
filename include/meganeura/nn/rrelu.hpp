// SPDX-License-Identifier: MIT
// The leaky relu of random slopes.
#pragma once
#include <meganeura/ops/activations.hpp>
#include <meganeura/ops/when_training.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace layers {
/// A stream of random numbers "slope", others every step.
struct rrelu {
  static constexpr auto forward(value auto x, detail::number low, detail::number high) {
    const auto with = [&](value auto slope) {
      return detail::narrowed(leaky_relu::forward(detail::widened(x), slope), x);
    };
    const auto drawn = [&] {
      return with(detail::random_of<"slope">(x, x.facts().shape) * (high.value - low.value) + low.value);
    };
    return when_training(x, drawn, [&] { return with(detail::number_of(x, (low.value + high.value) / 2)); });
  }
};
}  // namespace layers

/// leaky_relu with, in training, a slope for each element drawn uniformly between low and high, and evaluating their
/// mean: rrelu<"act">(x) for 1/8 and 1/3, rrelu<"act", 0.1, 0.2>(x), or rrelu("act", x, 0.1, 0.2) at run time. shapes,
/// dtypes: those of x, floats. Two of them have two names. source: arXiv 1505.00853. errors: "x must be floats", "low
/// must not be above high".
template <detail::name_like Name, value A, class Low, class High>
[[nodiscard]] constexpr auto rrelu(const Name& name, A x, Low low, High high) {
  MEGANEURA_EXPECT_FLOATS("rrelu<name, low, high>(x)", x, name)
  MEGANEURA_EXPECT(detail::number(low).value <= detail::number(high).value,
                   "meganeura: rrelu<name, low, high>(x): low must not be above high", name, x)
  return detail::layer<layers::rrelu>(name, x, low, high);
}
template <fixed_string Name, detail::number Low = 0.125, detail::number High = 1.0 / 3, value A>
[[nodiscard]] constexpr auto rrelu(A x) {
  return rrelu(fixed_text<Name>{}, x, c<Low>, c<High>);
}
MEGANEURA_UNNAMED(rrelu, "rrelu<name, low, high>(x)")

}  // namespace meganeura::inline MEGANEURA_ABI
