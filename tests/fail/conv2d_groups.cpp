// SPDX-License-Identifier: MIT
// A convolution of no groups.
// expect: meganeura: conv2d<name, out, options>\(x\): kernel, stride, dilation and groups are at least 1
// bytes: 3100
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::conv2d_options options{.groups = 0};
#else
inline constexpr mn::conv2d_options options{.groups = 2};
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::conv2d<"c", 4, options>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<2, 4, 8, 8>>>;
static_assert(model::output.rank == 4);
