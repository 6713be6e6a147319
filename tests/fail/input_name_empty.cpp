// SPDX-License-Identifier: MIT
// An input without a name.
// expect: meganeura: input<name, dtype, dims>: a name is neither empty nor holds a zero byte
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define NAME ""
#else
#define NAME "x"
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return x * x; }
};
using model = mn::model<network, mn::input<NAME, mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output.rank == 1);
