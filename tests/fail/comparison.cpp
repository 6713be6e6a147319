// SPDX-License-Identifier: MIT
// A value compared as if it had a number already.
// expect: meganeura: a > b: a value has no number while a model is written; write select\(less\(b, a\), x, y\)
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
#ifdef MEGANEURA_EXPECT_FAILURE
    if (x > 0.0f) return x;
    return x;
#else
    return mn::select(mn::less(mn::constant<0.0f>, x), x, -x);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output.rank == 1);
