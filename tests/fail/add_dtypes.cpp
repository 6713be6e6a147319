// SPDX-License-Identifier: MIT
// Integers added to floats.
// expect: meganeura: a \+ b: dtypes must agree; cast one operand
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dtype type = mn::dtype::i32;
#else
inline constexpr mn::dtype type = mn::dtype::f32;
#endif

struct sum {
  static constexpr auto forward(mn::value auto a, mn::value auto b) { return a + b; }
};
using model = mn::model<sum, mn::input<"a", mn::dtype::f32, mn::dims<8>>, mn::input<"b", type, mn::dims<8>>>;
static_assert(model::output.rank == 1);
