// SPDX-License-Identifier: MIT
// Dropout.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/elementwise.hpp>
#include <meganeura/ops/when_training.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
constexpr bool is_probability(number p) { return p.value >= 0 && p.value <= 1; }

// kept() in training, where there is something to draw.
template <class Kept>
constexpr auto dropped(value auto x, number p, const Kept& kept) {
  if (p.value == 0) return x;
  return when_training(
      x, [&] { return p.value == 1 ? x * 0.0 : kept(); }, [&] { return x; });
}
}  // namespace detail

namespace layers {
/// A stream of random numbers "mask", others every step.
struct dropout {
  static constexpr auto forward(value auto x, detail::number p) {
    return detail::dropped(x, p, [&] {
      const auto drawn = detail::random_of<"mask">(x, x.facts().shape);
      return detail::narrowed(select(less(drawn, p.value), 0.0, detail::widened(x) * (1 / (1 - p.value))), x);
    });
  }
};
}  // namespace layers

/// As torch.nn.Dropout: in training each element is 0 with probability p and x / (1 - p) otherwise; evaluating, x.
/// p of 0 is x itself, p of 1 is x * 0; neither draws anything.
/// dropout<"drop", 0.1>(x), or dropout("drop", x, 0.1) at run time. shapes, dtypes: those of x, floats. Two dropouts
/// have two names. gradient: 0 where x was dropped. source: arXiv 1207.0580.
/// errors: "p must be from 0 to 1", "x must be floats".
template <detail::name_like Name, value A, class P>
[[nodiscard]] constexpr auto dropout(const Name& name, A x, P p) {
  MEGANEURA_EXPECT(detail::is_probability(p), "meganeura: dropout<name, p>(x): p must be from 0 to 1", name, x)
  MEGANEURA_EXPECT_FLOATS("dropout<name, p>(x)", x, name)
  return detail::layer<layers::dropout>(name, x, p);
}
template <fixed_string Name, detail::number P, value A>
[[nodiscard]] constexpr auto dropout(A x) {
  return dropout(fixed_text<Name>{}, x, c<P>);
}
MEGANEURA_UNNAMED(dropout, "dropout<name, p>(x)")

}  // namespace meganeura::inline MEGANEURA_ABI
