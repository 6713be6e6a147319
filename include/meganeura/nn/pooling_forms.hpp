// SPDX-License-Identifier: MIT
// Norms of windows, and pooling into a given number of windows, over one to three axes.
#pragma once
#include <meganeura/nn/pooling.hpp>
#include <meganeura/ops/contract.hpp>
#include <meganeura/ops/gather.hpp>
#include <meganeura/ops/reduce.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// p: of the norm that a window becomes, above 0; the others are pool_options', of averages.
struct lp_pool_options {
  float p = 2;
  spatial window = 2, stride = 0;
  bool ceil_mode = false;
  friend constexpr bool operator==(const lp_pool_options&, const lp_pool_options&) = default;
};

namespace detail {

constexpr pool_options windows_of(const lp_pool_options& o) {
  return {.window = o.window, .stride = o.stride, .ceil_mode = o.ceil_mode};
}

// Window i of n goes from floor(i in / n) to ceil((i + 1) in / n), an axis after the other: `reduced` takes an axis
// away, and `unequal` makes windows of unlike lengths. Their ends are computed in 32 bits.
constexpr bool can_adapt(const symbolic_shape& x, const spatial& out, int axes) {
  for (int i = 0; i < axes; ++i) {
    if (x.rank < axes || !x[x.rank - axes + i].is_static() || out[i] < 1) return false;
    const std::int64_t in = x[x.rank - axes + i].coefficient;
    if (in % out[i] != 0 && in >= (std::int64_t{1} << 31) / out[i]) return false;
  }
  return true;
}
constexpr auto adapted_windows(value auto x, const spatial& out, int axes, const auto& reduced, const auto& unequal) {
  for (int i = 0; i < axes; ++i) {
    const int axis = x.facts().shape.rank - axes + i;
    const std::int64_t in = x.facts().shape[axis].coefficient;
    if (out[i] == 1) {
      x = unsqueeze(reduced(x, axis), axis);
    } else if (in % out[i] == 0) {
      symbolic_shape parts = with_axis(x.facts().shape, axis + 1);
      parts[axis] = out[i], parts[axis + 1] = in / out[i];
      x = reduced(reshape(x, parts), axis + 1);
    } else {
      x = unequal(x, axis, in, out[i]);
    }
  }
  return x;
}
constexpr auto first_of_window(value auto window, std::int64_t in, std::int64_t out) { return window * in / out; }
constexpr auto end_of_window(value auto window, std::int64_t in, std::int64_t out) {
  return (window * in + (in + out - 1)) / out;
}

}  // namespace detail

namespace layers {

struct lp_pool {
  static constexpr bool takes(dtype type) { return is_float(type); }
  static constexpr bool fits(const symbolic_shape& x, const lp_pool_options& o, int axes) {
    return detail::can_pool(x, detail::windows_of(o), axes) && o.p > 0 && o.p < __builtin_inff();
  }
  static constexpr auto forward(value auto x, lp_pool_options options, int axes) {
    const auto wide = abs(detail::widened(x));
    const double p = static_cast<double>(options.p);
    const auto powers = p == 1 ? wide : p == 2 ? wide * wide : power(wide, p);
    const auto sums = detail::window_sums(powers, detail::windows_of(options), axes);
    if (p == 1) return detail::narrowed(sums, x);
    const auto bounded = maximum(sums, 1e-38f);  // the gradient of a root at 0 is 0
    return detail::narrowed(p == 2 ? sqrt(bounded) : power(bounded, 1 / p), x);
  }
};

struct adaptive_avg_pool {
  static constexpr bool takes(dtype type) { return is_float(type); }
  static constexpr bool fits(const symbolic_shape& x, const spatial& out, int axes) {
    return detail::can_adapt(x, out, axes);
  }
  static constexpr auto forward(value auto x, spatial out, int axes) {
    const auto reduced = [](value auto y, int axis) { return mean(y, axis); };
    const auto unequal = [](value auto y, int axis, std::int64_t in, std::int64_t to) {
      return weighed(y, axis, in, to);
    };
    return detail::narrowed(detail::adapted_windows(detail::widened(x), out, axes, reduced, unequal), x);
  }

