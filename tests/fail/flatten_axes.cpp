// SPDX-License-Identifier: MIT
// Flattening axes that are not there.
// expect: meganeura: flatten<first, last>\(x\): x has no such axes
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int last = 3;
#else
inline constexpr int last = 2;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::flatten<1, last>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8, 2>>>;
static_assert(model::output.rank <= 3);
