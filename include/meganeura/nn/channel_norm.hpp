// SPDX-License-Identifier: MIT
// Normalisation by groups of channels, by neighbours among them, and of weights.
#pragma once
#include <meganeura/nn/conv.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/ops/convolution.hpp>
#include <meganeura/ops/custom_gradient.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// epsilon: added to the variance. affine: times "weight" and plus "bias", of each channel.
struct group_norm_options {
  float epsilon = 1e-5f;
  bool affine = true;
  friend constexpr bool operator==(const group_norm_options&, const group_norm_options&) = default;
};

/// x / (k + alpha / size * sum)^beta, the sum being of the squares of `size` channels around x's. Names and defaults
/// are torch.nn.LocalResponseNorm's.
struct local_response_options {
  int size = 5;
  float alpha = 1e-4f, beta = 0.75f, k = 1;
  friend constexpr bool operator==(const local_response_options&, const local_response_options&) = default;
};

namespace detail {
constexpr bool has_groups(const symbolic_shape& x, std::int64_t groups) {
  return x.rank >= 2 && x[1].is_static() && groups >= 1 && x[1].coefficient % groups == 0;
}
// All but the first two axes as one.
constexpr dim spatial_places(const symbolic_shape& x) { return x.rank == 2 ? dim(1) : flattened(x, 2, x.rank - 1); }
}  // namespace detail

namespace layers {

/// Parameters "weight" and "bias" [c], if affine.
struct group_norm {
  static constexpr auto forward(value auto x, std::int64_t groups, group_norm_options options) {
    const symbolic_shape shape = x.facts().shape;
    const dim places = detail::spatial_places(shape);
    const auto rows = reshape(
        detail::widened(x),
        detail::extents_of(shape[0], groups, places.with(places.coefficient * (shape[1].coefficient / groups))));
    const auto mean_of = [](value auto of) { return unsqueeze(mean(of, -1), -1); };
    const auto centred = rows - mean_of(rows);
    const auto scale = rsqrt(mean_of(centred * centred) + options.epsilon);
    // The gradient by x, whose two sums wait for nothing, where that by variance and then by mean is two in a row.
    const auto standard = custom_gradient([&](value auto) { return centred * scale; },
                                          [&](value auto g, value auto result, value auto) {
                                            return (g - mean_of(g) - result * mean_of(g * result)) * scale;
                                          },
                                          rows);
    const auto y = reshape(standard, shape);
    if (!options.affine) return detail::narrowed(y, x);
    const auto scaled = y * along<"weight">(x, init::ones);
    return detail::narrowed(scaled + along<"bias">(x, init::zeros), x);
  }

 private:
  // A parameter [c] as [c, 1, ..].
  template <fixed_string Name>
  static constexpr auto along(value auto x, const initializer& begin) {
    const symbolic_shape channels = detail::extents_of(x.facts().shape[1]);
    return detail::beside_axis(detail::widened(detail::parameter_of<Name>(x, channels, x.facts().type, begin)), x, 1);
  }
};

struct local_response_norm {
  static constexpr auto forward(value auto x, local_response_options options) {
    const symbolic_shape shape = x.facts().shape;
    const auto wide =
        reshape(detail::widened(x), detail::extents_of(shape[0], shape[1], detail::spatial_places(shape)));
    const window_attribute neighbours{.kind = reduce_kind::sum,
                                      .spatial = 2,
                                      .window = {options.size, 1, 1},
                                      .pad_low = {options.size / 2, 0, 0},
                                      .pad_high = {(options.size - 1) / 2, 0, 0}};
    const auto squares = wide * wide;
    const auto near =
        squares.added(detail::node_of(op::window_reduce, dtype::f32, squares.facts().shape, neighbours), &squares, 1);
    const double share = static_cast<double>(options.alpha) / options.size;
    const auto scale = power(near * share + options.k, -static_cast<double>(options.beta));
    return detail::narrowed(reshape(wide * scale, shape), x);
  }
};

/// Of each first index, the length of the rest.
struct weight_norm {
  static constexpr auto forward(value auto v, value auto g) {
    const auto wide = detail::widened(v);
    const auto rows = flatten(wide, 1, -1);
    const auto length = sqrt(sum(rows * rows, -1));
    return detail::narrowed(wide * detail::beside_axis(flatten(detail::widened(g), 0, -1) / length, v, 0), v);
  }
};

/// Parameters "weight_g" [out, 1], "weight_v" [out, in] and "bias" [out].
struct weight_norm_linear {
  static constexpr double mean_length = 0.5773502691896258;  // sqrt(in / (3 in))
  static constexpr auto forward(value auto x, std::int64_t out, linear_options options) {
    const detail::facts in = x.facts();
    const std::int64_t width = in.shape.last().coefficient;
    const auto g =
        detail::parameter_of<"weight_g">(x, detail::extents_of(out, 1), in.type, init::constant(mean_length));
    const auto v = detail::parameter_of<"weight_v">(x, detail::extents_of(out, width), in.type, options.weight);
    const auto product = detail::make<detail::describe_linear>(x, weight_norm::forward(v, g));
    if (!options.bias) return product;
    const initializer begin = detail::bias_of(options.bias_begin, width);
    return product + detail::parameter_of<"bias">(x, detail::extents_of(out), in.type, begin);
  }
};

/// Of one to three axes. Parameters "weight_g" [out, 1, 1..], "weight_v" [out, c / groups, kernel..] and "bias" [out].
struct weight_norm_conv {
  static constexpr auto forward(value auto x, std::int64_t out, conv_options options) {
    const detail::facts in = x.facts();
    const symbolic_shape filter =
        detail::filter_shape(out, in.shape[1].coefficient / options.groups, options, in.shape.rank - 2);
    const symbolic_shape each = detail::followed_by_ones(detail::extents_of(out), filter.rank);
    const auto g = detail::parameter_of<"weight_g">(x, each, in.type, init::constant(weight_norm_linear::mean_length));
    const auto v = detail::parameter_of<"weight_v">(x, filter, in.type, options.weight);
    const auto y = convolution(x, weight_norm::forward(v, g), options);
    return options.bias ? detail::biased(y, filter.coefficient() / out, options) : y;
  }
};

}  // namespace layers

