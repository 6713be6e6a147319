// SPDX-License-Identifier: MIT
// The mean along an axis that is not there.
// expect: meganeura: mean<axes...>\(x\): x has no such axis
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int axis = 2;
#else
inline constexpr int axis = 1;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::mean<axis>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank <= 2);
