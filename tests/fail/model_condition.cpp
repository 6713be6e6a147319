// SPDX-License-Identifier: MIT
// A model whose result is a condition.
// expect: meganeura: model: forward returns a condition, which is never stored
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    auto positive = mn::less(mn::constant<0.0f>, x);
#ifdef MEGANEURA_EXPECT_FAILURE
    return positive;
#else
    return mn::select(positive, x, mn::constant<0.0f>);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output.rank == 1);
