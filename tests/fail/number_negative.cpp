// SPDX-License-Identifier: MIT
// A negative number added to integers without a sign.
// expect: meganeura: a \+ b: the dtype does not hold that number .*; cast it to f32
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dtype type = mn::dtype::u32;
#else
inline constexpr mn::dtype type = mn::dtype::f32;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return x + mn::constant<-1>; }
};
using model = mn::model<network, mn::input<"x", type, mn::dims<4, 8>>>;
static_assert(model::output.rank == 2);
