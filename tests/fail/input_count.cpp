// SPDX-License-Identifier: MIT
// A model of two inputs whose forward takes one value.
// expect: meganeura: forward\(x...\): a module needs a static function forward that takes one value for each input
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
#ifdef MEGANEURA_EXPECT_FAILURE
  static constexpr auto forward(mn::value auto x) { return x * x; }
#else
  static constexpr auto forward(mn::value auto x, mn::value auto y) { return x * y; }
#endif
};
using model =
    mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>, mn::input<"y", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output.rank <= 1);
