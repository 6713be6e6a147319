// SPDX-License-Identifier: MIT
// A value compared as if it had a number already.
// expect 1: meganeura: a > b: a value has no number while a model is written; write select\(less\(b, a\), x, y\)
// expect 2: meganeura: a > b: a value has no number while a model is written; write select\(less\(b, a\), x, y\)
// expect 3: meganeura: a <= b: a value has no number while a model is written; write select\(less_equal\(a, b\), x, y\)
// expect 4: meganeura: select\(c, a, b\): c is known while the model is written
// bytes: 2200
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
#if MEGANEURA_EXPECT_FAILURE == 1
    if (x > 0.0f) return x;
    return x;
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::select(x > 0.0f, x, 0.0f);
#elif MEGANEURA_EXPECT_FAILURE == 3
    return mn::select(x <= mn::constant<0.0f>, x, -x);
#elif MEGANEURA_EXPECT_FAILURE == 4
    return mn::select(true, x, -x);
#else
    return mn::select(mn::less(mn::constant<0.0f>, x), x, -x);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output.rank == 1);
