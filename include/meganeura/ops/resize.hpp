// SPDX-License-Identifier: MIT
// Images of another size, windows of images as columns and back.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/blocks.hpp>
#include <meganeura/ops/convolution.hpp>
#include <meganeura/ops/gather.hpp>
#include <meganeura/ops/rearrange.hpp>
#include <meganeura/ops/reduce.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// What an element of the result takes: the nearest one, or 2 or 4 neighbours weighted linearly or by Keys' cubic with
/// a = -0.75.
enum class resize_mode : std::uint8_t { nearest, linear, cubic };
/// Where element i of m stands among n, as ONNX names it: (i + 1/2) n / m - 1/2, i (n - 1) / (m - 1) or i n / m.
enum class resize_place : std::uint8_t { half_pixel, align_corners, asymmetric };

namespace detail {

inline constexpr std::int64_t max_resized = 1 << 14;  // places are computed in 32-bit integers

constexpr bool can_resize(const symbolic_shape& x, int axis, const spatial& sizes) {
  if (axis < 0 || x.rank >= max_rank || sizes[0] < 1) return false;
  for (int i = 0; i < max_spatial; ++i) {
    if (sizes[i] == 0) continue;
    if (axis + i >= x.rank || sizes[i] < 0 || sizes[i] > max_resized) return false;
    if (!x[axis + i].is_static() || x[axis + i].coefficient > max_resized) return false;
  }
  return true;
}

// The place of element i is (factor i + start) / parts.
struct resize_ratio {
  std::int64_t factor, start, parts;
};
constexpr resize_ratio ratio_of(std::int64_t from, std::int64_t to, resize_place place) {
  if (place == resize_place::half_pixel) return {2 * from, from - to, 2 * to};
  if (place == resize_place::asymmetric) return {from, 0, to};
  return to > 1 ? resize_ratio{from - 1, 0, to - 1} : resize_ratio{0, 0, 1};
}

constexpr int neighbours_of(resize_mode mode) {
  return mode == resize_mode::nearest ? 1 : mode == resize_mode::linear ? 2 : 4;
}

// A whole number beside i32 values of the body.
template <class X>
constexpr auto whole_of(X x, std::int64_t number) {
  return number_of(x, static_cast<double>(number), dtype::i32);
}

// [n, c, oh, ow] of the windows in an image; of rank 0 where there are none.
constexpr symbolic_shape windows_in(const symbolic_shape& x, const conv_options& o) {
  window_attribute windows{.kind = reduce_kind::sum};
  for (int i = 0; i < 2; ++i) {
    if (o.kernel[i] < 1 || o.kernel[i] > 10 || o.dilation[i] < 1) return {};
    windows.window[i] = std::int64_t{o.kernel[i] - 1} * o.dilation[i] + 1, windows.stride[i] = o.stride[i];
    windows.pad_low[i] = o.padding[i], windows.pad_high[i] = high_padding(o, i);
  }
  return x.rank == 4 ? window_shape(windows, x) : symbolic_shape{};
}
constexpr std::int64_t elements_in_window(const conv_options& o) { return std::int64_t{o.kernel[0]} * o.kernel[1]; }
constexpr bool can_fold(const symbolic_shape& x, std::int64_t h, std::int64_t w, const conv_options& o) {
  if (x.rank != 3 || h < 1 || w < 1 || elements_in_window(o) < 1 || x[1].coefficient % elements_in_window(o) != 0)
    return false;
  symbolic_shape image;
  for (const dim& each : {x[0], dim(1), dim(h), dim(w)}) image.push_back(each);
  const symbolic_shape windows = windows_in(image, o);
  return windows.rank == 4 && windows[2] * windows[3] == x[2];
}

}  // namespace detail

