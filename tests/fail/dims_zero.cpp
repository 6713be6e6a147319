// SPDX-License-Identifier: MIT
// An axis without elements.
// expect: meganeura: dims<...>: an extent is at least 1
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int rows = 0;
#else
inline constexpr int rows = 4;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return x * x; }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<rows, 8>>>;
static_assert(model::output.rank == 2);
