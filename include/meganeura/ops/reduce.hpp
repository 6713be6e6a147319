// SPDX-License-Identifier: MIT
// Reductions over axes.
#pragma once
#include <meganeura/ops/elementwise.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// No axes named: all of them, as in NumPy and PyTorch. Axes that do not exist are left out: they break a rule.
template <class... Axes>
constexpr int axis_bits(int rank, Axes... axes) {
  if (sizeof...(Axes) == 0) return (1 << rank) - 1;
  return ((normal_axis(axes, rank) >= 0 ? 1 << normal_axis(axes, rank) : 0) | ... | 0);
}

template <class... Axes>
constexpr bool axes_exist([[maybe_unused]] int rank, Axes... axes) {
  return ((normal_axis(axes, rank) >= 0) && ...);
}

template <class... Axes>
constexpr bool axes_differ([[maybe_unused]] int rank, Axes... axes) {
  int named[max_rank + 1]{};
  ((normal_axis(axes, rank) >= 0 ? ++named[normal_axis(axes, rank)] : 0), ...);
  for (const int times : named) {
    if (times > 1) return false;
  }
  return true;
}

// `bits`: bit i for axis i.
constexpr node_spec describe_reduce_of(const facts& x, reduce_kind kind, int bits) {
  const auto axes = static_cast<std::uint32_t>(bits);
  if (bits == 0) return {};
  return node_of(op::reduce, x.type, reduced_shape(x.shape, axes), reduce_attribute{kind, axes});
}

template <class... Axes>
constexpr node_spec describe_reduce(const facts& x, reduce_kind kind, Axes... axes) {
  return describe_reduce_of(x, kind, axis_bits(x.shape.rank, axes...));
}

// One over the number of elements, which may hold symbols: a constant once they are bound.
constexpr node_spec describe_share_of(const facts& x, int bits) {
  return {.kind = primitive::element_count, .type = compute_type(x.type), .count = bits};
}
template <class... Axes>
constexpr node_spec describe_share(const facts& x, Axes... axes) {
  return describe_share_of(x, axis_bits(x.shape.rank, axes...));
}

// An int for each.
template <class... T>
inline constexpr auto reduce_description = &describe_reduce<std::conditional_t<true, int, T>...>;
template <class... T>
inline constexpr auto share_description = &describe_share<std::conditional_t<true, int, T>...>;

template <value A, class... Axes>
constexpr auto mean_over(A x, Axes... axes) {
  return narrowed(make<reduce_description<Axes...>>(widened(x), c<reduce_kind::sum>, axes...) *
                      make<share_description<Axes...>>(x, axes...),
                  x);
}

}  // namespace detail

/// Sum over axes, which disappear; negative axes count from the end: sum<-1>(x), or sum(x, -1). Without axes, over all:
/// sum(x) is one number. max, min, product and mean likewise.
/// shapes: [.., n, ..] -> [.., ..]. cost: reads x once, one flop an element. gradient: of max and min to the first of
/// equal elements, as torch.max of an axis (amax shares it). errors: "x has no such axis", "an axis is named twice".
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto sum(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("sum<axes...>(x)", x, c<Axes>..., axes...)
  MEGANEURA_EXPECT_SUMS("sum<axes...>(x)", x)
  return detail::make<detail::reduce_description<fixed<Axes>..., More...>>(x, c<reduce_kind::sum>, c<Axes>..., axes...);
}

template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto max(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("max<axes...>(x)", x, c<Axes>..., axes...)
  return detail::make<detail::reduce_description<fixed<Axes>..., More...>>(x, c<reduce_kind::max>, c<Axes>..., axes...);
}

template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto min(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("min<axes...>(x)", x, c<Axes>..., axes...)
  return detail::make<detail::reduce_description<fixed<Axes>..., More...>>(x, c<reduce_kind::min>, c<Axes>..., axes...);
}

template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto product(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("product<axes...>(x)", x, c<Axes>..., axes...)
  MEGANEURA_EXPECT_SUMS("product<axes...>(x)", x)
  return detail::make<detail::reduce_description<fixed<Axes>..., More...>>(x, c<reduce_kind::product>, c<Axes>...,
                                                                           axes...);
}

/// Mean over axes. The number of elements may hold symbols: it is a constant once they are bound. The mean of f16 is
/// computed in f32 and rounded once.
/// errors: as sum, and "x must be floats": a share of 1/n is no integer.
template <int... Axes, value A, detail::axis_like... More>
[[nodiscard]] constexpr auto mean(A x, More... axes) {
  MEGANEURA_EXPECT_AXES("mean<axes...>(x)", x, c<Axes>..., axes...)
  MEGANEURA_EXPECT(is_float(x.facts().type), "meganeura: mean<axes...>(x): x must be floats; cast it", x)
  return detail::mean_over(x, c<Axes>..., axes...);
}

}  // namespace meganeura::inline MEGANEURA_ABI
