// SPDX-License-Identifier: MIT
// Norms of windows, and pooling into a given number of windows, over one to three axes.
#pragma once
#include <meganeura/nn/pooling.hpp>
#include <meganeura/ops/contract.hpp>
#include <meganeura/ops/gather.hpp>
#include <meganeura/ops/reduce.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// p: of the norm that a window becomes; the others are pool_options', of averages.
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
constexpr bool can_adapt(const symbolic_shape& x, const spatial& out, int axes) {
  for (int i = 0; i < axes; ++i) {
    if (x.rank < axes || !x[x.rank - axes + i].is_static() || out[i] < 1) return false;
  }
  return true;
}

}  // namespace detail

namespace layers {

struct lp_pool {
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

// Window i of n goes from floor(i in / n) to ceil((i + 1) in / n).
struct adaptive_avg_pool {
  static constexpr auto forward(value auto x, spatial out, int axes) {
    auto y = detail::widened(x);
    for (int i = 0; i < axes; ++i) {
      const int axis = x.facts().shape.rank - axes + i;
      const std::int64_t in = x.facts().shape[axis].coefficient;
      if (out[i] == 1) {
        y = mean(y, axis);
        y = unsqueeze(y, axis);
      } else if (in % out[i] == 0) {
        symbolic_shape parts = detail::with_axis(y.facts().shape, axis + 1);
        parts[axis] = out[i], parts[axis + 1] = in / out[i];
        y = mean(reshape(y, parts), axis + 1);
      } else {
        y = weighed(y, axis, in, out[i]);
      }
    }
    return detail::narrowed(y, x);
  }

