// SPDX-License-Identifier: MIT
// Convolution and pooling over the last two axes.
#pragma once
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// In elements, the same along both axes; the names are PyTorch's.
struct conv2d_options {
  int kernel = 3, stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
  initializer weight = init::fan_in_uniform;
  initializer bias_begin = init::fan_in_uniform;  // the fan_in is the weight's
  friend constexpr bool operator==(const conv2d_options&, const conv2d_options&) = default;
};

/// stride 0: the window, so that windows do not overlap.
struct pool2d_options {
  int window = 2, stride = 0, padding = 0;
  friend constexpr bool operator==(const pool2d_options&, const pool2d_options&) = default;
};

namespace detail {

constexpr convolution_attribute geometry_of(const conv2d_options& o) {
  return {.stride = {o.stride, o.stride, 1},
          .pad_low = {o.padding, o.padding, 0},
          .pad_high = {o.padding, o.padding, 0},
          .dilation = {o.dilation, o.dilation, 1},
          .groups = o.groups};
}

constexpr window_attribute geometry_of(const pool2d_options& o, reduce_kind kind) {
  const int stride = o.stride != 0 ? o.stride : o.window;
  return {.kind = kind,
          .window = {o.window, o.window, 1},
          .stride = {stride, stride, 1},
          .pad_low = {o.padding, o.padding, 0},
          .pad_high = {o.padding, o.padding, 0}};
}

constexpr bool can_convolve(const symbolic_shape& x, const symbolic_shape& filter, const conv2d_options& o) {
  return filter.rank == 4 && filter[2] == dim{o.kernel} && filter[3] == dim{o.kernel} &&
         convolution_shape(geometry_of(o), x, filter).rank == 4;
}

constexpr node_spec describe_convolution(const facts& x, const facts& filter, const conv2d_options& o) {
  const convolution_attribute geometry = geometry_of(o);
  return node_of(op::convolution, x.type, convolution_shape(geometry, x.shape, filter.shape), geometry);
}

// Of a filter that the layer makes itself.
constexpr bool has_room(const symbolic_shape& x, const conv2d_options& o) {
  return can_convolve(x, extents_of(o.groups, x[1].coefficient / o.groups, o.kernel, o.kernel), o);
}

constexpr bool can_pool(const symbolic_shape& x, const pool2d_options& o) {
  return window_shape(geometry_of(o, reduce_kind::max), x).rank >= 2;
}

constexpr node_spec describe_pool(const facts& x, reduce_kind kind, const pool2d_options& o) {
  const window_attribute geometry = geometry_of(o, kind);
  return node_of(op::window_reduce, x.type, window_shape(geometry, x.shape), geometry);
}

constexpr node_spec describe_window_share(const facts& x, const pool2d_options& o) {
  return constant_spec(1.0 / (o.window * o.window), x.type);
}

}  // namespace detail

/// Correlation with a filter, as PyTorch's conv2d without a bias.
/// shapes: x [n, c, h, w], filter [o, c / groups, kernel, kernel] -> [n, o, oh, ow].
/// errors: "both must be floats of one dtype", "x must be [n, c, h, w] with room for the window, the filter [o, c /
/// groups, kernel, kernel]". cost: 2 n o oh ow (c / groups) kernel^2 flops.
template <value X, value W, class Options>
[[nodiscard]] constexpr auto convolution(X x, W filter, Options options) {
  MEGANEURA_EXPECT(detail::floats_of_one_type(x.facts(), filter.facts()),
                   "meganeura: convolution<options>(x, filter): both must be floats of one dtype; cast them", x, filter)
  MEGANEURA_EXPECT(detail::can_convolve(x.facts().shape, filter.facts().shape, options),
                   "meganeura: convolution<options>(x, filter): x must be [n, c, h, w] with room for the window, the "
                   "filter [o, c / groups, kernel, kernel]",
                   x, filter)
  return detail::make<detail::describe_convolution>(x, filter, options);
}
template <conv2d_options Options, value X, value W>
[[nodiscard]] constexpr auto convolution(X x, W filter) {
  return convolution(x, filter, c<Options>);
}

/// The largest element of each window; padding never wins.
/// shapes: [.., h, w] -> [.., oh, ow]. errors: "the window must fit".
template <value A, class Options>
[[nodiscard]] constexpr auto max_pool2d(A x, Options options) {
  MEGANEURA_EXPECT(detail::can_pool(x.facts().shape, options),
                   "meganeura: max_pool2d<options>(x): the window must fit into [.., h, w] of known extents", x)
  return detail::make<detail::describe_pool>(x, c<reduce_kind::max>, options);
}
template <pool2d_options Options = pool2d_options{}, value A>
[[nodiscard]] constexpr auto max_pool2d(A x) {
  return max_pool2d(x, c<Options>);
}

/// The mean of each window; padding counts as zeros (PyTorch's count_include_pad).
/// shapes: as max_pool2d. errors: "x must be floats", "the window must fit".
template <value A, class Options>
[[nodiscard]] constexpr auto avg_pool2d(A x, Options options) {
  MEGANEURA_EXPECT(is_float(x.facts().type), "meganeura: avg_pool2d<options>(x): x must be floats; cast it", x)
  MEGANEURA_EXPECT(detail::can_pool(x.facts().shape, options),
                   "meganeura: avg_pool2d<options>(x): the window must fit into [.., h, w] of known extents", x)
  return detail::make<detail::describe_pool>(x, c<reduce_kind::sum>, options) *
         detail::make<detail::describe_window_share>(x, options);
}
template <pool2d_options Options = pool2d_options{}, value A>
[[nodiscard]] constexpr auto avg_pool2d(A x) {
  return avg_pool2d(x, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
