// SPDX-License-Identifier: MIT
// The transpose of a vector.
// expect: meganeura: transpose\(x\): x needs two axes
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
#ifdef MEGANEURA_EXPECT_FAILURE
  static constexpr auto forward(mn::value auto x) { return mn::transpose(mn::sum<0>(x)); }
#else
  static constexpr auto forward(mn::value auto x) { return mn::transpose(x); }
#endif
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank <= 2);