/// (x - mean) / sqrt(variance + epsilon) weight + bias, the moments being those of c / groups channels at all places:
/// group_norm<"norm", groups>(x), or group_norm("norm", x, groups) at run time. torch.nn.GroupNorm.
/// shapes: [n, c, ..], unchanged. dtypes: floats, computed in f32. source: arXiv 1803.08494.
/// errors: "x must be [n, c, ..], c a multiple of groups", "x must be floats".
template <detail::name_like Name, value A, class Groups, class Options = fixed<group_norm_options{}>>
[[nodiscard]] constexpr auto group_norm(const Name& name, A x, Groups groups, Options options = {}) {
  MEGANEURA_EXPECT(detail::has_groups(x.facts().shape, groups),
                   "meganeura: group_norm<name, groups>(x): x must be [n, c, ..], c a multiple of groups", name, x)
  MEGANEURA_EXPECT_FLOATS("group_norm<name, groups>(x)", x, name)
  MEGANEURA_EXPECT(group_norm_options(options).epsilon >= 0,
                   "meganeura: group_norm<name, groups>(x): epsilon must be at least 0", name, x)
  return detail::layer<layers::group_norm>(name, x, groups, options);
}
template <fixed_string Name, std::int64_t Groups, group_norm_options Options = group_norm_options{}, value A>
[[nodiscard]] constexpr auto group_norm(A x) {
  return group_norm(fixed_text<Name>{}, x, c<Groups>, c<Options>);
}
MEGANEURA_UNNAMED(group_norm, "group_norm<name, groups>(x)")

/// group_norm of each channel by itself, without weight and bias unless affine. torch.nn.InstanceNorm1d to 3d without
/// running statistics. shapes: [n, c, ..], unchanged. source: arXiv 1607.08022.
template <detail::name_like Name, value A, class Options = fixed<group_norm_options{.affine = false}>>
[[nodiscard]] constexpr auto instance_norm(const Name& name, A x, Options options = {}) {
  MEGANEURA_EXPECT((x.facts().shape.rank >= 3 && x.facts().shape[1].is_static()),
                   "meganeura: instance_norm<name>(x): x must be [n, c, ..] with c a number and at least one axis more",
                   name, x)
  MEGANEURA_EXPECT_FLOATS("instance_norm<name>(x)", x, name)
  MEGANEURA_EXPECT(group_norm_options(options).epsilon >= 0,
                   "meganeura: instance_norm<name>(x): epsilon must be at least 0", name, x)
  if constexpr (detail::all_typed<A>::value) {
    return detail::layer<layers::group_norm>(name, x, c<A::facts().shape[1].coefficient>, options);
  } else {
    return detail::layer<layers::group_norm>(name, x, x.facts().shape[1].coefficient, options);
  }
}
template <fixed_string Name, group_norm_options Options = group_norm_options{.affine = false}, value A>
[[nodiscard]] constexpr auto instance_norm(A x) {
  return instance_norm(fixed_text<Name>{}, x, c<Options>);
}
MEGANEURA_UNNAMED(instance_norm, "instance_norm<name>(x)")