namespace layers {

struct resize {
  // Along the axis number `of` from `axis` on.
  static constexpr auto forward(value auto x, int axis, const auto& sizes, int of, resize_mode mode,
                                resize_place place) {
    const int size = detail::per_axis(sizes)[of];
    if (size == 0) return reshape(x, x.facts().shape);
    const int along = detail::axis_of(x, axis) + of, neighbours = detail::neighbours_of(mode);
    const std::int64_t extent = x.facts().shape[along].coefficient;
    // The nearest of a multiple is each element so many times, which is another look at x.
    if (mode == resize_mode::nearest && place != resize_place::align_corners && size % extent == 0)
      return tile::forward(x, along, size / extent, true);
    const detail::resize_ratio ratio = detail::ratio_of(extent, size, place);
    const auto number = [&](std::int64_t n) { return detail::whole_of(x, n); };
    symbolic_shape lines;  // [neighbours, size]; nearest has no axis of neighbours
    if (neighbours > 1) lines.push_back(neighbours);
    lines.push_back(size);
    // Shifted so that it is positive: integers divide towards 0. Nearest rounds, or cuts off where it is asymmetric.
    const bool rounds = mode == resize_mode::nearest && place != resize_place::asymmetric;
    const std::int64_t parts = 2 * ratio.parts, half = rounds ? ratio.parts : 0;
    const auto scaled = detail::coordinates_of(x, lines, lines.rank - 1) * number(2 * ratio.factor) +
                        number(2 * ratio.start + parts + half);
    const auto above = scaled / number(parts);  // one more than the element below
    const auto inside = [&](auto index) { return minimum(maximum(index, number(0)), number(extent - 1)); };
    if (neighbours == 1) return gather(x, inside(above - number(1)), along);
    const auto real = [&](double n) { return detail::number_of(x, n); };
    const auto neighbour = detail::coordinates_of(x, lines, 0) - number(neighbours / 2);  // 0: the element above
    const auto rest = cast(scaled - above * number(parts), dtype::f32) * real(1.0 / static_cast<double>(parts));
    auto weight = real(1) - abs(rest - real(1) - cast(neighbour, dtype::f32));
    if (mode == resize_mode::cubic) {  // Keys' polynomials of one less the distance, below it 1.25 d^3 - 2.25 d^2 + 1
      const auto e = weight;
      const auto third = select(less(e, real(0)), real(0.75), real(-1.25));
      weight = ((third * e + real(1.5)) * e + real(0.75)) * e;
    }
    const symbolic_shape column =
        detail::followed_by_ones(detail::extents_of(neighbours, size), x.facts().shape.rank + 1 - along);
    const auto taken = gather(detail::widened(x), inside(above + neighbour), along);
    return detail::narrowed(sum(taken * reshape(weight, column), along), x);
  }
};

// [.., n, ..] -> [.., kernel, windows, ..], along the axis number `side` of the options.
struct unfold_axis {
  static constexpr auto forward(value auto x, int axis, int side, std::int64_t windows, const conv_options& o) {
    const auto padded = pad(x, axis, o.padding[side], detail::high_padding(o, side));
    const auto taken = [&](int at) { return slice(padded, axis, at * o.dilation[side], windows, o.stride[side]); };
    auto all = taken(0);
    for (int i = 1; i < o.kernel[side]; ++i) all = concat(axis, all, taken(i));
    symbolic_shape apart;
    for (int i = 0; i < x.facts().shape.rank; ++i) {
      if (i == axis) apart.push_back(o.kernel[side]);
      apart.push_back(i == axis ? dim(windows) : x.facts().shape[i]);
    }
    return reshape(all, apart);
  }
};

struct unfold {
  static constexpr auto forward(value auto x, const conv_options& o) {
    const symbolic_shape y = detail::windows_in(x.facts().shape, o);
    const auto rows = unfold_axis::forward(x, 2, 0, y[2].coefficient, o);     // [n, c, k, oh, w]
    const auto both = unfold_axis::forward(rows, 4, 1, y[3].coefficient, o);  // [n, c, k, oh, k, ow]
    symbolic_shape columns;
    for (const dim& each : {y[0], y[1] * detail::elements_in_window(o), y[2] * y[3]}) columns.push_back(each);
    return reshape(permute(both, 0, 1, 2, 4, 3, 5), columns);
  }
};

// [.., kernel, windows, ..] -> [.., n, ..]
struct fold_axis {
  static constexpr auto forward(value auto x, int axis, int side, std::int64_t extent, const conv_options& o) {
    symbolic_shape places, image;
    places.push_back(x.facts().shape[axis]);
    places.push_back(x.facts().shape[axis + 1]);
    const std::int64_t padded = extent + o.padding[side] + detail::high_padding(o, side);
    for (int i = 0; i < x.facts().shape.rank; ++i) {
      if (i != axis + 1) image.push_back(i == axis ? dim(padded) : x.facts().shape[i]);
    }
    const auto index = detail::coordinates_of(x, places, 0) * detail::whole_of(x, o.dilation[side]) +
                       detail::coordinates_of(x, places, 1) * detail::whole_of(x, o.stride[side]);
    return slice(scatter_add(index, x, axis, image), axis, o.padding[side], extent);
  }
};

struct fold {
  static constexpr auto forward(value auto x, std::int64_t h, std::int64_t w, const conv_options& o) {
    const symbolic_shape s = x.facts().shape;
    symbolic_shape image, apart;
    for (const dim& each : {s[0], dim(1), dim(h), dim(w)}) image.push_back(each);
    const symbolic_shape windows = detail::windows_in(image, o);
    const dim channels = s[1].with(s[1].coefficient / detail::elements_in_window(o));
    for (const dim& each : {s[0], channels, dim(o.kernel[0]), dim(o.kernel[1]), windows[2], windows[3]})
      apart.push_back(each);
    const auto both = permute(reshape(detail::widened(x), apart), 0, 1, 2, 4, 3, 5);
    return detail::narrowed(fold_axis::forward(fold_axis::forward(both, 4, 1, w, o), 2, 0, h, o), x);
  }
};

}  // namespace layers

