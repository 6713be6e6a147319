// SPDX-License-Identifier: MIT
// A dropout more likely than certain: the compiler shows the probability.
// expect: meganeura: dropout<name, p>\(x\): p must be from 0 to 1
// expect: 1\.5
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr double p = 1.5;
#else
inline constexpr double p = 0.5;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::dropout<"drop", p>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 4>>>;
static_assert(model::parameter_count == 0);
