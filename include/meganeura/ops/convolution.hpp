// SPDX-License-Identifier: MIT
// Convolution over the last axes.
#pragma once
#include <meganeura/ops/spatial.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// The names and defaults are PyTorch's, but for kernel, which has none there; numbers are of elements, along each
/// axis. stride: from one window to the next. padding: zeros around x, which infinite filters, or of a
/// filter's gradient infinite ones of the result, make NaN of on some devices; padding_high: those behind, where they
/// are not as many as before; -1: as many. dilation: from one element of the kernel to the next. groups: parts of the
/// channels, each convolved with filters of its own. bias, of the layers: a number added to each channel; weight,
/// bias_begin: how theirs begin.
struct conv_options {
  spatial kernel = 3, stride = 1, padding = 0, dilation = 1;
  int groups = 1;
  bool bias = true;
  initializer weight = init::fan_in_uniform;
  initializer bias_begin = init::fan_in_uniform;  // the fan_in is the weight's
  spatial padding_high = -1;
  friend constexpr bool operator==(const conv_options&, const conv_options&) = default;
};
using conv2d_options = conv_options;

namespace detail {

constexpr int high_padding(const conv_options& o, int axis) {
  return o.padding_high[axis] == -1 ? o.padding[axis] : o.padding_high[axis];
}

constexpr convolution_attribute geometry_of(const conv_options& o, int axes) {
  convolution_attribute result{.spatial = axes, .groups = o.groups};
  for (int i = 0; i < axes; ++i) {
    result.stride[i] = o.stride[i], result.dilation[i] = o.dilation[i];
    result.pad_low[i] = o.padding[i], result.pad_high[i] = high_padding(o, i);
  }
  return result;
}

constexpr bool can_convolve(const symbolic_shape& x, const symbolic_shape& filter, const conv_options& o) {
  const int axes = x.rank - 2;
  for (int i = 0; i < axes && i < max_spatial; ++i) {
    if (filter.rank != x.rank || filter[i + 2] != dim{o.kernel[i]}) return false;
  }
  return axes >= 1 && axes <= max_spatial && convolution_shape(geometry_of(o, axes), x, filter).rank >= 3;
}

constexpr node_spec describe_convolution(const facts& x, const facts& filter, const conv_options& o) {
  const convolution_attribute geometry = geometry_of(o, x.shape.rank - 2);
  return node_of(op::convolution, x.type, convolution_shape(geometry, x.shape, filter.shape), geometry);
}

// [out, in, kernel..]
constexpr symbolic_shape filter_shape(std::int64_t out, std::int64_t in, const conv_options& o, int axes) {
  symbolic_shape result = extents_of(out, in);
  for (int i = 0; i < axes; ++i) result.push_back(o.kernel[i]);
  return result;
}

// Of a filter that the layer makes itself.
constexpr bool has_room(const symbolic_shape& x, const conv_options& o) {
  return can_convolve(x, filter_shape(o.groups, x[1].coefficient / o.groups, o, x.rank - 2), o);
}

}  // namespace detail

/// Correlation with a filter, as PyTorch's conv1d, conv2d and conv3d without a bias.
/// shapes: x [n, c, h, w], filter [o, c / groups, kernel, kernel] -> [n, o, oh, ow]; or of one or three axes.
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
template <conv_options Options, value X, value W>
[[nodiscard]] constexpr auto convolution(X x, W filter) {
  return convolution(x, filter, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
