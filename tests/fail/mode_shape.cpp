// SPDX-License-Identifier: MIT
// A module that gives another shape when it is evaluated.
// expect: meganeura: when_training\(x, f, g\): f\(\) and g\(\) must have one shape and dtype
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    return mn::when_training(
        x, [&] { return x; },
        [&] {
#ifdef MEGANEURA_EXPECT_FAILURE
          return mn::sum<0>(x);
#else
          return x * x;
#endif
        });
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4>>>;
static_assert(model::output == mn::dims<4>);
