// SPDX-License-Identifier: MIT
// Operands of different rank, one behind the other.
// expect: meganeura: concat<axis>\(a, b\): all extents but those along the axis must be equal
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
#ifdef MEGANEURA_EXPECT_FAILURE
  static constexpr auto forward(mn::value auto x) { return mn::concat<1>(x, mn::sum<0>(x)); }
#else
  static constexpr auto forward(mn::value auto x) { return mn::concat<1>(x, x); }
#endif
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank == 2);
