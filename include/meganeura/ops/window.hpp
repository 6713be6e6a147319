// SPDX-License-Identifier: MIT
// Convolution and pooling over the last axes.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// A number for each of up to three axes: 3 for all, or {3, 5}.
struct spatial {
  int at[max_spatial];
  constexpr spatial(int all) : at{all, all, all} {}
  constexpr spatial(int first, int second, int third = 0) : at{first, second, third} {}
  [[nodiscard]] constexpr int operator[](int axis) const { return at[axis]; }
  friend constexpr bool operator==(const spatial&, const spatial&) = default;
};

/// In elements; the names are PyTorch's. padding_high: behind, where it is not as before; -1: as before.
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

/// stride 0: the window, so that windows do not overlap. ceil_mode: windows may end behind the padding, as long as they
/// begin before it. Averages have no dilation, and only they count padding or not.
struct pool_options {
  spatial window = 2, stride = 0, padding = 0, dilation = 1;
  bool ceil_mode = false, count_include_pad = true;
  friend constexpr bool operator==(const pool_options&, const pool_options&) = default;
};
using pool2d_options = pool_options;

namespace detail {

constexpr int high_padding(const conv_options& o, int axis) {
  return o.padding_high[axis] < 0 ? o.padding[axis] : o.padding_high[axis];
}

constexpr convolution_attribute geometry_of(const conv_options& o, int axes) {
  convolution_attribute result{.spatial = axes, .groups = o.groups};
  for (int i = 0; i < axes; ++i) {
    result.stride[i] = o.stride[i], result.dilation[i] = o.dilation[i];
    result.pad_low[i] = o.padding[i], result.pad_high[i] = high_padding(o, i);
  }
  return result;
}

// How windows lie along one axis.
struct pool_axis {
  std::int64_t in, window, stride, padding, dilation, high, count;