/// `size` elements along `axis` between those of x: resize<-1, 8, resize_mode::linear>(x), or
/// resize(x, -1, 8, resize_mode::linear). A `spatial` has a size for each of the axes from `axis` on:
/// resize<-2, spatial{8, 12}, resize_mode::linear>(x). Beyond the ends the outermost element counts. PyTorch's
/// interpolate: nearest is its "nearest" where the place is asymmetric and "nearest-exact" where it is half_pixel,
/// linear and cubic its "linear", "bilinear" or "trilinear" and "bicubic", with half_pixel or align_corners; ONNX's
/// Resize. shapes: [.., n, ..] -> [.., size, ..]. dtypes: numbers for nearest, otherwise floats, computed in f32 and
/// rounded after each axis. cost: reads 1, 2 or 4 elements for each of the result, along one axis after the other; the
/// nearest of a multiple of the extent is a view, but for align_corners.
/// errors: "x needs that axis, of a known extent", "x must be floats".
template <value A, detail::axis_like Axis, class Size, class Mode, class Place = fixed<resize_place::half_pixel>>
[[nodiscard]] constexpr auto resize(A x, Axis axis, Size size, Mode mode, Place place = {}) {
  const auto along = [&](auto y, auto of) {
    return detail::layer<layers::resize>(fixed_text<"">{}, y, axis, size, of, mode, place);
  };
  MEGANEURA_EXPECT(detail::can_resize(x.facts().shape, detail::axis_of(x, axis), detail::per_axis(size)),
                   "meganeura: resize<axis, size, mode, place>(x): x needs that axis, of a known extent, and both "
                   "extents are at most 16384",
                   x)
  MEGANEURA_EXPECT(
      (mode == resize_mode::nearest || is_float(x.facts().type)),
      "meganeura: resize<axis, size, mode, place>(x): x must be floats unless the nearest is taken; cast it", x)
  if constexpr (std::is_convertible_v<Size, int>) {
    return along(x, c<0>);
  } else {
    return along(along(along(x, c<0>), c<1>), c<2>);
  }
}
template <int Axis, auto Size, resize_mode Mode, resize_place Place = resize_place::half_pixel, value A>
[[nodiscard]] constexpr auto resize(A x) {
  return resize(x, c<Axis>, c<Size>, c<Mode>, c<Place>);
}

/// The windows of images as columns: unfold<conv_options{.kernel = 3, .padding = 1}>(x), or unfold(x, options).
/// Of the options kernel, stride, paddings and dilation count. torch.nn.Unfold.
/// shapes: [n, c, h, w] -> [n, c kernel kernel, windows]. cost: writes kernel kernel elements for each window.
/// errors: "x must be [n, c, h, w] with room for the window, of at most 10".
template <value A, class Options>
[[nodiscard]] constexpr auto unfold(A x, Options options) {
  MEGANEURA_EXPECT(
      detail::windows_in(x.facts().shape, options).rank == 4,
      "meganeura: unfold<options>(x): x must be [n, c, h, w] of known h and w with room for the window, of "
      "at most 10",
      x)
  return detail::layer<layers::unfold>(fixed_text<"">{}, x, options);
}
template <conv_options Options, value A>
[[nodiscard]] constexpr auto unfold(A x) {
  return unfold(x, c<Options>);
}

/// Columns added up to images of h, w: the adjoint of unfold. fold<h, w, options>(x), or fold(x, h, w, options).
/// torch.nn.Fold, ONNX's Col2Im. shapes: [n, c kernel kernel, windows] -> [n, c, h, w]. dtypes: numbers; floats are
/// added up in f32. errors: "x must be what unfold makes of [n, c, h, w]".
template <value A, class Height, class Width, class Options>
[[nodiscard]] constexpr auto fold(A x, Height h, Width w, Options options) {
  MEGANEURA_EXPECT(detail::can_fold(x.facts().shape, h, w, options),
                   "meganeura: fold<h, w, options>(x): x must be what unfold makes of [n, c, h, w]", x)
  return detail::layer<layers::fold>(fixed_text<"">{}, x, h, w, options);
}
template <int Height, int Width, conv_options Options, value A>
[[nodiscard]] constexpr auto fold(A x) {
  return fold(x, c<Height>, c<Width>, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
