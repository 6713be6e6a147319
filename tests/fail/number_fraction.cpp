// SPDX-License-Identifier: MIT
// Half of integers: 0.5 as an i32 would be 0.
// expect: meganeura: a \* b: the dtype does not hold that number .*; cast it to f32
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dtype type = mn::dtype::i32;
#else
inline constexpr mn::dtype type = mn::dtype::f32;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return x * mn::constant<0.5f>; }
};
using model = mn::model<network, mn::input<"x", type, mn::dims<4, 8>>>;
static_assert(model::output.rank == 2);