  constexpr pool_axis(std::int64_t extent, const pool_options& o, int axis)
      : in(extent),
        window(o.window[axis]),
        stride(o.stride[axis] != 0 ? o.stride[axis] : window),
        padding(o.padding[axis]),
        dilation(o.dilation[axis]),
        high(padding),
        count(along().count()) {
    if (!o.ceil_mode || count < 1) return;
    const bool more = (along().padded() - along().reach()) % stride != 0 && count * stride < in + padding;
    count += more ? 1 : 0;
    high += more ? (count - 1) * stride + along().reach() - along().padded() : 0;
  }
  [[nodiscard]] constexpr window_axis along() const { return {in, window, dilation, stride, padding, high}; }
};

constexpr pool_axis pool_axis_of(const symbolic_shape& x, const pool_options& o, int axes, int axis) {
  return {x[x.rank - axes + axis].coefficient, o, axis};
}

constexpr window_attribute geometry_of(const symbolic_shape& x, const pool_options& o, int axes, reduce_kind kind) {
  window_attribute result{.kind = kind, .spatial = axes};
  for (int i = 0; i < axes; ++i) {
    const pool_axis along = pool_axis_of(x, o, axes, i);
    result.window[i] = along.window, result.stride[i] = along.stride;
    result.pad_low[i] = along.padding, result.pad_high[i] = along.high;
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

constexpr bool can_pool(const symbolic_shape& x, const pool_options& o, int axes) {
  if (x.rank < axes) return false;
  for (int i = 0; i < axes; ++i) {
    if (!x[x.rank - axes + i].is_static() || pool_axis_of(x, o, axes, i).count < 1) return false;
  }
  return true;
}
constexpr bool is_dilated(const pool_options& o, int axes) {
  for (int i = 0; i < axes; ++i) {
    if (o.dilation[i] != 1) return true;
  }
  return false;
}
constexpr bool can_average(const symbolic_shape& x, const pool_options& o, int axes) {
  return can_pool(x, o, axes) && !is_dilated(o, axes);
}

constexpr node_spec describe_pool(const facts& x, reduce_kind kind, const pool_options& o, int axes) {
  const window_attribute geometry = geometry_of(x.shape, o, axes, kind);
  return node_of(op::window_reduce, x.type, window_shape(geometry, x.shape), geometry);
}

constexpr auto window_sums(value auto x, const pool_options& o, int axes) {
  return x.added(describe_pool(x.facts(), reduce_kind::sum, o, axes), &x, 1);
}

}  // namespace detail

namespace layers {

/// Windows with gaps are the largest of shifted looks at x, an axis after the other.
struct max_pool {
  static constexpr auto forward(value auto x, pool_options options, int axes) {
    if (!detail::is_dilated(options, axes))
      return x.added(detail::describe_pool(x.facts(), reduce_kind::max, options, axes), &x, 1);
    for (int i = 0; i < axes; ++i) {
      const int axis = x.facts().shape.rank - axes + i;
      const detail::pool_axis along = detail::pool_axis_of(x.facts().shape, options, axes, i);
      const double least = is_float(x.facts().type) ? -__builtin_inf() : lowest(x.facts().type);
      const auto padded = pad(x, axis, along.padding, along.high, least);
      x = slice(padded, axis, 0, along.count, along.stride);
      for (std::int64_t tap = 1; tap < along.window; ++tap)
        x = maximum(x, slice(padded, axis, tap * along.dilation, along.count, along.stride));
    }
    return x;
  }
};

/// Where windows hold unlike numbers of elements, the share of each is computed from its place.
struct avg_pool {
  static constexpr auto forward(value auto x, pool_options options, int axes) {
    auto y = detail::window_sums(detail::widened(x), options, axes);
    double share = 1;
    for (int i = 0; i < axes; ++i) {
      const detail::pool_axis along = detail::pool_axis_of(x.facts().shape, options, axes, i);
      if (along.high == along.padding && (options.count_include_pad || along.padding == 0)) {
        share /= static_cast<double>(along.window);
      } else {
        y = y / held(y, along, y.facts().shape.rank - axes + i, options.count_include_pad);
      }
    }
    return detail::narrowed(share == 1 ? y : y * share, x);
  }

 private:
  // Of each window along the axis the number of elements: [count, 1, ..].
  static constexpr auto held(value auto y, const detail::pool_axis& along, int axis, bool with_padding) {
    symbolic_shape shape = detail::extents_of(along.count);
    while (shape.rank < y.facts().shape.rank - axis) shape.push_back(1);
    const std::int64_t border = with_padding ? along.padding : 0;
    const auto first = detail::coordinates_of(y, shape, 0) * along.stride - along.padding;
    return cast<dtype::f32>(minimum(first + along.window, along.in + border) - maximum(first, -border));
  }
};

}  // namespace layers

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

/// The largest element of each window; padding never wins. gradient: to the first of equal elements, in rows; with
/// dilation in halves.
/// shapes: [.., h, w] -> [.., oh, ow]. errors: "the window must fit".
template <value A, class Options>
[[nodiscard]] constexpr auto max_pool2d(A x, Options options) {
  MEGANEURA_EXPECT(detail::can_pool(x.facts().shape, options, 2),
                   "meganeura: max_pool2d<options>(x): the window must fit into [.., h, w] of known extents", x)
  return detail::layer<layers::max_pool>(fixed_text<"">{}, x, options, c<2>);
}
template <pool_options Options = pool_options{}, value A>
[[nodiscard]] constexpr auto max_pool2d(A x) {
  return max_pool2d(x, c<Options>);
}

/// The mean of each window; padding counts as zeros unless count_include_pad says no.
/// shapes: as max_pool2d. dtypes: floats, summed in f32. errors: "x must be floats", "the window must fit, without
/// dilation".
template <value A, class Options>
[[nodiscard]] constexpr auto avg_pool2d(A x, Options options) {
  MEGANEURA_EXPECT(is_float(x.facts().type), "meganeura: avg_pool2d<options>(x): x must be floats; cast it", x)
  MEGANEURA_EXPECT(detail::can_average(x.facts().shape, options, 2),
                   "meganeura: avg_pool2d<options>(x): the window must fit into [.., h, w] of known extents, without "
                   "dilation",
                   x)
  return detail::layer<layers::avg_pool>(fixed_text<"">{}, x, options, c<2>);
}
template <pool_options Options = pool_options{}, value A>
[[nodiscard]] constexpr auto avg_pool2d(A x) {
  return avg_pool2d(x, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
