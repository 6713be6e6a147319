// SPDX-License-Identifier: MIT
// A symbol whose name a zero byte cuts.
// expect: meganeura: sym<name>: a name is neither empty nor holds a zero byte
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define NAME "batch\0size"
#else
#define NAME "batch"
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return x * x; }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<mn::sym<NAME>, 4>>>;
static_assert(model::output.rank == 2);