 private:
  // Times a matrix [in, out] of shares.
  static constexpr auto weighed(value auto y, int axis, std::int64_t in, std::int64_t out) {
    const symbolic_shape square = detail::extents_of(in, out);
    const auto place = detail::coordinates_of(y, square, 0), window = detail::coordinates_of(y, square, 1);
    const auto first = detail::first_of_window(window, in, out), end = detail::end_of_window(window, in, out);
    const auto inside = logical_and(less_equal(first, place), less(place, end));
    const auto shares = select(inside, reciprocal(cast<dtype::f32>(end - first)), 0.0f);
    const int rank = y.facts().shape.rank;
    contract_attribute labels{.result_rank = rank};
    for (int i = 0; i < rank; ++i) labels.a[i] = static_cast<std::uint8_t>(i == axis ? rank : i);
    labels.b[0] = static_cast<std::uint8_t>(rank);
    labels.b[1] = static_cast<std::uint8_t>(axis);
    return detail::make<detail::describe_contract>(y, shares, labels);
  }
};

struct adaptive_max_pool {
  static constexpr bool takes(dtype) { return true; }
  static constexpr bool fits(const symbolic_shape& x, const spatial& out, int axes) {
    return detail::can_adapt(x, out, axes);
  }
  static constexpr auto forward(value auto x, spatial out, int axes) {
    const auto reduced = [](value auto y, int axis) { return max(y, axis); };
    const auto unequal = [](value auto y, int axis, std::int64_t in, std::int64_t to) {
      return max(gather(y, elements_of_windows(y, in, to), axis), axis + 1);
    };
    return detail::adapted_windows(x, out, axes, reduced, unequal);
  }

 private:
  // [out, longest window]; shorter ones name their last element again.
  static constexpr auto elements_of_windows(value auto x, std::int64_t in, std::int64_t out) {
    const symbolic_shape table = detail::extents_of(out, (in + out - 1) / out + 1);
    const auto window = detail::coordinates_of(x, table, 0), element = detail::coordinates_of(x, table, 1);
    return minimum(detail::first_of_window(window, in, out) + element, detail::end_of_window(window, in, out) - 1);
  }
};

}  // namespace layers

/// lp_pool1d<options>(x), or lp_pool1d(x, options), lp_pool2d and lp_pool3d: the p-norm of each window,
/// sum(|x|^p)^(1 / p), in f32. Where all are 0 its gradient is 0. shapes: as max_pool. dtypes: floats. errors: "x must
/// be floats", "p must be a number above 0, and the window must fit into [.., h, w] of known extents".
/// torch.nn.functional.lp_pool1d, which takes x^p instead of |x|^p.
MEGANEURA_WINDOW(lp_pool1d, 1, "[.., w]", lp_pool, lp_pool_options Options = lp_pool_options{}, "options",
                 "p must be a number above 0, and the window must fit into ", " of known extents")
MEGANEURA_WINDOW(lp_pool2d, 2, "[.., h, w]", lp_pool, lp_pool_options Options = lp_pool_options{}, "options",
                 "p must be a number above 0, and the window must fit into ", " of known extents")
MEGANEURA_WINDOW(lp_pool3d, 3, "[.., d, h, w]", lp_pool, lp_pool_options Options = lp_pool_options{}, "options",
                 "p must be a number above 0, and the window must fit into ", " of known extents")

/// Means of as many windows as are asked for, adaptive_avg_pool1d<7>(x), or adaptive_avg_pool1d(x, spatial(7)): window
/// i of n goes from floor(i w / n) to ceil((i + 1) w / n). Of two and three axes adaptive_avg_pool2d<{3, 4}>(x) and
/// adaptive_avg_pool3d; adaptive_avg_pool2d<1>(x) is the global mean, ONNX's GlobalAveragePool.
/// shapes: [.., w] -> [.., n]. dtypes: floats, computed in f32. errors: "x must be floats", "known extents".
MEGANEURA_WINDOW(adaptive_avg_pool1d, 1, "[.., w]", adaptive_avg_pool, spatial Options, "out", "x must be ",
                 " of known extents, and out at least 1; the product of both below 2^31 where out does not divide it")
MEGANEURA_WINDOW(adaptive_avg_pool2d, 2, "[.., h, w]", adaptive_avg_pool, spatial Options, "out", "x must be ",
                 " of known extents, and out at least 1; the product of both below 2^31 where out does not divide it")
MEGANEURA_WINDOW(adaptive_avg_pool3d, 3, "[.., d, h, w]", adaptive_avg_pool, spatial Options, "out", "x must be ",
                 " of known extents, and out at least 1; the product of both below 2^31 where out does not divide it")

/// The largest elements of as many windows as are asked for, which lie as those of adaptive_avg_pool:
/// adaptive_max_pool1d<7>(x), adaptive_max_pool2d and adaptive_max_pool3d. dtypes: numbers. gradient: to one of equal
/// elements.
MEGANEURA_WINDOW(adaptive_max_pool1d, 1, "[.., w]", adaptive_max_pool, spatial Options, "out", "x must be ",
                 " of known extents, and out at least 1; the product of both below 2^31 where out does not divide it")
MEGANEURA_WINDOW(adaptive_max_pool2d, 2, "[.., h, w]", adaptive_max_pool, spatial Options, "out", "x must be ",
                 " of known extents, and out at least 1; the product of both below 2^31 where out does not divide it")
MEGANEURA_WINDOW(adaptive_max_pool3d, 3, "[.., d, h, w]", adaptive_max_pool, spatial Options, "out", "x must be ",
                 " of known extents, and out at least 1; the product of both below 2^31 where out does not divide it")

}  // namespace meganeura::inline MEGANEURA_ABI
