// SPDX-License-Identifier: MIT
// A plain number cannot become part of a type.
// expect: write x \* mn::constant<2.0f>
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct doubled {
  static constexpr auto forward(mn::value auto x) {
#ifdef MEGANEURA_EXPECT_FAILURE
    return x * 2.0f;
#else
    return x * mn::constant<2.0f>;
#endif
  }
};
using model = mn::model<doubled, mn::input<"x", mn::dtype::f32, mn::dims<8>>>;
static_assert(model::output.rank == 1);
