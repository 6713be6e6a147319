// SPDX-License-Identifier: MIT
// The exponential of integers.
// expect: meganeura: exp\(x\): x must be floats; cast it
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dtype type = mn::dtype::i32;
#else
inline constexpr mn::dtype type = mn::dtype::f32;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::exp(x); }
};
using model = mn::model<network, mn::input<"x", type, mn::dims<4, 8>>>;
static_assert(model::output.rank == 2);
