// SPDX-License-Identifier: MIT
// Two results of one name.
// expect: meganeura: results<names...>\(values...\): names differ, and none is empty
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define SECOND "y"
#else
#define SECOND "x"
#endif

struct heads {
  static constexpr auto forward(mn::value auto x) { return mn::results<"y", SECOND>(mn::linear<"y", 3>(x), x); }
};
using model = mn::model<heads, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::result_count == 2);
