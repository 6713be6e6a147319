// SPDX-License-Identifier: MIT
// Convolution layer.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/convolution.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
constexpr bool is_geometry(const conv_options& o, int axes) {
  for (int i = 0; i < axes; ++i) {
    if (o.kernel[i] < 1) return false;
  }
  return is_geometry(geometry_of(o, axes));
}
constexpr bool has_channels(const symbolic_shape& x, int axes) { return x.rank == axes + 2 && x[1].is_static(); }
constexpr bool divides_channels(const symbolic_shape& x, const conv_options& o) {
  return x[1].coefficient % o.groups == 0;
}
constexpr bool divides_results(std::int64_t out, const conv_options& o) { return out >= 1 && out % o.groups == 0; }
constexpr bool fits_groups(const symbolic_shape& x, std::int64_t out, const conv_options& o, int axes) {
  return has_channels(x, axes) && divides_channels(x, o) && divides_results(out, o);
}
constexpr bool has_known_places(const symbolic_shape& x) {
  for (int i = 2; i < x.rank; ++i) {
    if (!x[i].is_static()) return false;
  }
  return true;
}

// With a bias [out] for each channel.
constexpr auto biased(value auto y, std::int64_t fan_in, const conv_options& options) {
  const auto bias =
      parameter_of<"bias">(y, extents_of(y.facts().shape[1]), y.facts().type, bias_of(options.bias_begin, fan_in));
  return y + beside_axis(bias, y, 1);
}
}  // namespace detail

namespace layers {
/// Of one to three axes. Parameters "weight" [out, c / groups, kernel..] and "bias" [out].
struct conv {
  static constexpr auto forward(value auto x, std::int64_t out, conv_options options) {
    const detail::facts in = x.facts();
    const symbolic_shape filter =
        detail::filter_shape(out, in.shape[1].coefficient / options.groups, options, in.shape.rank - 2);
    const auto y = convolution(x, detail::parameter_of<"weight">(x, filter, in.type, options.weight), options);
    return options.bias ? detail::biased(y, filter.coefficient() / out, options) : y;
  }
};
}  // namespace layers

/// As torch.nn.Conv2d: conv2d<"conv", out, options>(x), or conv2d("conv", x, out, options) at run
/// time. shapes: [n, c, h, w] -> [n, out, oh, ow]. errors: "kernel, stride, dilation and groups must be at least 1",
/// "x must be floats", "c must be a multiple of groups", "the window must fit". cost: that of `convolution`.
template <detail::name_like Name, value A, class Out, class Options = fixed<conv_options{}>>
[[nodiscard]] constexpr auto conv2d(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT_CHANNELS("conv2d", 2, options)
  MEGANEURA_EXPECT_ROOM("conv2d", 2)
  return detail::layer<layers::conv>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, conv_options Options = conv_options{}, value A>
[[nodiscard]] constexpr auto conv2d(A x) {
  return conv2d(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(conv2d, "conv2d<name, out, options>(x)")

}  // namespace meganeura::inline MEGANEURA_ABI
