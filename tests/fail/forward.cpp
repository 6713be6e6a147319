// SPDX-License-Identifier: MIT
// Modules that cannot be called: no static function, too few operands, nothing returned.
// expect 1: meganeura: forward\(x...\): a module needs a static function forward that takes one value for each input
// expect 2: meganeura: forward\(x...\): a module needs a static function forward that takes one value for each input
// expect 3: meganeura: forward\(x\): a module must return a value
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
#if MEGANEURA_EXPECT_FAILURE == 1
  constexpr auto forward(mn::value auto x) const { return -x; }
#elif MEGANEURA_EXPECT_FAILURE == 2
  static constexpr auto forward(mn::value auto x, mn::value auto y) { return x * y; }
#elif MEGANEURA_EXPECT_FAILURE == 3
  static constexpr auto forward(mn::value auto) { return 2.0f; }
#else
  static constexpr auto forward(mn::value auto x) { return -x; }
#endif
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output.rank <= 1);
