// SPDX-License-Identifier: MIT
// Convolutions of no groups, of groups that do not divide, of places that are not known and of too few.
// expect 1: meganeura: conv2d<name, out, options>\(x\): kernel, stride, dilation and groups must be at least 1
// expect 2: meganeura: conv2d<name, out, options>\(x\): c must be a multiple of groups
// expect 3: meganeura: conv2d<name, out, options>\(x\): out must be at least 1 and a multiple of groups
// expect 4: meganeura: conv2d<name, out, options>\(x\): h and w must be known; of symbols only n is one
// expect 5: meganeura: conv2d<name, out, options>\(x\): the window, dilation \(kernel - 1\) \+ 1, must fit into h and w
// expect 6: meganeura: conv_transpose2d<name, out, options>\(x\): output_padding must be at least 0, and less than
// bytes: 3500
#include <meganeura/frontend.hpp>
#include <meganeura/nn/conv_forms.hpp>

namespace mn = meganeura;

#ifndef MEGANEURA_EXPECT_FAILURE
#define MEGANEURA_EXPECT_FAILURE 0
#endif
inline constexpr int wrong = MEGANEURA_EXPECT_FAILURE;
inline constexpr mn::conv2d_options options{.kernel = wrong == 5 ? 9 : 3,
                                            .groups = wrong == 1   ? 0
                                                      : wrong == 2 ? 3
                                                                   : 2};
inline constexpr int out = wrong == 3 ? 5 : 4;
inline constexpr mn::dim height = wrong == 4 ? mn::dim(mn::sym<"height">) : mn::dim(8);

struct network {
  static constexpr auto forward(mn::value auto x) {
    if constexpr (wrong == 6)
      return mn::conv_transpose2d<"t", 4, mn::conv_transpose_options{.output_padding = 1}>(x);
    else
      return mn::conv2d<"c", out, options>(x);
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<2, 4, height, 8>>>;
static_assert(model::output.rank == 4);
