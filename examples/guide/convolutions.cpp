// SPDX-License-Identifier: MIT
// A small U-Net: strided convolutions on the way down, transposed ones and what was there before on the way up.
#include <meganeura/meganeura.hpp>

#include <cmath>
#include <cstddef>

namespace mn = meganeura;

inline constexpr mn::conv_options same{.kernel = 3, .padding = 1};  // as large an image as before
inline constexpr mn::conv_options half{.kernel = 3, .stride = 2, .padding = 1};
inline constexpr mn::conv_transpose_options twice{.kernel = 2, .stride = 2};

template <int Channels, mn::conv_options Options>
struct block {
  static constexpr auto forward(mn::value auto x) {
    return mn::silu(mn::group_norm<"norm", 4>(mn::conv2d<"conv", Channels, Options>(x)));
  }
};
struct unet {
  static constexpr auto forward(mn::value auto x) {  // [n, 1, h, w]
    auto wide = mn::call<"wide", block<8, same>>(x);
    auto small = mn::call<"small", block<16, half>>(wide);
    auto up = mn::conv_transpose2d<"up", 8, twice>(small);
    return mn::conv2d<"out", 1, same>(mn::concat<1>(up, wide));
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<unet, mn::input<"x", mn::dtype::f32, mn::dims<batch, 1, 16, 16>>>;

int main() {
  const mn::device gpu;
  mn::trainer<model, mn::mean_squared_error<"y">> fit(gpu, mn::adam{.learning_rate = 0.01f});
  fit.parameters().init({.seed = 1});
  std::vector<float> x, y;  // stripes, and the same without every other row
  for (std::size_t i = 0; i < 4 * 16 * 16; ++i) {
    y.push_back(std::sin(static_cast<float>(i % 16) * (0.3f + 0.2f * static_cast<float>(i / 256))));
    x.push_back(i / 16 % 2 == 0 ? y.back() : 0);
  }
  float loss = 0;
  for (int step = 0; step < 40; ++step) loss = fit.step(mn::bind<"x">(x), mn::bind<"y">(y)).loss();
  return loss < 0.1f ? 0 : 1;
}
