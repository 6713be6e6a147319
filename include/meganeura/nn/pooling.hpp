// SPDX-License-Identifier: MIT
// The largest and the mean of windows over one to three axes.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/elementwise.hpp>
#include <meganeura/ops/view.hpp>
#include <meganeura/ops/window.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// stride 0: the window, so that windows do not overlap. ceil_mode: windows may end behind the padding, as long as they
/// begin before it. Averages have no dilation, and only they count padding or not.
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

/// max_pool2d of [.., w]: PyTorch's max_pool1d.
template <value A, class Options>
[[nodiscard]] constexpr auto max_pool1d(A x, Options options) {
  MEGANEURA_EXPECT(detail::can_pool(x.facts().shape, options, 1),
                   "meganeura: max_pool1d<options>(x): the window must fit into [.., w] of known extents", x)
  return detail::layer<layers::max_pool>(fixed_text<"">{}, x, options, c<1>);
}
template <pool_options Options = pool_options{}, value A>
[[nodiscard]] constexpr auto max_pool1d(A x) {
  return max_pool1d(x, c<Options>);
}

/// The same of [.., d, h, w].
template <value A, class Options>
[[nodiscard]] constexpr auto max_pool3d(A x, Options options) {
  MEGANEURA_EXPECT(detail::can_pool(x.facts().shape, options, 3),
                   "meganeura: max_pool3d<options>(x): the window must fit into [.., d, h, w] of known extents", x)
  return detail::layer<layers::max_pool>(fixed_text<"">{}, x, options, c<3>);
}
template <pool_options Options = pool_options{}, value A>
[[nodiscard]] constexpr auto max_pool3d(A x) {
  return max_pool3d(x, c<Options>);
}

/// avg_pool2d of [.., w]: PyTorch's avg_pool1d.
template <value A, class Options>
[[nodiscard]] constexpr auto avg_pool1d(A x, Options options) {
  MEGANEURA_EXPECT_FLOATS("avg_pool1d<options>(x)", x)
  MEGANEURA_EXPECT(
      detail::can_average(x.facts().shape, options, 1),
      "meganeura: avg_pool1d<options>(x): the window must fit into [.., w] of known extents, without dilation", x)
  return detail::layer<layers::avg_pool>(fixed_text<"">{}, x, options, c<1>);
}
template <pool_options Options = pool_options{}, value A>
[[nodiscard]] constexpr auto avg_pool1d(A x) {
  return avg_pool1d(x, c<Options>);
}

/// The same of [.., d, h, w].
template <value A, class Options>
[[nodiscard]] constexpr auto avg_pool3d(A x, Options options) {
  MEGANEURA_EXPECT_FLOATS("avg_pool3d<options>(x)", x)
  MEGANEURA_EXPECT(
      detail::can_average(x.facts().shape, options, 3),
      "meganeura: avg_pool3d<options>(x): the window must fit into [.., d, h, w] of known extents, without dilation", x)
  return detail::layer<layers::avg_pool>(fixed_text<"">{}, x, options, c<3>);
}
template <pool_options Options = pool_options{}, value A>
[[nodiscard]] constexpr auto avg_pool3d(A x) {
  return avg_pool3d(x, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
