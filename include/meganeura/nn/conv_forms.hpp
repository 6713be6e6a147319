// SPDX-License-Identifier: MIT
// Convolution layers over one and three axes, and transposed ones.
#pragma once
#include <meganeura/nn/conv.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// As conv_options' of the convolution that this is the adjoint of. output_padding: further rows at the end of the
/// result, fewer than the stride or the dilation.
struct conv_transpose_options {
  spatial kernel = 3, stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int groups = 1;
  bool bias = true;
  initializer weight = init::fan_in_uniform;
  initializer bias_begin = init::fan_in_uniform;  // the fan_in is the weight's
  friend constexpr bool operator==(const conv_transpose_options&, const conv_transpose_options&) = default;
};

namespace detail {

// The convolution of which it is the adjoint.
constexpr conv_options adjoint_of(const conv_transpose_options& o) {
  return {.kernel = o.kernel,
          .stride = o.stride,
          .padding = o.padding,
          .dilation = o.dilation,
          .groups = o.groups,
          .bias = o.bias,
          .weight = o.weight,
          .bias_begin = o.bias_begin};
}

// Rows of zeros behind x whose windows begin in the output_padding.
constexpr std::int64_t zeros_behind(const conv_transpose_options& o, int axis) {
  return o.output_padding[axis] / o.stride[axis];
}

// [n, out, spread..] of x [n, c, ..] with the zeros behind it; rank 0 where windows do not reach it all.
constexpr symbolic_shape spread_shape(const symbolic_shape& x, const symbolic_shape& filter,
                                      const conv_transpose_options& o) {
  const int axes = x.rank - 2;
  symbolic_shape result = extents_of(x[0], filter[1] * o.groups);
  for (int i = 0; i < axes; ++i) {
    const std::int64_t last = (x[i + 2].coefficient - 1) * o.stride[i];
    const std::int64_t extent = last + o.dilation[i] * (filter[i + 2].coefficient - 1) + 1 +
                                o.output_padding[i] % o.stride[i] - 2 * o.padding[i];
    if (!x[i + 2].is_static() || extent < 1) return {};
    result.push_back(extent);
  }
  return convolution_shape(geometry_of(adjoint_of(o), axes), result, filter) == x ? result : symbolic_shape{};
}

constexpr node_spec describe_spread(const facts& x, const facts& filter, const conv_transpose_options& o) {
  convolution_attribute geometry = geometry_of(adjoint_of(o), x.shape.rank - 2);
  geometry.form = convolution_attribute::input;
  return node_of(op::convolution, x.type, spread_shape(x.shape, filter.shape, o), geometry);
}

constexpr bool has_output_padding(const conv_transpose_options& o, int axes) {
  for (int i = 0; i < axes; ++i) {
    const std::int64_t more = o.output_padding[i];
    if (more < 0 || (more >= o.stride[i] && more >= o.dilation[i])) return false;
  }
  return true;
}
constexpr bool can_spread(symbolic_shape x, std::int64_t out, const conv_transpose_options& o, int axes) {
  for (int i = 0; i < axes; ++i) x[i + 2] = x[i + 2].coefficient + zeros_behind(o, i);
  return spread_shape(x, filter_shape(x[1].coefficient, out / o.groups, adjoint_of(o), axes), o).rank > 0;
}

}  // namespace detail

namespace layers {
/// Of one to three axes. Parameters "weight" [c, out / groups, kernel..] and "bias" [out].
struct conv_transpose {
  static constexpr auto forward(value auto x, std::int64_t out, conv_transpose_options options) {
    const detail::facts in = x.facts();
    const conv_options adjoint = detail::adjoint_of(options);
    const symbolic_shape filter =
        detail::filter_shape(in.shape[1].coefficient, out / options.groups, adjoint, in.shape.rank - 2);
    auto reached = x;
    for (int i = 0; i < in.shape.rank - 2; ++i) {
      if (const auto rows = detail::zeros_behind(options, i); rows > 0) reached = pad(reached, i + 2, 0, rows);
    }
    const auto y = detail::make<detail::describe_spread>(
        reached, detail::parameter_of<"weight">(x, filter, in.type, options.weight), options);
    return options.bias ? detail::biased(y, filter.coefficient() / filter[0].coefficient, adjoint) : y;
  }
};
}  // namespace layers

