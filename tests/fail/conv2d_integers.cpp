// SPDX-License-Identifier: MIT
// Convolutions and means of windows of integers.
// expect 1: meganeura: conv2d<name, out, options>\(x\): x must be floats; cast it
// expect 2: meganeura: convolution<options>\(x, filter\): both must be floats of one dtype; cast them
// expect 3: meganeura: avg_pool2d<options>\(x\): x must be floats; cast it
// bytes: 3900
#include <meganeura/operations.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    auto floats = mn::cast<mn::dtype::f32>(x);
#if MEGANEURA_EXPECT_FAILURE == 1
    return mn::conv2d<"c", 4>(x);
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::convolution<mn::conv2d_options{}>(floats, mn::parameter<"w", mn::dims<4, 3, 3, 3>, mn::dtype::f16>);
#elif MEGANEURA_EXPECT_FAILURE == 3
    return mn::avg_pool2d(x);
#else
    return mn::avg_pool2d(
        mn::convolution<mn::conv2d_options{}>(mn::conv2d<"c", 3>(floats), mn::parameter<"w", mn::dims<4, 3, 3, 3>>));
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::i32, mn::dims<1, 3, 8, 8>>>;
static_assert(model::output.rank == 4);
