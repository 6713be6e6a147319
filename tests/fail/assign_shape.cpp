// SPDX-License-Identifier: MIT
// A state and a value of another shape.
// expect: meganeura: assign\(state, x\): x must have the state's shape and dtype
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int width = 3;
#else
inline constexpr int width = 4;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return x | mn::assign(mn::state<"last", mn::dims<width>>, x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::leaves.size == 1);
