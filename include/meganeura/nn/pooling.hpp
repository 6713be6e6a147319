// SPDX-License-Identifier: MIT
// The largest and the mean of windows over one to three axes.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/elementwise.hpp>
#include <meganeura/ops/spatial.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// In elements, along each axis; names are PyTorch's. stride 0: the window, so that windows do not overlap. padding: at
/// both ends, at most half of the window. dilation: from one element of a window to the next. ceil_mode: windows may
/// end behind the padding, as long as they begin before it. Averages have no dilation, and only they count padding or
/// not.
struct pool_options {
  spatial window = 2, stride = 0, padding = 0, dilation = 1;
  bool ceil_mode = false, count_include_pad = true;
  friend constexpr bool operator==(const pool_options&, const pool_options&) = default;
};
using pool2d_options = pool_options;

namespace detail {

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

constexpr bool can_pool(const symbolic_shape& x, const pool_options& o, int axes) {
  if (x.rank < axes) return false;
  for (int i = 0; i < axes; ++i) {
    if (!x[x.rank - axes + i].is_static()) return false;
    const pool_axis along = pool_axis_of(x, o, axes, i);
    if (along.count < 1) return false;
    // A window of padding alone would have no largest element and no mean.
    if (along.padding > 0 && (2 * along.padding > along.along().reach() || along.dilation > along.in)) return false;
  }
  return true;
}
constexpr bool is_dilated(const pool_options& o, int axes) {
  for (int i = 0; i < axes; ++i) {
    if (o.dilation[i] != 1) return true;
  }
  return false;
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
  static constexpr bool takes(dtype) { return true; }
  static constexpr bool fits(const symbolic_shape& x, const pool_options& o, int axes) {
    return detail::can_pool(x, o, axes);
  }
  static constexpr auto forward(value auto x, pool_options options, int axes) {
    if (!detail::is_dilated(options, axes))
      return x.added(detail::describe_pool(x.facts(), reduce_kind::max, options, axes), &x, 1);
    for (int i = 0; i < axes; ++i) {
      const int axis = x.facts().shape.rank - axes + i;
      const detail::pool_axis along = detail::pool_axis_of(x.facts().shape, options, axes, i);
      const double least = is_float(x.facts().type) ? -__builtin_inf() : lowest(x.facts().type);
      const auto padded = pad(x, axis, along.padding, along.high, least);
      x = slice(padded, axis, 0, along.count, along.stride);
      for (std::int64_t place = 1; place < along.window; ++place)
        x = maximum(x, slice(padded, axis, place * along.dilation, along.count, along.stride));
    }
    return x;
  }
};

/// Where windows hold unlike numbers of elements, the share of each is computed from its place.
struct avg_pool {
  static constexpr bool takes(dtype type) { return is_float(type); }
  static constexpr bool fits(const symbolic_shape& x, const pool_options& o, int axes) {
    return detail::can_pool(x, o, axes) && !detail::is_dilated(o, axes);
  }
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
    const symbolic_shape shape = detail::followed_by_ones(detail::extents_of(along.count), y.facts().shape.rank - axis);
    const std::int64_t border = with_padding ? along.padding : 0;
    const auto first = detail::coordinates_of(y, shape, 0) * along.stride - along.padding;
    return cast<dtype::f32>(minimum(first + along.window, along.in + border) - maximum(first, -border));
  }
};

}  // namespace layers

/// max_pool1d<options>(x), or max_pool1d(x, options), max_pool2d and max_pool3d: the largest element of each window;
/// padding never wins. gradient: to the first of equal elements, in rows; with dilation in halves.
/// shapes: [.., w] -> [.., ow], [.., h, w] -> [.., oh, ow], [.., d, h, w] -> [.., od, oh, ow].
/// errors: "the window must fit into [.., h, w] of known extents, and padding fill at most half of it".
MEGANEURA_WINDOW(max_pool1d, 1, "[.., w]", max_pool, pool_options Options = pool_options{}, "options",
                 "the window must fit into ", " of known extents, and padding fill at most half of it")
MEGANEURA_WINDOW(max_pool2d, 2, "[.., h, w]", max_pool, pool_options Options = pool_options{}, "options",
                 "the window must fit into ", " of known extents, and padding fill at most half of it")
MEGANEURA_WINDOW(max_pool3d, 3, "[.., d, h, w]", max_pool, pool_options Options = pool_options{}, "options",
                 "the window must fit into ", " of known extents, and padding fill at most half of it")

/// avg_pool1d<options>(x), or avg_pool1d(x, options), avg_pool2d and avg_pool3d: the mean of each window; padding
/// counts as zeros unless count_include_pad says no. shapes: as max_pool. dtypes: floats, summed in f32. errors: "x
/// must be floats", as max_pool, "without dilation".
MEGANEURA_WINDOW(avg_pool1d, 1, "[.., w]", avg_pool, pool_options Options = pool_options{}, "options",
                 "the window must fit into ",
                 " of known extents, without dilation, and padding fill at most half of it")
MEGANEURA_WINDOW(avg_pool2d, 2, "[.., h, w]", avg_pool, pool_options Options = pool_options{}, "options",
                 "the window must fit into ",
                 " of known extents, without dilation, and padding fill at most half of it")
MEGANEURA_WINDOW(avg_pool3d, 3, "[.., d, h, w]", avg_pool, pool_options Options = pool_options{}, "options",
                 "the window must fit into ",
                 " of known extents, without dilation, and padding fill at most half of it")

}  // namespace meganeura::inline MEGANEURA_ABI