/// x / (k + alpha / size sum of the squares of `size` channels around)^beta. torch.nn.functional.local_response_norm.
/// shapes: [n, c, ..], unchanged. dtypes: floats, computed in f32. errors: "x must be [n, c, ..] of known extents".
template <value A, class Options>
[[nodiscard]] constexpr auto local_response_norm(A x, Options options) {
  MEGANEURA_EXPECT((detail::has_groups(x.facts().shape, 1) && detail::spatial_places(x.facts().shape).is_static() &&
                    static_cast<local_response_options>(options).size >= 1),
                   "meganeura: local_response_norm<options>(x): x must be [n, c, ..] of known extents but for n, and "
                   "size is at least 1",
                   x)
  MEGANEURA_EXPECT_FLOATS("local_response_norm<options>(x)", x)
  return detail::layer<layers::local_response_norm>(fixed_text<"">{}, x, options);
}
template <local_response_options Options = local_response_options{}, value A>
[[nodiscard]] constexpr auto local_response_norm(A x) {
  return local_response_norm(x, c<Options>);
}

/// v with rows of the lengths g: g v / |v| for each first index. torch._weight_norm, of dim 0.
/// shapes: v [out, ..], g [out, 1, ..] -> v's. errors: "g must hold one number for each row of v".
template <value V, value G>
[[nodiscard]] constexpr auto weight_norm(V v, G g) {
  MEGANEURA_EXPECT((v.facts().shape.rank >= 2 && v.facts().shape.is_static() && g.facts().shape.is_static() &&
                    g.facts().shape.coefficient() == v.facts().shape[0].coefficient),
                   "meganeura: weight_norm(v, g): g must hold one number for each row of v, of known extents", v, g)
  MEGANEURA_EXPECT(detail::floats_of_one_type(v.facts(), g.facts()),
                   "meganeura: weight_norm(v, g): both must be floats of one dtype; cast them", v, g)
  return detail::layer<layers::weight_norm>(fixed_text<"">{}, v, g);
}

/// linear with weight_norm of its weight, as torch.nn.utils.weight_norm(torch.nn.Linear(in, out)). There weight_g
/// begins as the lengths of weight_v's rows, here as what these are on average.
template <detail::name_like Name, value A, class Out, class Options = fixed<linear_options{}>>
[[nodiscard]] constexpr auto weight_norm_linear(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT(detail::has_last_extent(x.facts().shape),
                   "meganeura: weight_norm_linear<name, out>(x): x needs a last extent that is a number, not a symbol",
                   name, x)
  MEGANEURA_EXPECT_FLOATS("weight_norm_linear<name, out>(x)", x, name)
  MEGANEURA_EXPECT(out >= 1, "meganeura: weight_norm_linear<name, out>(x): out is at least 1", name, x)
  return detail::layer<layers::weight_norm_linear>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, linear_options Options = linear_options{}, value A>
[[nodiscard]] constexpr auto weight_norm_linear(A x) {
  return weight_norm_linear(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(weight_norm_linear, "weight_norm_linear<name, out>(x)")

/// conv1d, conv2d or conv3d, whichever x is of, with weight_norm of its filters:
/// torch.nn.utils.weight_norm(torch.nn.Conv2d(c, out, kernel)); weight_g begins as weight_norm_linear's.
template <detail::name_like Name, value A, class Out, class Options = fixed<conv_options{}>>
[[nodiscard]] constexpr auto weight_norm_conv(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT(
      (x.facts().shape.rank >= 3 && x.facts().shape.rank <= 5 &&
       detail::is_geometry(options, x.facts().shape.rank - 2) &&
       detail::fits_groups(x.facts().shape, out, options, x.facts().shape.rank - 2)),
      "meganeura: weight_norm_conv<name, out, options>(x): x must be [n, c, ..] of one to three axes more, "
      "c and out multiples of groups; kernel, stride, dilation and groups are at least 1, padding 0, each one number "
      "or one of each axis",
      name, x)
  MEGANEURA_EXPECT_FLOATS("weight_norm_conv<name, out, options>(x)", x, name)
  MEGANEURA_EXPECT(detail::has_room(x.facts().shape, options),
                   "meganeura: weight_norm_conv<name, out, options>(x): the window must fit into x's known extents",
                   name, x)
  return detail::layer<layers::weight_norm_conv>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, conv_options Options = conv_options{}, value A>
[[nodiscard]] constexpr auto weight_norm_conv(A x) {
  return weight_norm_conv(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(weight_norm_conv, "weight_norm_conv<name, out, options>(x)")

}  // namespace meganeura::inline MEGANEURA_ABI
