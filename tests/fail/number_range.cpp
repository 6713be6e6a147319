// SPDX-License-Identifier: MIT
// Integers compared with a number beyond them.
// expect: meganeura: less\(a, b\): the dtype does not hold that number .*; cast it to f32
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dtype type = mn::dtype::i32;
#else
inline constexpr mn::dtype type = mn::dtype::f32;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) {
    return mn::select(mn::less(x, mn::constant<3e9f>), x, mn::constant<0>);
  }
};
using model = mn::model<network, mn::input<"x", type, mn::dims<4, 8>>>;
static_assert(model::output.rank == 2);
