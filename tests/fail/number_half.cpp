// SPDX-License-Identifier: MIT
// A mask's number that f16 would make infinite, and NaN where it meets 0.
// expect: meganeura: a \* b: the dtype does not hold that number .*; cast it to f32
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dtype type = mn::dtype::f16;
#else
inline constexpr mn::dtype type = mn::dtype::f32;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return x * mn::constant<-1e9f>; }
};
using model = mn::model<network, mn::input<"x", type, mn::dims<4, 8>>>;
static_assert(model::output.rank == 2);
