// SPDX-License-Identifier: MIT
// A plain number cannot become part of a type.
// expect 1: meganeura: a \* b: beside a type a number is part of it; write constant<2.0f> for 2.0f
// expect 2: meganeura: maximum\(a, b\): beside a type a number is part of it
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
#if MEGANEURA_EXPECT_FAILURE == 1
    return x * 2.0f;
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::maximum(x, 0.0f);
#else
    return mn::maximum(x * mn::constant<2.0f>, mn::constant<0.0f>);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank <= 4);
