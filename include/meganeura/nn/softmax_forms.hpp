// SPDX-License-Identifier: MIT
// Softmax of the negative, with noise that makes it a sample, and with zeros.
#pragma once
#include <meganeura/nn/softmax.hpp>
#include <meganeura/ops/cumulative.hpp>
#include <meganeura/ops/custom_gradient.hpp>
#include <meganeura/ops/search.hpp>
#include <meganeura/ops/sort.hpp>
#include <meganeura/ops/when_training.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// temperature: what logits and noise are divided by, above 0; small ones come near to a choice. hard: the result is 1
/// at the largest element and 0 elsewhere, and the gradient that of what it was taken from.
struct gumbel_options {
  double temperature = 1;
  bool hard = false;
  friend constexpr bool operator==(const gumbel_options&, const gumbel_options&) = default;
};

namespace layers {

struct softmin {
  static constexpr auto forward(value auto x, int axis) { return softmax::forward(-x, axis); }
};

/// A stream of random numbers "noise", others every step.
struct gumbel_softmax {
  static constexpr auto forward(value auto x, int axis, gumbel_options options) {
    const auto wide = detail::widened(x);
    const auto share = [&](value auto y) { return softmax::forward(y * (1 / options.temperature), axis); };
    const auto drawn = [&] {
      const auto uniform = maximum(detail::random_of<"noise">(x, x.facts().shape), 0x1p-25);  // never 0
      return share(wide - log(-log(uniform)));
    };
    const auto soft = when_training(x, drawn, [&] { return share(wide); });
    if (!options.hard) return detail::narrowed(soft, x);
    const int along = detail::normal_axis(axis, x.facts().shape.rank);
    const auto pick = [&](value auto y) {
      const auto place = detail::make<detail::describe_place_of>(y, reduce_kind::arg_max, 1 << along);
      const auto chosen = equal(detail::coordinates_of(y, y.facts().shape, along), unsqueeze(place, along));
      return select(chosen, detail::number_of(y, 1), 0.0f);
    };
    const auto straight = [](value auto g, value auto, value auto) { return g; };
    return detail::narrowed(custom_gradient(pick, straight, soft), x);
  }
};

// The elements above the threshold are those whose sum, less the threshold for each, is 1.
struct sparsemax {
  static constexpr auto forward(value auto x, int axis) {
    const auto wide = detail::widened(x);
    const auto centred = wide - unsqueeze(stop_gradient(max(wide, axis)), axis);
    const auto fixed_part = stop_gradient(centred);
    const auto sorted =
        detail::make<detail::describe_take_along>(fixed_part, detail::order_of(fixed_part, axis, true), axis);
    const int along = detail::normal_axis(axis, x.facts().shape.rank);
    const auto turn = cast(detail::coordinates_of(x, x.facts().shape, along), dtype::f32) + 1;
    const auto sums = detail::make<detail::describe_cumulative>(sorted, axis, reduce_kind::sum, false);
    const auto held = less(sums, turn * sorted + 1);
    const auto count = max(select(held, turn, 0), axis);
    const auto threshold = (sum(select(held, sorted, 0), axis) - 1) / count;
    const auto above = less(unsqueeze(threshold, axis), fixed_part);
    const auto ones = sum(select(above, detail::number_of(x, 1), 0), axis);
    const auto exact = (sum(select(above, centred, 0), axis) - 1) / ones;
    return detail::narrowed(select(above, centred - unsqueeze(exact, axis), 0), x);
  }
};

}  // namespace layers

/// softmax(-x). As softmax. source: torch.nn.functional.softmin.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto softmin(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: softmin<axis>(x): x has no such axis", x)
  MEGANEURA_EXPECT_FLOATS("softmin<axis>(x)", x)
  return detail::layer<layers::softmin>(fixed_text<"">{}, x, axis);
}
template <int Axis = -1, value A>
[[nodiscard]] constexpr auto softmin(A x) {
  return softmin(x, c<Axis>);
}

/// A class drawn by its logits along `axis`, as shares that sum to 1: in training softmax((x + noise) / temperature) of
/// Gumbel noise, others for each element and step; evaluating without noise. gumbel_softmax<"choice", -1,
/// gumbel_options{.hard = true}>(x), or gumbel_softmax("choice", x, -1, options). Two of them have two names.
/// shapes: unchanged. dtypes: floats, computed in f32. errors: "x has no such axis", "x must be floats", "the
/// temperature must be above 0". source: arXiv 1611.01144; torch.nn.functional.gumbel_softmax has noise always.
template <detail::name_like Name, value A, detail::axis_like Axis, class Options>
[[nodiscard]] constexpr auto gumbel_softmax(const Name& name, A x, Axis axis, Options options) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: gumbel_softmax<name, axis>(x): x has no such axis", name,
                   x)
  MEGANEURA_EXPECT_FLOATS("gumbel_softmax<name, axis>(x)", x, name)
  MEGANEURA_EXPECT(gumbel_options(options).temperature > 0,
                   "meganeura: gumbel_softmax<name, axis>(x): the temperature must be above 0", name, x)
  return detail::layer<layers::gumbel_softmax>(name, x, axis, options);
}
template <fixed_string Name, int Axis = -1, gumbel_options Options = gumbel_options{}, value A>
[[nodiscard]] constexpr auto gumbel_softmax(A x) {
  return gumbel_softmax(fixed_text<Name>{}, x, c<Axis>, c<Options>);
}
MEGANEURA_UNNAMED(gumbel_softmax, "gumbel_softmax<name, axis>(x)")

/// The nearest point to x, along `axis`, whose elements are at least 0 and sum to 1: many are 0, unlike softmax's. A
/// row that holds NaN or +inf is NaN or 0. shapes: unchanged. dtypes: floats, computed in f32. errors: "x has no such
/// axis", "x must be floats". source: arXiv 1602.02068.
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto sparsemax(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: sparsemax<axis>(x): x has no such axis", x)
  MEGANEURA_EXPECT_FLOATS("sparsemax<axis>(x)", x)
  return detail::layer<layers::sparsemax>(fixed_text<"">{}, x, axis);
}
template <int Axis = -1, value A>
[[nodiscard]] constexpr auto sparsemax(A x) {
  return sparsemax(x, c<Axis>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
