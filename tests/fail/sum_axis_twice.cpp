// SPDX-License-Identifier: MIT
// A sum over one axis by two names.
// expect: meganeura: sum<axes...>\(x\): an axis is named twice
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int second = -2;
#else
inline constexpr int second = -1;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::sum<0, second>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank <= 2);
