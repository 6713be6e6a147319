// SPDX-License-Identifier: MIT
// Convolution and pooling over the last two axes.
#pragma once
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// In elements, the same along both axes; the names are PyTorch's.
struct conv2d_options {
  int kernel = 3, stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
  friend constexpr bool operator==(const conv2d_options&, const conv2d_options&) = default;
};

/// stride 0: the window, so that windows do not overlap.
struct pool2d_options {
  int window = 2, stride = 0, padding = 0;
  friend constexpr bool operator==(const pool2d_options&, const pool2d_options&) = default;
};

namespace detail {

constexpr std::int64_t window_positions(std::int64_t in, int window, int stride, int padding) {
  return in + 2 * padding < window ? 0 : (in + 2 * padding - window) / stride + 1;
}

constexpr bool window_fits(const symbolic_shape& x, int window, int stride, int padding) {
  return x.rank >= 2 && x.last(0).is_static() && x.last(1).is_static() && stride >= 1 && padding >= 0 &&
         window_positions(x.last(0).coefficient, window, stride, padding) >= 1 &&
         window_positions(x.last(1).coefficient, window, stride, padding) >= 1;
}

constexpr symbolic_shape windowed(symbolic_shape x, int window, int stride, int padding) {
  for (int i = x.rank - 2; i < x.rank; ++i) x[i] = window_positions(x[i].coefficient, window, stride, padding);
  return x;
}

template <reduce_kind Kind, pool2d_options Options, auto A>
constexpr auto window_reduce(expr<A>) {
  constexpr int window = Options.window, stride = Options.stride ? Options.stride : Options.window,
                pad = Options.padding;
  constexpr integer_list list{{2, window, window, 1, stride, stride, 1, pad, pad, 0, pad, pad, 0}};
  return apply<with_list(with_function(make_node(primitive::window_reduce, A.root().type,
                                                 interned_shape<windowed(*A.root().shape, window, stride, pad)>),
                                       static_cast<int>(Kind)),
                         interned_list<list>),
               A>();
}

template <pool2d_options Options>
constexpr bool pool_fits(const symbolic_shape& x) {
  return window_fits(x, Options.window, Options.stride ? Options.stride : Options.window, Options.padding);
}

}  // namespace detail

/// Correlation with a filter, as PyTorch's conv2d without a bias.
/// shapes: x [n, c, h, w], filter [o, c / groups, kernel, kernel] -> [n, o, oh, ow].
/// errors: "x must be [n, c, h, w] and the filter [o, c / groups, kh, kw]". cost: 2 n o oh ow (c / groups) kernel^2
/// flops.
template <conv2d_options Options, auto X, auto W>
[[nodiscard]] constexpr auto convolution(expr<X> x, expr<W>) {
  constexpr const symbolic_shape &in = *X.root().shape, &filter = *W.root().shape;
  constexpr int window = (Options.kernel - 1) * Options.dilation + 1;
  constexpr bool fits = in.rank == 4 && filter.rank == 4 && in[1] == filter[1] * Options.groups &&
                        filter[2] == dim{Options.kernel} && filter[3] == dim{Options.kernel} && Options.groups >= 1 &&
                        filter[0].coefficient % Options.groups == 0 && Options.dilation >= 1 &&
                        detail::window_fits(in, window, Options.stride, Options.padding);
  static_assert(fits,
                "meganeura: convolution<options>(x, filter): x must be [n, c, h, w] with room for the window, the "
                "filter [o, c / groups, kernel, kernel]");
  static_assert(detail::dtypes_agree<X.root().type, W.root().type>,
                "meganeura: convolution<options>(x, filter): dtypes must agree; cast one operand");
  if constexpr (fits) {
    constexpr int s = Options.stride, p = Options.padding, d = Options.dilation;
    constexpr detail::integer_list list{{2, s, s, 1, p, p, 0, p, p, 0, d, d, 1, Options.groups}};
    constexpr symbolic_shape out =
        detail::with_extent(detail::windowed(in, window, Options.stride, Options.padding), 1, filter[0]);
    return detail::apply<detail::with_list(
                             detail::make_node(primitive::convolution, X.root().type, detail::interned_shape<out>),
                             detail::interned_list<list>),
                         X, W>();
  } else {
    return x;
  }
}

/// The largest element of each window; padding never wins.
/// shapes: [.., h, w] -> [.., oh, ow]. errors: "the window must fit".
template <pool2d_options Options = pool2d_options{}, auto A>
[[nodiscard]] constexpr auto max_pool2d(expr<A> x) {
  constexpr bool fits = detail::pool_fits<Options>(*A.root().shape);
  static_assert(fits, "meganeura: max_pool2d<options>(x): the window must fit into [.., h, w] of known extents");
  if constexpr (fits) {
    return detail::window_reduce<reduce_kind::max, Options>(x);
  } else {
    return x;
  }
}

/// The mean of each window; padding counts as zeros (PyTorch's count_include_pad).
template <pool2d_options Options = pool2d_options{}, auto A>
[[nodiscard]] constexpr auto avg_pool2d(expr<A> x) {
  constexpr bool fits = detail::pool_fits<Options>(*A.root().shape);
  static_assert(fits, "meganeura: avg_pool2d<options>(x): the window must fit into [.., h, w] of known extents");
  if constexpr (fits) {
    return detail::window_reduce<reduce_kind::sum, Options>(x) * constant<1.0 / (Options.window * Options.window)>;
  } else {
    return x;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
