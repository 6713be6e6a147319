// SPDX-License-Identifier: MIT
// Two small nets with five classes, and data to train them.
#pragma once
#include <meganeura/operations.hpp>

#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

inline constexpr dim batch = sym<"batch">;

struct perceptron {
  static constexpr auto forward(value auto x) { return linear<"fc2", 5>(relu(linear<"fc1", 17>(x))); }
};
template <std::int64_t Features>
using mlp = model<perceptron, input<"x", dtype::f32, dims<batch, Features>>>;

struct convolutional {
  static constexpr auto forward(value auto x) {
    auto image = reshape<dims<batch, 1, 8, 8>>(x);
    auto h = max_pool2d<>(relu(conv2d<"conv", 9, conv2d_options{.kernel = 3, .padding = 1}>(image)));
    return linear<"fc", 5>(flatten(h));
  }
};
using cnn = model<convolutional, input<"x", dtype::f32, dims<batch, 64>>>;

/// Floats in [-1, 1), or integers in [0, below).
template <class Element = float>
std::vector<Element> uniform(std::size_t count, unsigned seed, std::uint32_t below = 5) {
  std::mt19937 random(seed);
  std::vector<Element> values(count);
  for (Element& value : values) {
    if constexpr (std::is_integral_v<Element>)
      value = static_cast<Element>(random() % below);
    else
      value = static_cast<Element>(random() >> 8) / 8388608.0f - 1;
  }
  return values;
}

/// Labels for these nets.
inline std::vector<std::int32_t> classes(std::size_t count, unsigned seed) {
  return uniform<std::int32_t>(count, seed);
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
