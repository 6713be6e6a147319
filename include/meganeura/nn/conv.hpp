// SPDX-License-Identifier: MIT
// Convolution layer.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/window.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
constexpr bool is_geometry(const conv2d_options& o) {
  return o.groups >= 1 && o.kernel >= 1 && o.stride >= 1 && o.dilation >= 1 && o.padding >= 0;
}
constexpr bool fits_groups(const symbolic_shape& x, std::int64_t out, const conv2d_options& o) {
  return x.rank == 4 && x[1].is_static() && x[1].coefficient % o.groups == 0 && out >= 1 && out % o.groups == 0;
}
}  // namespace detail

namespace layers {
/// Parameters "weight" [out, c / groups, kernel, kernel] and "bias" [out].
struct conv2d {
  static constexpr auto forward(value auto x, std::int64_t out, conv2d_options options) {
    const detail::facts in = x.facts();
    const symbolic_shape filter =
        detail::extents_of(out, in.shape[1].coefficient / options.groups, options.kernel, options.kernel);
    const auto y = convolution(x, detail::parameter_of<"weight">(x, filter, in.type, options.weight), options);
    if (!options.bias) return y;
    const initializer begin = detail::bias_of(options.bias_begin, filter.coefficient() / out);
    return y + reshape(detail::parameter_of<"bias">(x, detail::extents_of(out), in.type, begin),
                       detail::extents_of(out, 1, 1));
  }
};
}  // namespace layers

/// As torch.nn.Conv2d with square kernels: conv2d<"conv", out, options>(x), or conv2d("conv", x, out, options) at run
/// time. shapes: [n, c, h, w] -> [n, out, oh, ow]. errors: "kernel, stride, dilation and groups are at least 1", "x
/// must be floats", "c and out multiples of groups", "the window must fit". cost: that of `convolution`.
template <detail::name_like Name, value A, class Out, class Options = fixed<conv2d_options{}>>
[[nodiscard]] constexpr auto conv2d(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT(
      detail::is_geometry(options),
      "meganeura: conv2d<name, out, options>(x): kernel, stride, dilation and groups are at least 1, padding 0", x)
  MEGANEURA_EXPECT(is_float(x.facts().type), "meganeura: conv2d<name, out, options>(x): x must be floats; cast it", x)
  MEGANEURA_EXPECT(detail::fits_groups(x.facts().shape, out, options),
                   "meganeura: conv2d<name, out, options>(x): x must be [n, c, h, w], c and out multiples of groups", x)
  MEGANEURA_EXPECT(detail::has_room(x.facts().shape, options),
                   "meganeura: conv2d<name, out, options>(x): the window must fit into [n, c, h, w] of known h and w",
                   x)
  return detail::layer<layers::conv2d>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, conv2d_options Options = conv2d_options{}, value A>
[[nodiscard]] constexpr auto conv2d(A x) {
  return conv2d(fixed_text<Name>{}, x, c<Out>, c<Options>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
