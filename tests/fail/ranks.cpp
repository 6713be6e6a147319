// SPDX-License-Identifier: MIT
// Operands of a wrong rank; the message shows their shape.
// expect 1: meganeura: conv2d<name, out, options>\(x\): x must be \[n, c, h, w\]
// expect 2: meganeura: transpose\(x\): x needs two axes
// expect 3: meganeura: expand<dims>\(x\): trailing extents must be equal or 1
// expect 4: meganeura: max_pool2d<options>\(x\): the window must fit
// expect 1: f32, 4L?, 8L?>
// expect 3: f32, 4L?, 8L?>
#include <meganeura/operations.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
#if MEGANEURA_EXPECT_FAILURE == 1
    return mn::conv2d<"conv", 4>(x);
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::transpose(mn::sum<0>(x));
#elif MEGANEURA_EXPECT_FAILURE == 3
    return mn::expand<mn::dims<3, 4, 7>>(x);
#elif MEGANEURA_EXPECT_FAILURE == 4
    return mn::max_pool2d<>(mn::sum<0>(x));
#else
    return mn::expand<mn::dims<3, 4, 8>>(x);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank <= 4);
