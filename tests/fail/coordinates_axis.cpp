// SPDX-License-Identifier: MIT
// Indices along an axis that is not there.
// expect: meganeura: coordinates<dims, axis>: the shape has no such axis
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int axis = 1;
#else
inline constexpr int axis = 0;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) {
    return x * mn::cast<mn::dtype::f32>(mn::coordinates<mn::dims<8>, axis>);
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank == 2);
