// SPDX-License-Identifier: MIT
// Convolution layer.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/window.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace modules {
/// Parameters "weight" [Out, c / groups, kernel, kernel] and "bias" [Out].
template <std::int64_t Out, conv2d_options Options>
struct conv2d {
  static constexpr auto forward(value auto x) {
    using input = decltype(x);
    constexpr symbolic_shape filter =
        dims<Out, input::shape[1].coefficient / Options.groups, Options.kernel, Options.kernel>;
    auto y = convolution<Options>(x, parameter<"weight", filter, input::element_type>);
    if constexpr (Options.bias) {
      return y + reshape<dims<Out, 1, 1>>(parameter<"bias", dims<Out>, input::element_type>);
    } else {
      return y;
    }
  }
};
}  // namespace modules

/// As torch.nn.Conv2d with square kernels.
/// shapes: [n, c, h, w] -> [n, Out, oh, ow]. errors: those of `convolution`. cost: see there.
template <fixed_string Name, std::int64_t Out, conv2d_options Options = conv2d_options{}, auto A>
[[nodiscard]] constexpr auto conv2d(expr<A> x) {
  constexpr const symbolic_shape& shape = *A.root().shape;
  constexpr int groups = Options.groups < 1 ? 1 : Options.groups;
  constexpr bool fits =
      shape.rank == 4 && shape[1].is_static() && shape[1].coefficient % groups == 0 && Out >= 1 && Out % groups == 0;
  static_assert(
      Options.groups >= 1 && Options.kernel >= 1 && Options.stride >= 1 && Options.dilation >= 1 &&
          Options.padding >= 0,
      "meganeura: conv2d<name, out, options>(x): kernel, stride, dilation and groups are at least 1, padding 0");
  static_assert(fits,
                "meganeura: conv2d<name, out, options>(x): x must be [n, c, h, w], c and out multiples of groups");
  if constexpr (fits && Options.groups >= 1 && Options.kernel >= 1 && Options.stride >= 1 && Options.dilation >= 1 &&
                Options.padding >= 0) {
    return call<Name, modules::conv2d<Out, Options>>(x);
  } else {
    return x;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
