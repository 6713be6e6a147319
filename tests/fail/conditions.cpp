// SPDX-License-Identifier: MIT
// What takes numbers is given conditions, and the other way round.
// expect 1: meganeura: a \+ b: a condition is no number; select
// expect 2: meganeura: less\(a, b\): a condition is no number
// expect 3: meganeura: abs\(x\): a condition is no number
// expect 4: meganeura: -x: a condition is no number
// expect 5: meganeura: logical_and\(a, b\): a and b must be conditions
// expect 6: meganeura: logical_not\(a\): a must be a condition
// expect 7: meganeura: a condition is no number: select, logical_and, logical_or and logical_not take it
// expect 8: meganeura: softmax<axis>\(x\): x must be floats
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    [[maybe_unused]] auto positive = mn::less(mn::constant<0.0f>, x);
#if MEGANEURA_EXPECT_FAILURE == 1
    return mn::select(positive + positive, x, -x);
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::select(mn::less(positive, positive), x, -x);
#elif MEGANEURA_EXPECT_FAILURE == 3
    return mn::abs(positive);
#elif MEGANEURA_EXPECT_FAILURE == 4
    return -positive;
#elif MEGANEURA_EXPECT_FAILURE == 5
    return mn::select(mn::logical_and(x, x), x, -x);
#elif MEGANEURA_EXPECT_FAILURE == 6
    return mn::select(mn::logical_not(x), x, -x);
#elif MEGANEURA_EXPECT_FAILURE == 7
    return mn::sum(positive);
#elif MEGANEURA_EXPECT_FAILURE == 8
    return mn::softmax(positive);
#else
    return mn::select(mn::logical_and(positive, mn::logical_not(positive)), x, -x);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank <= 4);