 private:
  // Times a matrix [in, out] of shares.
  static constexpr auto weighed(value auto y, int axis, std::int64_t in, std::int64_t out) {
    const symbolic_shape square = detail::extents_of(in, out);
    const auto place = detail::coordinates_of(y, square, 0), window = detail::coordinates_of(y, square, 1);
    const auto first = window * in / out, end = (window * in + (in + out - 1)) / out;
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
  static constexpr auto forward(value auto x, spatial out, int axes) {
    for (int i = 0; i < axes; ++i) {
      const int axis = x.facts().shape.rank - axes + i;
      const std::int64_t in = x.facts().shape[axis].coefficient;
      if (out[i] == 1) {
        x = unsqueeze(max(x, axis), axis);
      } else if (in % out[i] == 0) {
        symbolic_shape parts = detail::with_axis(x.facts().shape, axis + 1);
        parts[axis] = out[i], parts[axis + 1] = in / out[i];
        x = max(reshape(x, parts), axis + 1);
      } else {
        x = max(gather(x, taps(x, in, out[i]), axis), axis + 1);
      }
    }
    return x;
  }

 private:
  // [out, longest window]; shorter ones name their last element again.
  static constexpr auto taps(value auto x, std::int64_t in, std::int64_t out) {
    const symbolic_shape table = detail::extents_of(out, (in + out - 1) / out + 1);
    const auto window = detail::coordinates_of(x, table, 0), tap = detail::coordinates_of(x, table, 1);
    return minimum(window * in / out + tap, (window * in + (in + out - 1)) / out - 1);
  }
};

}  // namespace layers

/// The p-norm of each window of [.., w]: sum(|x|^p)^(1 / p), in f32. Where all are 0 its gradient is 0.
/// torch.nn.functional.lp_pool1d, which takes x^p instead of |x|^p.
template <value A, class Options>
[[nodiscard]] constexpr auto lp_pool1d(A x, Options options) {
  MEGANEURA_EXPECT_FLOATS("lp_pool1d<options>(x)", x)
  MEGANEURA_EXPECT(detail::can_pool(x.facts().shape, detail::windows_of(options), 1),
                   "meganeura: lp_pool1d<options>(x): the window must fit into [.., w] of known extents", x)
  return detail::layer<layers::lp_pool>(fixed_text<"">{}, x, options, c<1>);
}
template <lp_pool_options Options = lp_pool_options{}, value A>
[[nodiscard]] constexpr auto lp_pool1d(A x) {
  return lp_pool1d(x, c<Options>);
}

/// The same of [.., h, w].
template <value A, class Options>
[[nodiscard]] constexpr auto lp_pool2d(A x, Options options) {
  MEGANEURA_EXPECT_FLOATS("lp_pool2d<options>(x)", x)
  MEGANEURA_EXPECT(detail::can_pool(x.facts().shape, detail::windows_of(options), 2),
                   "meganeura: lp_pool2d<options>(x): the window must fit into [.., h, w] of known extents", x)
  return detail::layer<layers::lp_pool>(fixed_text<"">{}, x, options, c<2>);
}
template <lp_pool_options Options = lp_pool_options{}, value A>
[[nodiscard]] constexpr auto lp_pool2d(A x) {
  return lp_pool2d(x, c<Options>);
}

/// The same of [.., d, h, w].
template <value A, class Options>
[[nodiscard]] constexpr auto lp_pool3d(A x, Options options) {
  MEGANEURA_EXPECT_FLOATS("lp_pool3d<options>(x)", x)
  MEGANEURA_EXPECT(detail::can_pool(x.facts().shape, detail::windows_of(options), 3),
                   "meganeura: lp_pool3d<options>(x): the window must fit into [.., d, h, w] of known extents", x)
  return detail::layer<layers::lp_pool>(fixed_text<"">{}, x, options, c<3>);
}
template <lp_pool_options Options = lp_pool_options{}, value A>
[[nodiscard]] constexpr auto lp_pool3d(A x) {
  return lp_pool3d(x, c<Options>);
}

/// Means of as many windows as are asked for, adaptive_avg_pool1d<7>(x): window i of n goes from floor(i w / n) to
/// ceil((i + 1) w / n). shapes: [.., w] -> [.., n]. dtypes: floats, computed in f32. errors: "known extents".
/// adaptive_avg_pool2d<1>(x) is the global mean, ONNX's GlobalAveragePool.
template <value A, class Options>
[[nodiscard]] constexpr auto adaptive_avg_pool1d(A x, Options options) {
  MEGANEURA_EXPECT_FLOATS("adaptive_avg_pool1d<out>(x)", x)
  MEGANEURA_EXPECT(detail::can_adapt(x.facts().shape, options, 1),
                   "meganeura: adaptive_avg_pool1d<out>(x): x must be [.., w] of known extents, and out at least 1", x)
  return detail::layer<layers::adaptive_avg_pool>(fixed_text<"">{}, x, options, c<1>);
}
template <spatial Options, value A>
[[nodiscard]] constexpr auto adaptive_avg_pool1d(A x) {
  return adaptive_avg_pool1d(x, c<Options>);
}

/// The same of [.., h, w].
template <value A, class Options>
[[nodiscard]] constexpr auto adaptive_avg_pool2d(A x, Options options) {
  MEGANEURA_EXPECT_FLOATS("adaptive_avg_pool2d<out>(x)", x)
  MEGANEURA_EXPECT(detail::can_adapt(x.facts().shape, options, 2),
                   "meganeura: adaptive_avg_pool2d<out>(x): x must be [.., h, w] of known extents, and out at least 1",
                   x)
  return detail::layer<layers::adaptive_avg_pool>(fixed_text<"">{}, x, options, c<2>);
}
template <spatial Options, value A>
[[nodiscard]] constexpr auto adaptive_avg_pool2d(A x) {
  return adaptive_avg_pool2d(x, c<Options>);
}

/// The same of [.., d, h, w].
template <value A, class Options>
[[nodiscard]] constexpr auto adaptive_avg_pool3d(A x, Options options) {
  MEGANEURA_EXPECT_FLOATS("adaptive_avg_pool3d<out>(x)", x)
  MEGANEURA_EXPECT(
      detail::can_adapt(x.facts().shape, options, 3),
      "meganeura: adaptive_avg_pool3d<out>(x): x must be [.., d, h, w] of known extents, and out at least 1", x)
  return detail::layer<layers::adaptive_avg_pool>(fixed_text<"">{}, x, options, c<3>);
}
template <spatial Options, value A>
[[nodiscard]] constexpr auto adaptive_avg_pool3d(A x) {
  return adaptive_avg_pool3d(x, c<Options>);
}

/// The largest elements of as many windows as are asked for, which lie as those of adaptive_avg_pool1d.
/// gradient: to one of equal elements.
template <value A, class Options>
[[nodiscard]] constexpr auto adaptive_max_pool1d(A x, Options options) {
  MEGANEURA_EXPECT(detail::can_adapt(x.facts().shape, options, 1),
                   "meganeura: adaptive_max_pool1d<out>(x): x must be [.., w] of known extents, and out at least 1", x)
  return detail::layer<layers::adaptive_max_pool>(fixed_text<"">{}, x, options, c<1>);
}
template <spatial Options, value A>
[[nodiscard]] constexpr auto adaptive_max_pool1d(A x) {
  return adaptive_max_pool1d(x, c<Options>);
}

/// The same of [.., h, w].
template <value A, class Options>
[[nodiscard]] constexpr auto adaptive_max_pool2d(A x, Options options) {
  MEGANEURA_EXPECT(detail::can_adapt(x.facts().shape, options, 2),
                   "meganeura: adaptive_max_pool2d<out>(x): x must be [.., h, w] of known extents, and out at least 1",
                   x)
  return detail::layer<layers::adaptive_max_pool>(fixed_text<"">{}, x, options, c<2>);
}
template <spatial Options, value A>
[[nodiscard]] constexpr auto adaptive_max_pool2d(A x) {
  return adaptive_max_pool2d(x, c<Options>);
}

/// The same of [.., d, h, w].
template <value A, class Options>
[[nodiscard]] constexpr auto adaptive_max_pool3d(A x, Options options) {
  MEGANEURA_EXPECT(
      detail::can_adapt(x.facts().shape, options, 3),
      "meganeura: adaptive_max_pool3d<out>(x): x must be [.., d, h, w] of known extents, and out at least 1", x)
  return detail::layer<layers::adaptive_max_pool>(fixed_text<"">{}, x, options, c<3>);
}
template <spatial Options, value A>
[[nodiscard]] constexpr auto adaptive_max_pool3d(A x) {
  return adaptive_max_pool3d(x, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
