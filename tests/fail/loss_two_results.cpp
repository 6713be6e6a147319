// SPDX-License-Identifier: MIT
// A loss of one result for a model of two.
// expect: meganeura: forward\(x...\): a module needs a static function forward that takes .* for each result of the
// model
// bytes: 3400
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct heads {
  static constexpr auto forward(mn::value auto x) {
    auto y = mn::linear<"y", 3>(x);
#ifdef MEGANEURA_EXPECT_FAILURE
    return mn::results<"y", "x">(y, x);
#else
    return y;
#endif
  }
};
using model = mn::model<heads, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
using trained = mn::detail::trained<model, mn::cross_entropy<"label">>;
static_assert(trained::input_index("label") == 1);
