// SPDX-License-Identifier: MIT
// Axes that are not there.
// expect 1: meganeura: mean<axes...>\(x\): x has no such axis
// expect 2: meganeura: softmax<axis>\(x\): x has no such axis
// expect 3: meganeura: permute<axes...>\(x\): each axis of x must be named exactly once
// expect 4: meganeura: flip<axis>\(x\): x has no such axis
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
#if MEGANEURA_EXPECT_FAILURE == 1
    return mn::mean<2>(x);
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::softmax<2>(x);
#elif MEGANEURA_EXPECT_FAILURE == 3
    return mn::permute<0, 2>(x);
#elif MEGANEURA_EXPECT_FAILURE == 4
    return mn::flip<-3>(x);
#else
    return mn::mean<-2>(x);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank <= 4);