/// As torch.nn.Conv1d: conv2d of [n, c, w].
template <detail::name_like Name, value A, class Out, class Options = fixed<conv_options{}>>
[[nodiscard]] constexpr auto conv1d(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT_CHANNELS("conv1d", 1, options)
  MEGANEURA_EXPECT_ROOM("conv1d", 1)
  return detail::layer<layers::conv>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, conv_options Options = conv_options{}, value A>
[[nodiscard]] constexpr auto conv1d(A x) {
  return conv1d(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(conv1d, "conv1d<name, out, options>(x)")

/// As torch.nn.Conv3d: conv2d of [n, c, d, h, w].
template <detail::name_like Name, value A, class Out, class Options = fixed<conv_options{}>>
[[nodiscard]] constexpr auto conv3d(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT_CHANNELS("conv3d", 3, options)
  MEGANEURA_EXPECT_ROOM("conv3d", 3)
  return detail::layer<layers::conv>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, conv_options Options = conv_options{}, value A>
[[nodiscard]] constexpr auto conv3d(A x) {
  return conv3d(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(conv3d, "conv3d<name, out, options>(x)")

/// As torch.nn.ConvTranspose1d, the adjoint of a convolution: each element of x spreads over a window. An extent w
/// becomes (w - 1) stride + dilation (kernel - 1) + 1 + output_padding - 2 padding.
/// shapes: [n, c, w] -> [n, out, ow]. errors: as conv1d, "output_padding must be at least 0, and less
/// than the stride or the dilation", "padding must leave an extent of at least 1 of the result".
template <detail::name_like Name, value A, class Out, class Options = fixed<conv_transpose_options{}>>
[[nodiscard]] constexpr auto conv_transpose1d(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT_CHANNELS("conv_transpose1d", 1, detail::adjoint_of(options))
  MEGANEURA_EXPECT_SPREAD("conv_transpose1d", 1)
  return detail::layer<layers::conv_transpose>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, conv_transpose_options Options = conv_transpose_options{}, value A>
[[nodiscard]] constexpr auto conv_transpose1d(A x) {
  return conv_transpose1d(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(conv_transpose1d, "conv_transpose1d<name, out, options>(x)")

/// As torch.nn.ConvTranspose2d: conv_transpose1d of [n, c, h, w].
template <detail::name_like Name, value A, class Out, class Options = fixed<conv_transpose_options{}>>
[[nodiscard]] constexpr auto conv_transpose2d(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT_CHANNELS("conv_transpose2d", 2, detail::adjoint_of(options))
  MEGANEURA_EXPECT_SPREAD("conv_transpose2d", 2)
  return detail::layer<layers::conv_transpose>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, conv_transpose_options Options = conv_transpose_options{}, value A>
[[nodiscard]] constexpr auto conv_transpose2d(A x) {
  return conv_transpose2d(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(conv_transpose2d, "conv_transpose2d<name, out, options>(x)")

/// As torch.nn.ConvTranspose3d: conv_transpose1d of [n, c, d, h, w].
template <detail::name_like Name, value A, class Out, class Options = fixed<conv_transpose_options{}>>
[[nodiscard]] constexpr auto conv_transpose3d(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT_CHANNELS("conv_transpose3d", 3, detail::adjoint_of(options))
  MEGANEURA_EXPECT_SPREAD("conv_transpose3d", 3)
  return detail::layer<layers::conv_transpose>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, conv_transpose_options Options = conv_transpose_options{}, value A>
[[nodiscard]] constexpr auto conv_transpose3d(A x) {
  return conv_transpose3d(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(conv_transpose3d, "conv_transpose3d<name, out, options>(x)")

}  // namespace meganeura::inline MEGANEURA_ABI
