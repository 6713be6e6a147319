// SPDX-License-Identifier: MIT
// What denoisers and decoders of images are written with.
#pragma once
#include <meganeura/nn/conv.hpp>
#include <meganeura/ops/rearrange.hpp>

namespace meganeura::inline MEGANEURA_ABI::models {

/// A square convolution that keeps the size of the image, or divides it by the stride.
template <fixed_string Name, int Out, int Kernel, int Stride = 1, bool Bias = true>
constexpr auto convolved(value auto x) {
  return conv2d<Name, Out, conv2d_options{.kernel = Kernel, .stride = Stride, .padding = Kernel / 2, .bias = Bias}>(x);
}

/// Twice as high and as wide, by the nearest element.
constexpr auto doubled(value auto x) { return repeat_interleave<-1, 2>(repeat_interleave<-2, 2>(x)); }

}  // namespace meganeura::inline MEGANEURA_ABI::models
