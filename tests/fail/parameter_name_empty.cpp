// SPDX-License-Identifier: MIT
// A parameter without a name.
// expect: meganeura: parameter, state or random<name, dims>: a name is neither empty nor holds a zero byte
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define NAME ""
#else
#define NAME "scale"
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return x * mn::parameter<NAME, mn::dims<4>>; }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output.rank == 1);
