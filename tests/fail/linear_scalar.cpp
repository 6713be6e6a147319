// SPDX-License-Identifier: MIT
// A layer over a single number.
// expect: meganeura: linear<name, out>\(x\): x needs a last extent that is a number
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
#ifdef MEGANEURA_EXPECT_FAILURE
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 3>(mn::sum(x)); }
#else
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 3>(mn::sum<0>(x)); }
#endif
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank <= 2);
